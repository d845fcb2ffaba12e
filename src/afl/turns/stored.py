"""A turn store on a shelf: everything that is the same for all databases."""

from __future__ import annotations

import math
import secrets
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from afl.errors import NotFound
from afl.turns import outside, rules, streams, whole
from afl.turns.api import (
    Claim,
    Delta,
    Ending,
    Entry,
    Kind,
    NewEntry,
    NewTurn,
    Outcome,
    Pause,
    Size,
    TurnRecord,
    TurnState,
)
from afl.turns.attending import Attending
from afl.turns.errors import TurnNotFound
from afl.turns.shelf import Shelf, entry_of, kept
from afl.turns.values import digest, encode
from afl.turns.whole import WholeTurn

T = TypeVar("T")


class StoredTurns(Attending):
    """Implements `TurnStore`. Subclasses say how transactions and wake-ups go."""

    #: So many turns are pruned in one commit.
    _most_pruned = 200

    @abstractmethod
    def now_ms(self) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _change(self, fn: Callable[[Shelf], T]) -> T:
        """Run it in a transaction."""

    @abstractmethod
    def _look(self, fn: Callable[[Shelf], T]) -> T:
        """Run it on a shelf, to which it does nothing: it asks one question."""

    def _view(self, fn: Callable[[Shelf], T]) -> T:
        """The same for several questions, which all see one moment."""
        return self._look(fn)

    # Being done

    def accept(self, new: NewTurn) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn_id = rules.turn_id_of(new)
            known = shelf.turn(turn_id)
            if known is not None:
                rules.require_same_request(known, digest(new.request))
                return known
            turn = rules.accepted(turn_id, new, kept(shelf, new.request), shelf.now_ms())
            return self._saved(shelf, turn)

        return self._change(change)

    def begin(self, turn_id: str, owner: str, lease_ms: int) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn = rules.began(_found(shelf, turn_id), owner, lease_ms, shelf.now_ms())
            return self._moved(shelf, turn)

        return self._change(change)

    def claim_due(self, loop: str, owner: str, lease_ms: int, limit: int) -> list[TurnRecord]:
        def change(shelf: Shelf) -> list[TurnRecord]:
            found = shelf.due(loop, limit)
            now = shelf.now_ms()
            claimed = [rules.claimed(each, owner, lease_ms, now) for each in found]
            return [self._moved(shelf, each) for each in claimed]

        # Most looks find nothing, and need no commit.
        if not self._look(lambda shelf: shelf.due(loop, 1)):
            return []
        return self._change(change)

    def extend(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        def change(shelf: Shelf) -> list[bool]:
            held = {each.id: each for each in shelf.turns({each.turn_id for each in claims})}
            now = shelf.now_ms()
            turns = [held.get(each.turn_id) for each in claims]
            longer = [
                turn and rules.extended(turn, claim, lease_ms, now)
                for turn, claim in zip(turns, claims, strict=True)
            ]
            for each in {each.id: each for each in longer if each is not None}.values():
                shelf.save(each)
            return [each is not None for each in longer]

        return self._change(change)

    def append(
        self, claim: Claim, entries: Sequence[NewEntry], after: int | None = None
    ) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            if after is not None:
                turn = _found(shelf, claim.turn_id)
                rules.require_current(turn, claim)
                if outside.was_written(shelf, claim, entries, after):
                    return turn
            return self._saved(shelf, self._write(shelf, claim, entries))

        return self._change(change)

    def stream(
        self,
        claim: Claim,
        after: int,
        call_id: str,
        text: str | None,
        known: int | None = None,
    ) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn = _found(shelf, claim.turn_id)
            rules.require_current(turn, claim)
            rest = text
            if known is not None and text is not None:
                rest = streams.unsaid(shelf, claim, call_id, text, known)
                if not rest:
                    return turn
            rules.require_latest(turn, after)
            return self._saved(shelf, streams.said(shelf, turn, call_id, rest, shelf.now_ms()))

        return self._change(change)

    def pause(self, claim: Claim, pause: Pause, entries: Sequence[NewEntry] = ()) -> TurnRecord:
        entries = [*entries, *_seal(pause)]

        def change(shelf: Shelf) -> TurnRecord:
            turn, now = self._write(shelf, claim, entries, is_left=True), shelf.now_ms()
            paused = rules.paused(turn, pause, now)
            has_news = pause.known is not None and outside.came_since(shelf, turn, pause.known)
            return self._saved(shelf, rules.ready(paused, now) if has_news else paused)

        return self._change(change)

    def finish(self, claim: Claim, ending: Ending, entries: Sequence[NewEntry] = ()) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn = self._write(shelf, claim, entries, is_left=True)
            result = None if ending.result is None else kept(shelf, ending.result)
            return self._saved(shelf, rules.finished(turn, ending, result, shelf.now_ms()))

        return self._change(change)

    def answered(self, turn_id: str) -> None:
        self._change(lambda shelf: outside.answered(shelf, _found(shelf, turn_id)))

    def _write(
        self, shelf: Shelf, claim: Claim, entries: Sequence[NewEntry], *, is_left: bool = False
    ) -> TurnRecord:
        turn, now = _found(shelf, claim.turn_id), shelf.now_ms()
        rules.require_current(turn, claim)
        outside.require_unanswered(shelf, turn, entries)
        turn = streams.heard(shelf, turn, entries, now, is_left=is_left)
        return outside.written(shelf, turn, entries, claim.fence, now)

    def _moved(self, shelf: Shelf, turn: TurnRecord) -> TurnRecord:
        """Under a new fence: whoever had the turn says nothing more."""
        return self._saved(shelf, streams.voided(shelf, turn, shelf.now_ms()))

    def _saved(self, shelf: Shelf, turn: TurnRecord) -> TurnRecord:
        shelf.save(turn)
        shelf.announce(_turn_topic(turn.id))
        if turn.due is not None:
            shelf.announce(_loop_topic(turn.loop))
        return turn

    # From outside

    def seal(self, claim: Claim, reason: str, due_in: int | None = None) -> TurnRecord:
        return self.pause(claim, Pause(TurnState.SUSPENDED, reason, due_in))

    def wake(self, turn_id: str) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            return self._moved(shelf, rules.woken(_found(shelf, turn_id), shelf.now_ms()))

        return self._change(change)

    def cancel(self, turn_id: str, reason: str) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            return self._moved(
                shelf, rules.cancelled(_found(shelf, turn_id), reason, shelf.now_ms())
            )

        return self._change(change)

    def give_input(self, turn_id: str, call_id: str, value: bytes) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn = _found(shelf, turn_id)
            return self._saved(shelf, outside.given(shelf, turn, call_id, value, shelf.now_ms()))

        return self._change(change)

    def settle(self, turn_id: str, call_id: str, outcome: Outcome, value: bytes) -> TurnRecord:
        def change(shelf: Shelf) -> TurnRecord:
            turn, now = _found(shelf, turn_id), shelf.now_ms()
            return self._saved(shelf, outside.settled(shelf, turn, call_id, outcome, value, now))

        return self._change(change)

    # Looking

    def get(self, turn_id: str) -> TurnRecord:
        return self._look(lambda shelf: _found(shelf, turn_id))

    def read(self, turn_id: str, after: int = 0) -> list[Entry]:
        def look(shelf: Shelf) -> list[Entry]:
            _found(shelf, turn_id)
            return [entry_of(shelf, each) for each in shelf.lines(turn_id, after)]

        return self._view(look)

    def read_stream(
        self, turn_id: str, after: int = 0, number: int = 0, *, most_bytes: int | None = None
    ) -> Sequence[Entry | Delta]:
        def look(shelf: Shelf) -> Sequence[Entry | Delta]:
            _found(shelf, turn_id)
            return streams.read(shelf, turn_id, after, number, most_bytes)

        return self._view(look)

    def value(self, digest: str) -> bytes:
        found = self._look(lambda shelf: shelf.value(digest))
        if found is None:
            raise NotFound(f"nothing is kept under {digest}; its turn may have been pruned")
        return found

    def list(
        self,
        loop: str | None = None,
        state: TurnState | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[TurnRecord]:
        def look(shelf: Shelf) -> Sequence[TurnRecord]:
            if before is not None:
                _found(shelf, before)
            return shelf.listed(loop, state, max(limit, 0), before)

        return self._look(look) if before is None else self._view(look)

    def find_ids(self, prefix: str, limit: int = 10) -> Sequence[str]:
        return self._look(lambda shelf: shelf.ids(prefix, max(limit, 0)))

    def effects(self, limit: int = 100) -> Sequence[Entry]:
        return self._view(lambda shelf: outside.unsettled(shelf, limit))

    def size(self) -> Size:
        return self._look(lambda shelf: shelf.size())

    # Waiting

    def wait_due(self, loop: str, timeout: float | None, stop: threading.Event) -> bool:
        def left(shelf: Shelf) -> float:
            due = shelf.next_due(loop)
            return math.inf if due is None else due - shelf.now_ms()

        return self._wait(_loop_topic(loop), lambda: self._look(left), timeout, stop)

    def wait_news(self, turn: TurnRecord, timeout: float | None, stop: threading.Event) -> bool:
        def ms_left() -> float:
            return math.inf if self.get(turn.id) == turn else 0

        return self._wait(_turn_topic(turn.id), ms_left, timeout, stop)

    def watch(self, turn_id: str, told: Callable[[], None]) -> Callable[[], None]:
        return self._watch(_turn_topic(turn_id), told)

    # Who can take turns

    def announce(self, loop: str, owner: str, lease_ms: int, *, is_news: bool = False) -> None:
        def change(shelf: Shelf) -> None:
            is_new = streams.announced(shelf, loop, owner, lease_ms)
            if is_new or is_news:
                shelf.announce(_takers_topic(loop))

        self._change(change)

    def withdraw(self, loop: str, owner: str) -> None:
        def change(shelf: Shelf) -> None:
            shelf.drop_takers([each for each in shelf.takers(loop) if each.owner == owner])
            shelf.announce(_takers_topic(loop))

        self._change(change)

    def takers(self, loop: str, since: int = 0) -> Sequence[str]:
        return self._look(lambda shelf: streams.ready(shelf, loop, since))

    def wait_takers(
        self,
        loop: str,
        known: Sequence[str],
        timeout: float | None,
        stop: threading.Event,
        since: int = 0,
    ) -> bool:
        def ms_left() -> float:
            return math.inf if set(self.takers(loop, since)) == set(known) else 0

        return self._wait(_takers_topic(loop), ms_left, timeout, stop)

    # Housekeeping

    def prune(self, ended_before: int) -> int:
        def change(shelf: Shelf) -> int:
            over = shelf.over(ended_before, self._most_pruned)
            shelf.drop(over)
            return len(over)

        total = 0
        while self._look(lambda shelf: shelf.over(ended_before, 1)):
            pruned = self._change(change)
            total += pruned
            if not pruned:
                break  # somebody else is at it
        return total

    def secret(self) -> bytes:
        found = self._look(lambda shelf: shelf.secret())
        return found or self.share_secret(secrets.token_bytes(32))

    # Moving to another store

    def share_secret(self, secret: bytes) -> bytes:
        """Sign with this one unless there is another; the one that is used now."""

        def change(shelf: Shelf) -> bytes | None:
            shelf.keep_secret(secret)
            return shelf.secret()

        found = self._change(change)
        assert found is not None, "there is one now"
        return found

    def whole(self, turn_id: str) -> WholeTurn | None:
        return self._view(lambda shelf: whole.read(shelf, turn_id))

    def take_over(self, turn: WholeTurn) -> bool:
        """Keep a turn of another store as it was there, unless it is here; whether it was not."""
        return self._change(lambda shelf: whole.put(shelf, turn))


def _found(shelf: Shelf, turn_id: str) -> TurnRecord:
    turn = shelf.turn(turn_id)
    if turn is None:
        raise TurnNotFound(turn_id)
    return turn


def _seal(pause: Pause) -> list[NewEntry]:
    """How people see that a turn was left in good order."""
    if pause.handed_to:
        return [NewEntry(Kind.HANDED_OVER, value=encode(pause.handed_to))]
    is_sealed = pause.state is TurnState.SUSPENDED and not pause.is_failure
    return [NewEntry(Kind.SEAL, value=encode(pause.reason))] if is_sealed else []


def _turn_topic(turn_id: str) -> str:
    return f"turn:{turn_id}"


def _loop_topic(loop: str) -> str:
    return f"turns:{loop}"


def _takers_topic(loop: str) -> str:
    return f"takers:{loop}"
