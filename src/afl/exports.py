"""Names that a package offers and imports only when they are asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are in other modules.

    `exports` maps each name to its module.
    """

    def get(name: str) -> Any:
        module = exports.get(name)
        if module is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)  # asked for once
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *exports})

    return get, names
