"""Words on their way to the stream of a turn: they cost no commit each, and keep nobody waiting.

The first words of a call are written at once, then what has come together, some times in a second.
Threads of their own write them, a few for each store: if the store is slow, pieces grow. What is
not written when the answer is in the journal is never written: the journal has all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias
from weakref import WeakKeyDictionary

from afl.clock import Clock
from afl.errors import StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.turns.api import TurnRecord, TurnStore
from afl.turns.errors import StaleText, TurnError

_log = get_logger(__name__)

#: How long after a piece the next one is written, and how long in an outage.
PACE_S = 0.05
OUTAGE_S = 1.0
#: So many pieces may be on their way to a store at once: they share commits.
_MOST_THREADS = 4
#: How often the place of a piece is looked up anew: remarks come in between.
_TRIES = 3


class Speech:
    """What one call of a model says, in a turn that is as `record` says.

    Never blocks and never raises; safe from any thread.
    """

    def __init__(self, store: TurnStore, record: TurnRecord, call_id: str, clock: Clock) -> None:
        self._store = store
        self._claim = record.claim
        self._after = record.seq
        #: So many deltas are known to be in the stream; and whether there may be more.
        self._known = record.streamed
        self._is_unsure = False
        self._call_id = call_id
        self._clock = clock
        self._writers = writers_of(store, clock)
        self._lock = threading.Lock()
        #: What is to be written; None: what was written is void.
        self._waiting: list[str | None] = []
        self._is_queued = False
        self._was_heard = False
        #: What is written is void, and nobody knows.
        self._is_wrong = False
        #: Nothing more is said; and nothing more is written.
        self._is_mute = self._is_over = False
        self._not_before = 0.0

    def say(self, text: str) -> None:
        with self._lock:
            if text and not self._is_mute:
                self._waiting.append(text)
                self._was_heard = True
                self._queue()

    def begin_again(self) -> None:
        """What was said is void."""
        with self._lock:
            if self._was_heard and not self._is_mute:
                self._waiting = [None]
                self._queue()

    def give_up(self) -> None:
        """There is no answer: what was said is void, and no more is said."""
        self.begin_again()
        self._is_mute = True

    def end(self) -> bool:
        """The answer is there: it will be in the journal. Call this before it is. Whether what was
        written must be taken back before that."""
        with self._lock:
            self._is_mute = self._is_over = True
            return self._is_wrong or None in self._waiting

    def _queue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._writers.put(self._not_before, self.write)

    def write(self) -> None:
        """Write what has come together. Blocks; for the threads that write."""
        with self._lock:
            pieces, self._waiting = _joined(self._waiting), []
            self._is_wrong |= None in pieces
        left = self._written(pieces)
        with self._lock:
            self._not_before = self._clock.monotonic() + (OUTAGE_S if left else PACE_S)
            is_void = None in self._waiting
            self._waiting = self._waiting if is_void else [*left, *self._waiting]
            self._is_queued = False
            if self._waiting and not self._is_over:
                self._queue()

    def _written(self, pieces: Sequence[str | None]) -> Sequence[str | None]:
        """Those that could not be written."""
        for index, each in enumerate(pieces):
            try:
                self._write(each)
                self._is_wrong &= each is not None
            except StoreUnavailable:
                self._is_unsure = True
                return pieces[index:]
            except (TurnError, StoreClosed):
                self.end()  # somebody else has the turn, or nobody
            except Exception:
                _log.exception("words_not_written", turn=self._claim.turn_id)
                self.end()
        return ()

    def _write(self, text: str | None) -> None:
        """Raises StaleTurn if nobody wants to hear it any more."""
        for _ in range(_TRIES):
            # After the place was looked up: an answer that comes later is behind that place.
            if self._is_over:
                return
            known = (self._known,) if self._is_unsure else ()
            try:
                record = self._store.stream(self._claim, self._after, self._call_id, text, *known)
                self._known, self._is_unsure = record.streamed, False
                return
            except StaleText:  # after a remark; or after the answer, and then it is over
                self._after = self._store.get(self._claim.turn_id).seq


def _joined(pieces: Sequence[str | None]) -> list[str | None]:
    """The same in one piece: behind the mark, if there is one."""
    is_void = None in pieces
    text = "".join(each for each in pieces if each is not None)
    return [*([None] if is_void else []), *([text] if text else [])]


_Due: TypeAlias = tuple[float, int, Callable[[], None]]


class Writers:
    """A few threads that do things at their time. They end when there is nothing to do."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._due: list[_Due] = []
        self._numbers = count()
        self._threads = 0

    def put(self, at: float, do: Callable[[], None]) -> None:
        """Do it at this time of the monotonic clock."""
        with self._changed:
            heappush(self._due, (at, next(self._numbers), do))
            self._changed.notify_all()
            is_enough = self._threads >= min(len(self._due), _MOST_THREADS)
            self._threads += not is_enough
        if not is_enough:
            threading.Thread(target=self._work, name="turn-words", daemon=True).start()

    def _work(self) -> None:
        while (do := self._next()) is not None:
            do()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while self._due:
                first = self._due[0]
                left = first[0] - self.clock.monotonic()
                if left <= 0:
                    return heappop(self._due)[2]
                self.clock.wait_for(self._changed, partial(self._is_other, first), left)
            self._threads -= 1
            return None

    def _is_other(self, first: _Due) -> bool:
        return self._due[:1] != [first]


_lock = threading.Lock()
_writers: WeakKeyDictionary[TurnStore, Writers] = WeakKeyDictionary()


def writers_of(store: TurnStore, clock: Clock) -> Writers:
    """Those of all in this process who use the store."""
    with _lock:
        found = _writers.get(store)
        if found is None or found.clock is not clock:
            found = _writers[store] = Writers(clock)
        return found
