"""Idempotency keys for servers of tools: `IdempotencyMiddleware`, `@idempotent`, and stores.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(
        ("Cells", "IdempotencyStore", "Held", "Kept", "KeyBusy"), "afl.turns.idempotency.api"
    ),
    "IdempotencyMiddleware": "afl.turns.idempotency.middleware",
    "idempotent": "afl.turns.idempotency.functions",
    "open_idempotency": "afl.turns.idempotency.opening",
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.turns.idempotency.api import Cells as Cells
    from afl.turns.idempotency.api import Held as Held
    from afl.turns.idempotency.api import IdempotencyStore as IdempotencyStore
    from afl.turns.idempotency.api import Kept as Kept
    from afl.turns.idempotency.api import KeyBusy as KeyBusy
    from afl.turns.idempotency.functions import idempotent as idempotent
    from afl.turns.idempotency.middleware import IdempotencyMiddleware as IdempotencyMiddleware
    from afl.turns.idempotency.opening import open_idempotency as open_idempotency


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
