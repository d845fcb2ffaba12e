"""The shop of the example, without what makes it act once for each key."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parents[2] / "examples" / "support-agent" / "shop.py"


def without(app: Any, keys: object, **options: Any) -> Any:
    return app


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("shop", SHOP)
    assert spec is not None
    assert spec.loader is not None
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    shop.IdempotencyMiddleware = without  # type: ignore[attr-defined]
    shop.main(*sys.argv[1:])
