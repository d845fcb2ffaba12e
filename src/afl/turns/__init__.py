"""Durable turns: what an agent does is journaled, so that it can be stopped, killed and resumed.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(
        (
            *("TurnStore", "TurnRecord", "TurnState", "NewTurn", "Claim", "Kind", "Entry", "Delta"),
            *("NewEntry", "Pause", "Ending", "Outcome", "Size"),
        ),
        "afl.turns.api",
    ),
    "open_turns": "afl.turns.opening",
    "MemoryTurns": "afl.turns.memory",
    "SqliteTurns": "afl.turns.sqlite",
    "PostgresTurns": "afl.turns.postgres",
    "MongoTurns": "afl.turns.mongo",
    "Turn": "afl.turns.journal",
    **dict.fromkeys(("Policy", "Done", "NotDone", "current_effect"), "afl.turns.effects"),
    "Tokens": "afl.turns.tokens",
    **dict.fromkeys(("ToolClient", "AsyncToolClient"), "afl.turns.tool_client"),
    **dict.fromkeys(
        ("IdempotencyMiddleware", "IdempotencyStore", "idempotent", "open_idempotency"),
        "afl.turns.idempotency",
    ),
    **dict.fromkeys(("checkpoint", "checkpoint_id"), "afl.turns.checkpoints"),
    **dict.fromkeys(
        (
            *("TurnError", "TurnNotFound", "TurnBusy", "TurnEnded", "TurnNotReady", "StaleTurn"),
            *("StaleText", "TurnHandedOver"),
            *("KeyReused", "AlreadyAnswered", "NothingAsked", "JournalMismatch", "TurnSuspended"),
            "JournalUnavailable",
            *("TurnCancelled", "ToolFailed", "OutcomeUnknown", "InputTimedOut", "InvalidToken"),
        ),
        "afl.turns.errors",
    ),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.turns.api import Claim as Claim
    from afl.turns.api import Delta as Delta
    from afl.turns.api import Ending as Ending
    from afl.turns.api import Entry as Entry
    from afl.turns.api import Kind as Kind
    from afl.turns.api import NewEntry as NewEntry
    from afl.turns.api import NewTurn as NewTurn
    from afl.turns.api import Outcome as Outcome
    from afl.turns.api import Pause as Pause
    from afl.turns.api import Size as Size
    from afl.turns.api import TurnRecord as TurnRecord
    from afl.turns.api import TurnState as TurnState
    from afl.turns.api import TurnStore as TurnStore
    from afl.turns.checkpoints import checkpoint as checkpoint
    from afl.turns.checkpoints import checkpoint_id as checkpoint_id
    from afl.turns.effects import Done as Done
    from afl.turns.effects import NotDone as NotDone
    from afl.turns.effects import Policy as Policy
    from afl.turns.effects import current_effect as current_effect
    from afl.turns.errors import AlreadyAnswered as AlreadyAnswered
    from afl.turns.errors import InputTimedOut as InputTimedOut
    from afl.turns.errors import InvalidToken as InvalidToken
    from afl.turns.errors import JournalMismatch as JournalMismatch
    from afl.turns.errors import JournalUnavailable as JournalUnavailable
    from afl.turns.errors import KeyReused as KeyReused
    from afl.turns.errors import NothingAsked as NothingAsked
    from afl.turns.errors import OutcomeUnknown as OutcomeUnknown
    from afl.turns.errors import StaleText as StaleText
    from afl.turns.errors import StaleTurn as StaleTurn
    from afl.turns.errors import ToolFailed as ToolFailed
    from afl.turns.errors import TurnBusy as TurnBusy
    from afl.turns.errors import TurnCancelled as TurnCancelled
    from afl.turns.errors import TurnEnded as TurnEnded
    from afl.turns.errors import TurnError as TurnError
    from afl.turns.errors import TurnHandedOver as TurnHandedOver
    from afl.turns.errors import TurnNotFound as TurnNotFound
    from afl.turns.errors import TurnNotReady as TurnNotReady
    from afl.turns.errors import TurnSuspended as TurnSuspended
    from afl.turns.idempotency import IdempotencyMiddleware as IdempotencyMiddleware
    from afl.turns.idempotency import IdempotencyStore as IdempotencyStore
    from afl.turns.idempotency import idempotent as idempotent
    from afl.turns.idempotency import open_idempotency as open_idempotency
    from afl.turns.journal import Turn as Turn
    from afl.turns.memory import MemoryTurns as MemoryTurns
    from afl.turns.mongo import MongoTurns as MongoTurns
    from afl.turns.opening import open_turns as open_turns
    from afl.turns.postgres import PostgresTurns as PostgresTurns
    from afl.turns.sqlite import SqliteTurns as SqliteTurns
    from afl.turns.tokens import Tokens as Tokens
    from afl.turns.tool_client import AsyncToolClient as AsyncToolClient
    from afl.turns.tool_client import ToolClient as ToolClient


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
