"""The port of turn stores: what is known about turns, and what happened in them.

- **Journal.** What happens in a turn is appended, never changed. Large values are kept once,
  under their hash, so storage grows with what happened and not with its square.
- **Fences.** Each beginning, seal and end of a turn raises its fence. Whoever writes with an
  older one is refused with `StaleTurn`, in the same commit.
- **Leases.** A turn that is being done is so for the time of a lease, by the clock of the store.
  When that is over, anybody may begin it. An owner that begins again takes it back at once.
- **Ends are final.** No write changes a turn that is over.
- **Waiting** costs nothing: a turn that waits for a time, a person or an operator is in the
  store only. `due` lets a loop claim it, once, when it can go on.
- **Streams.** While a model speaks, its words can be read as deltas between journal entries. They
  are on the way only: either the answer comes into the journal, or a mark says that they are void.
- **News.** Whoever waits hears of changes in any process within milliseconds.

All methods may be called from any thread, and are atomic. `StoreUnavailable` means: try again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec


class TurnState(StrEnum):
    #: Nobody has begun it yet.
    ACCEPTED = "accepted"
    RUNNING = "running"
    #: For a time, a person, or an effect that nobody knows about.
    WAITING = "waiting"
    #: Checkpointed; it goes on as soon as somebody begins it.
    SUSPENDED = "suspended"
    #: It does not fit the code any more: a person decides.
    MISMATCHED = "mismatched"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        return self in _ENDS


_ENDS = (TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED)


class Kind(StrEnum):
    """Of journal entries."""

    #: A model has answered.
    MODEL = "model"
    #: A tool is about to be called; then one of the others follows, unless the process dies.
    TOOL_INTENT = "tool_intent"
    TOOL_DONE = "tool_done"
    TOOL_FAILED = "tool_failed"
    #: Nobody knows whether it was done: a person must say so.
    TOOL_UNKNOWN = "tool_unknown"
    #: It was not done, and may be: said by a person.
    TOOL_AGAIN = "tool_again"
    #: It suspended the turn from within, and is entered again.
    TOOL_PAUSED = "tool_paused"
    #: A change of what the agent remembers.
    MEMORY = "memory"
    NOTE = "note"
    SLEEP = "sleep"
    INPUT_ASKED = "input_asked"
    INPUT_GIVEN = "input_given"
    #: Nobody answered in time.
    INPUT_EXPIRED = "input_expired"
    #: The turn was checkpointed here.
    SEAL = "seal"
    #: The turn was left here to somebody who was ready to take it: its value says to whom.
    HANDED_OVER = "handed_over"
    #: What does not fit the code is set aside; the turn goes on from what does.
    RESTART = "restart"


# What is kept. Structs are made and changed many times faster than dataclasses, and each commit
# does both. The collector need not look at them: they hold no containers.


@dataclass(frozen=True, slots=True)
class NewTurn:
    loop: str
    #: What is asked, as JSON.
    request: bytes
    #: The same key is the same turn.
    key: str | None = None
    #: Name of the mailbox that waits for the answer.
    reply_to: str | None = None
    #: Nobody else brings it: the store does, from now on.
    is_due: bool = False


class TurnRecord(msgspec.Struct, frozen=True, gc=False):
    """What is known about a turn, without its journal. Times are the store's, in milliseconds."""

    id: str
    loop: str
    state: TurnState
    #: Hash of what was asked; `TurnStore.value` has it.
    request: str
    key: str | None = None
    reply_to: str | None = None
    fence: int = 0
    #: How often it was begun; and how often in vain: since it last got further, or was left in
    #: good order. Attempts that fail are in vain, whatever they did before that.
    attempt: int = 0
    barren: int = 0
    owner: str = ""
    lease_ms: int = 0
    lease_until: int = 0
    #: Why it is in its state.
    reason: str = ""
    #: From when on a loop may claim it from the store; None: something else brings it.
    due: int | None = None
    #: Hash of the answer.
    result: str | None = None
    #: Of its last journal entry.
    seq: int = 0
    created: int = 0
    changed: int = 0
    ended: int | None = None
    #: Number of its last delta.
    streamed: int = 0
    #: The call of a model whose deltas are neither in the journal nor void; empty if there is none.
    saying: str = ""
    #: The message that brought it last; and the one whose sender the store tells of the end.
    carrier: str = ""
    relieved: str = ""

    @property
    def claim(self) -> Claim:
        return Claim(self.id, self.fence)


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The right to write, until somebody raises the fence."""

    turn_id: str
    fence: int


class NewEntry(msgspec.Struct, frozen=True, gc=False):
    kind: Kind
    name: str = ""
    #: Which call it belongs to: that of the model, below that of the tool that it is part of.
    call_id: str = ""
    #: Hash of what was asked for.
    arguments: str = ""
    #: As JSON.
    value: bytes = b"null"


#: What an event takes in memory beside what it says.
_AROUND_BYTES = 500


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Something that happened in a turn."""

    turn_id: str
    #: Counted from 1, without gaps.
    seq: int
    kind: Kind
    name: str
    call_id: str
    arguments: str
    value: bytes
    #: Under which it was written; 0 if it came from outside.
    fence: int
    at: int

    @property
    def size(self) -> int:
        """About so many bytes."""
        return _AROUND_BYTES + len(self.value)


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of what a model says before its answer is in the journal."""

    turn_id: str
    #: The journal entry that it follows, and its number among the deltas of the turn: from 1,
    #: without gaps.
    after: int
    number: int
    #: Which call of the model: its MODEL entry will have the same.
    call_id: str
    #: None: what was said so far in this call is void, and will be said anew, or never.
    text: str | None
    #: Under which it was written.
    fence: int
    at: int

    @property
    def size(self) -> int:
        """About so many bytes."""
        return _AROUND_BYTES + len(self.text or "")


@dataclass(frozen=True, slots=True)
class Pause:
    """How a turn is left."""

    state: TurnState
    reason: str
    #: After how many milliseconds the store brings it back; None: somebody else does.
    due_in: int | None = None
    #: It failed, and is tried again.
    is_failure: bool = False
    #: Who is ready to take it now.
    handed_to: str = ""
    #: The last entry that whoever leaves it has read. If more has come from outside since, a turn
    #: that is to wait goes on at once: it may be what it waits for.
    known: int | None = None
    #: If it failed: `TurnRecord.barren` as it was when this attempt began. What the attempt did
    #: before it failed takes nothing off that.
    barren: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    state: TurnState
    reason: str = ""
    #: The answer, as JSON.
    result: bytes | None = None
    #: Nobody must be told any more, or somebody else does.
    is_answered: bool = True


class Outcome(StrEnum):
    """What a person found out about an effect."""

    DONE = "done"
    FAILED = "failed"
    #: It did not happen, and may be tried again.
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Size:
    """What a store holds."""

    turns: int
    entries: int
    values: int
    #: Of journals, deltas and values, without what the database needs around them.
    bytes: int


# The port


class TurnStore(Protocol):
    """Raises TurnNotFound for ids that are not there."""

    # Being done

    def accept(self, new: NewTurn) -> TurnRecord:
        """Keep a new turn; the old one if its key is known. Raises KeyReused."""

    def begin(self, turn_id: str, owner: str, lease_ms: int) -> TurnRecord:
        """Do it from now on. Raises TurnBusy, TurnEnded, TurnNotReady."""

    def claim_due(self, loop: str, owner: str, lease_ms: int, limit: int) -> Sequence[TurnRecord]:
        """Begin turns that the store brings back, the longest due first. Those that are over
        come too, as they are, until somebody says `answered`."""

    def extend(self, claims: Sequence[Claim], lease_ms: int) -> Sequence[bool]:
        """Renew leases, in one commit; False for each claim that is good no more."""

    def append(
        self, claim: Claim, entries: Sequence[NewEntry], after: int | None = None
    ) -> TurnRecord:
        """Write to the journal, in one commit. Whoever tries it again, because nobody said what
        became of it, says which entry came before: then it is written once. Raises StaleTurn; and
        AlreadyAnswered for INPUT_EXPIRED if the answer has come meanwhile."""

    def stream(
        self,
        claim: Claim,
        after: int,
        call_id: str,
        text: str | None,
        known: int | None = None,
    ) -> TurnRecord:
        """Add a piece of what a model says; None: what it said in this call is void. Whoever tries
        it again says how many deltas were `known`: what is behind them is not said twice. Raises
        StaleTurn; also if the journal is past the entry `after`: then the text is in it, or
        void."""

    def pause(self, claim: Claim, pause: Pause, entries: Sequence[NewEntry] = ()) -> TurnRecord:
        """Leave it, after these last entries. Raises StaleTurn."""

    def finish(self, claim: Claim, ending: Ending, entries: Sequence[NewEntry] = ()) -> TurnRecord:
        """It is over, after these last entries. Raises StaleTurn."""

    def answered(self, turn_id: str) -> None:
        """Whoever waits was told what came of it: it is due no more."""

    # From outside

    def seal(self, claim: Claim, reason: str, due_in: int | None = None) -> TurnRecord:
        """Suspend it under the hands of whoever does it. Raises StaleTurn if it moved on."""

    def wake(self, turn_id: str) -> TurnRecord:
        """Let a turn that waits, is suspended or mismatched go on now, wherever there is a loop.
        Raises TurnEnded; TurnBusy if it is being done."""

    def cancel(self, turn_id: str, reason: str) -> TurnRecord:
        """End it, whoever does it. Raises TurnEnded."""

    def give_input(self, turn_id: str, call_id: str, value: bytes) -> TurnRecord:
        """Answer a question, and let the turn go on, in one commit. The same answer again is
        fine. Raises NothingAsked, AlreadyAnswered, TurnEnded."""

    def settle(self, turn_id: str, call_id: str, outcome: Outcome, value: bytes) -> TurnRecord:
        """Say what became of an effect, and let the turn go on. Raises as `give_input` does."""

    # Looking

    def get(self, turn_id: str) -> TurnRecord: ...

    def read(self, turn_id: str, after: int = 0) -> Sequence[Entry]:
        """The journal, from the entry after this one on."""

    def read_stream(
        self, turn_id: str, after: int = 0, number: int = 0, *, most_bytes: int | None = None
    ) -> Sequence[Entry | Delta]:
        """Journal and deltas in their order, from behind this place on: so many entries, and
        deltas, are known. An entry comes before the deltas that follow it.

        Up to the first one with which their `size` is more than `most_bytes`: what is behind it is
        not read, so that the beginning of a long turn costs no more than that of a short one."""

    def value(self, digest: str) -> bytes:
        """What is kept under a hash. Raises NotFound."""

    def list(
        self,
        loop: str | None = None,
        state: TurnState | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[TurnRecord]:
        """The newest first; with the id of a turn, those that came `before` it."""

    def find_ids(self, prefix: str, limit: int = 10) -> Sequence[str]:
        """Ids that begin like this, in their order."""

    def effects(self, limit: int = 100) -> Sequence[Entry]:
        """Effects that wait for a person, the oldest first: their TOOL_UNKNOWN entries."""

    def size(self) -> Size: ...

    # Waiting

    def wait_due(self, loop: str, timeout: float | None, stop: threading.Event) -> bool:
        """Wait until `claim_due` may find something: True. False at the timeout, and at once when
        `stop` is set or the store closed."""

    def wait_news(self, turn: TurnRecord, timeout: float | None, stop: threading.Event) -> bool:
        """Wait until the turn is not as it was, also by a delta: True. False as above."""

    def watch(self, turn_id: str, told: Callable[[], None]) -> Callable[[], None]:
        """The same without a thread, for thousands of turns: `told` is called when the turn may
        have changed, or the store is closed, on any thread; it must wait for nobody. Watch first,
        then look. Call what this gives, once, to end it."""

    # Who can take turns

    def announce(self, loop: str, owner: str, lease_ms: int, *, is_news: bool = False) -> None:
        """This owner is ready to do turns of the loop, for the time of a lease. Who waits hears of
        it if it was not ready before, or it `is_news`: said to somebody who asks."""

    def withdraw(self, loop: str, owner: str) -> None:
        """It is no more. May be called again."""

    def takers(self, loop: str, since: int = 0) -> Sequence[str]:
        """Owners who are ready now, by the clock of the store, and have said so since this time;
        in the same order for all."""

    def wait_takers(
        self,
        loop: str,
        known: Sequence[str],
        timeout: float | None,
        stop: threading.Event,
        since: int = 0,
    ) -> bool:
        """Wait until `takers` are others than these: True. False as above."""

    # Housekeeping

    def prune(self, ended_before: int) -> int:
        """Delete turns that were over before this time, with their streams, and values that nobody
        needs then; how many turns it were. Those that somebody must still be told about stay."""

    def now_ms(self) -> int:
        """The time of the store."""

    def secret(self) -> bytes:
        """Random bytes, the same for all who use the store: what tokens are signed with unless
        there are other keys."""

    def close(self) -> None:
        """Use it no more in this process. Waits end. May be called again."""
