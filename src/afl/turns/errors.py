# ruff: noqa: N818 - what happened is what callers catch
"""What turns raise. Each belongs to the family of `afl.errors` that says who must act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.errors import AflError, Conflict, NotFound, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from afl.turns.api import TurnRecord


class TurnError(AflError):
    """Root of all errors of turns."""


class TurnNotFound(TurnError, NotFound):
    """No turn is known by this id: it was pruned, or is in another store."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(f"there is no turn {turn_id} here; it may have been pruned")


class TurnBusy(TurnError, Conflict):
    """Somebody else does the turn now. Their lease ends after `seconds_left`, unless renewed."""

    def __init__(self, turn: TurnRecord, seconds_left: float) -> None:
        self.turn = turn
        self.seconds_left = seconds_left
        super().__init__(f"turn {turn.id} is being done by {turn.owner}")


class TurnEnded(TurnError, Conflict):
    """The turn is over; `turn` has what came of it."""

    def __init__(self, turn: TurnRecord) -> None:
        self.turn = turn
        super().__init__(f"turn {turn.id} is over: {turn.state}")


class TurnNotReady(TurnError, Conflict):
    """The turn waits for something that has not come; `turn` says for what."""

    def __init__(self, turn: TurnRecord) -> None:
        self.turn = turn
        super().__init__(f"turn {turn.id} is {turn.state}: {turn.reason}")


class StaleTurn(TurnError, Conflict):
    """The turn was sealed, taken over or ended meanwhile: nothing that is said here counts."""

    def __init__(self, turn_id: str, fence: int, current: int) -> None:
        super().__init__(
            f"turn {turn_id} has moved on: this is attempt {fence}, and the current one {current}"
        )


class StaleText(StaleTurn):
    """The journal has gone on since: it has what was said, or that is void."""

    def __init__(self, turn_id: str, after: int, seq: int) -> None:
        TurnError.__init__(
            self, f"turn {turn_id} has moved on: text after entry {after} came at entry {seq}"
        )


class KeyReused(TurnError, Conflict):
    """The same key came with another request. Use a new key for a new request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} stands for another request; use a new one")


class AlreadyAnswered(TurnError, Conflict):
    """Somebody else has answered the question, or settled the effect, in another way."""


class NothingAsked(TurnError, UsageError):
    """The turn asks no such question, or has no such effect to be settled."""


class JournalUnavailable(TurnError, StoreUnavailable):
    """The journal could not be written for some time. What it has is safe; go on from that."""


class JournalMismatch(TurnError):
    """The code does something else than the journal says was done before.

    It changed while the turn was under way, or does not do the same each time.
    """

    def __init__(self, turn_id: str, seq: int, recorded: str, wanted: str) -> None:
        self.seq = seq
        self.recorded = recorded
        self.wanted = wanted
        super().__init__(
            f"turn {turn_id} does not fit its journal: entry {seq} is {recorded}, but the code "
            f"now wants {wanted}. Run the code that began it, restart it, or cancel it"
        )


class TurnSuspended(TurnError):
    """The turn goes on later, perhaps elsewhere. Whoever has the token may let it go on.

    If it is `detached`, the store brings it back, and whatever brought it here can be let go.
    """

    def __init__(self, reason: str, resume_token: str = "", *, is_detached: bool = True) -> None:
        self.resume_token = resume_token
        self.is_detached = is_detached
        super().__init__(reason)


class TurnHandedOver(TurnSuspended):
    """The turn goes on at once, with `taker`: nobody needs to be told."""

    def __init__(self, turn_id: str, taker: str, *, is_detached: bool) -> None:
        self.taker = taker
        super().__init__(f"turn {turn_id} is handed over to {taker}", is_detached=is_detached)


class TurnCancelled(TurnError):
    """Nobody wants the result of the turn any more."""


class ToolFailed(TurnError):
    """The tool says that it did not work: that is its result, also when the turn is resumed."""


class OutcomeUnknown(TurnError):
    """A tool was asked to do something, and nobody knows whether it did: raised by tools."""


class InputTimedOut(TurnError):
    """Nobody has answered in the time that was given."""


class InvalidToken(TurnError, UsageError):
    """No token of ours, or a changed one, or one whose time is over."""
