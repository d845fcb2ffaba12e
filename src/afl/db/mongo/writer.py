"""The writer: requests that wait together share a transaction.

- There are no savepoints. Requests read first and write last, so one that raises before it has
  written is left out; one that fails while it writes undoes the others with it, and then each of
  them is run alone.
- Nobody waits for a document inside a transaction: who comes second is refused, and runs again
  after a moment.
- A request that met a document which was not there when it looked is run again, and sees it.
- A request that is run alone, and for the first time, may try more than it must do (`Hindered`).
- A commit that was not answered is asked for again, which the server understands, until it says
  what became of it. If it cannot be reached for too long, the callers are told that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK
from afl.db.batching import Batching, Request
from afl.db.mongo.database import MAJORITY, MongoDatabase
from afl.db.mongo.errors import (
    OF_DRIVER,
    is_duplicate,
    is_network,
    is_transient,
    is_unknown,
    meaning_of,
)
from afl.db.mongo.transaction import Hindered, Transaction

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

#: How long to try again while others are in the way, and while the server cannot be reached.
_IN_THE_WAY_S = 30.0
_UNREACHABLE_S = 5.0
#: How long to ask what became of a commit.
_UNKNOWN_S = 10.0
#: Others are in the way for longer than they should be: perhaps they are dead.
_SUSPICIOUS_S = 0.1
_PAUSES = Backoff(initial=0.002, factor=1.6, maximum=0.05, jitter=0.9)

Wish = Request[Transaction]


class Writer(Batching[Transaction]):
    """Writes to one database. `told` gives the time of tests, None for that of the server."""

    def __init__(
        self, database: MongoDatabase, told: Callable[[], int | None], batch_size: int = 64
    ) -> None:
        self._database = database
        self._told = told
        super().__init__(database.place, batch_size, "afl-mongo-writer")

    def _commit(self, requests: Sequence[Wish]) -> None:
        is_lone = len(requests) == 1
        alone = requests if is_lone else self._together(requests)
        for each in alone:
            self._alone(each, may_try=is_lone)

    def _together(self, requests: Sequence[Wish]) -> Sequence[Wish]:
        """Those that must be run alone."""
        try:
            with self._database.session() as session:
                self._in_one_transaction(session, requests)
        except Exception as error:
            if not is_unknown(error):
                return requests
            for each in requests:
                # One exception for each: a shared one would collect the tracebacks of all callers.
                each.error = meaning_of(error, self._place)
        return ()

    def _in_one_transaction(self, session: ClientSession, requests: Sequence[Wish]) -> None:
        begin(session)
        transactions = []
        try:
            for each in requests:
                tx = self._transaction(session)
                transactions.append(tx)
                self._decide(tx, each)
        except BaseException:
            abort(session)
            raise
        self._end_transaction(session, transactions)

    def _decide(self, tx: Transaction, request: Wish) -> None:
        request.value = request.error = None
        try:
            request.value = request.fn(tx)
            tx.flush()
        except BaseException as error:  # also SystemExit: it is the request that ends, not we
            if tx.has_written or isinstance(error, OF_DRIVER):
                raise
            request.error = error
        finally:
            tx.end()

    def _end_transaction(self, session: ClientSession, transactions: Sequence[Transaction]) -> None:
        if not any(each.has_written for each in transactions):
            abort(session)  # what was locked need not be
            return
        commit(session)
        for topic in {topic for each in transactions for topic in each.topics}:
            # Who waits here need not wait for the server to tell.
            self._database.bell.nudge(topic)

    def _alone(self, request: Wish, *, may_try: bool) -> None:
        begun = SYSTEM_CLOCK.monotonic()
        attempts = refusals = 0
        while True:
            attempts += 1
            is_first, may_try = may_try, False
            try:
                request.value = self._transacted(request, may_try=is_first)
                request.error = None
                return
            except Hindered:
                continue  # at once: nothing is in the way of the rest
            except BaseException as error:
                request.error = meaning_of(error, self._place)
                refusals += is_duplicate(error)
                if not self._may_try_again(error, refusals, SYSTEM_CLOCK.monotonic() - begun):
                    return
            SYSTEM_CLOCK.sleep(_PAUSES.delay(attempts))

    def _may_try_again(self, error: BaseException, refusals: int, elapsed_s: float) -> bool:
        if is_duplicate(error):
            return refusals == 1  # else it has looked again
        if not is_transient(error):
            return False
        if is_network(error):
            return elapsed_s < _UNREACHABLE_S
        if elapsed_s > _SUSPICIOUS_S:
            self._database.abandoned.end()
        return elapsed_s < _IN_THE_WAY_S

    def _transacted(self, request: Wish, *, may_try: bool) -> object:
        with self._database.session() as session:
            begin(session)
            tx = self._transaction(session, may_try=may_try)
            try:
                value: object = request.fn(tx)
                tx.flush()
            except BaseException:
                abort(session)
                raise
            finally:
                tx.end()
            self._end_transaction(session, [tx])
            return value

    def _transaction(self, session: ClientSession, *, may_try: bool = False) -> Transaction:
        database = self._database
        return Transaction(
            database.majority,
            session,
            self._now,
            database.next_number,
            is_told=self._told() is not None,
            may_try=may_try,
        )

    def _now(self) -> int:
        told = self._told()
        return self._database.now_ms() if told is None else told


def begin(session: ClientSession) -> None:
    session.start_transaction(
        read_concern=ReadConcern("snapshot"),
        write_concern=MAJORITY,
        read_preference=ReadPreference.PRIMARY,
    )


def commit(session: ClientSession) -> None:
    deadline = SYSTEM_CLOCK.monotonic() + _UNKNOWN_S
    attempts = 0
    while True:
        attempts += 1
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            if not is_unknown(error) or SYSTEM_CLOCK.monotonic() >= deadline:
                raise
        SYSTEM_CLOCK.sleep(_PAUSES.delay(attempts))


def abort(session: ClientSession) -> None:
    """As far as it can be reached: what is lost is given up by the server."""
    with suppress(PyMongoError):
        if session.in_transaction:
            session.abort_transaction()
