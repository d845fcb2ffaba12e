# ruff: noqa: S608 - statements are made of constants
"""The queue: which tasks may be claimed, in which order, and when the next one may.

One question says what is claimable. Claiming and waiting both ask it, so that whoever is told of
work also gets it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from afl.db.sqlite import Reader, Row, Transaction
from afl.runtime.entities import TaskDefinition
from afl.runtime.names import is_short, short_name
from afl.runtime.persistence import Claiming
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.table import column_list
from afl.runtime.sql_store.tasks import TASKS

#: A step that has a running task lends no second one.
_FREE = """NOT EXISTS (
    SELECT 1 FROM task AS other INDEXED BY task_running
    WHERE other.step_id = task.step_id AND task.step_id <> '' AND other.state = 'running'
)"""


def _waiting(rank: int, names: str, due: str) -> str:
    """The first tasks of each name. A name that has none costs one look into the index."""
    return f"""\
SELECT {rank}, found.seq, found.step_id
FROM json_each({names}) AS wanted CROSS JOIN task AS found
WHERE found.seq IN (
    SELECT seq FROM task INDEXED BY task_queue
    WHERE state = 'pending' AND task_list_name = :task_list
    AND short_name = wanted.value ->> 0 AND name = wanted.value ->> 1
    AND held = 0 AND {due} AND {_FREE}
    ORDER BY seq LIMIT :limit
)"""


#: Tasks of abandoned claims, in the place in the queue that they had.
_LAPSED = """\
SELECT iif(name IN (SELECT value FROM json_each(:names)), 1, 2), seq, step_id
FROM task INDEXED BY task_running
WHERE state = 'running' AND (lease_expires <= :now OR lease_expires - lease_ms > :now)
AND task_list_name = :task_list AND held = 0
AND (name IN (SELECT value FROM json_each(:names))
    OR short_name IN (SELECT value FROM json_each(:short_names)))"""


_IS_DUE = "not_before BETWEEN 1 AND :now"
_BY_NAME = (_waiting(0, ":exact", _IS_DUE), _waiting(1, ":exact", "not_before = 0"))
_BY_SHORT_NAME = (_waiting(0, ":fitting", _IS_DUE), _waiting(2, ":fitting", "not_before = 0"))


def _in_order(*parts: str) -> str:
    """Retries that have become due, then exact names, then short ones, each oldest first."""
    return "\nUNION ALL\n".join(parts) + "\nORDER BY 1, 2 LIMIT :limit"


class Question(NamedTuple):
    """For those who have short names, and for those who have none: half of the work."""

    full: str
    exact: str

    def rows(self, reader: Reader, wanted: Wanted, limit: int) -> list[Row]:
        sql = self.exact if wanted.fitting == _NONE else self.full
        return reader.query_all(sql, {**wanted._asdict(), "limit": limit})


CANDIDATES = Question(_in_order(*_BY_NAME, *_BY_SHORT_NAME, _LAPSED), _in_order(*_BY_NAME, _LAPSED))
#: Without those of abandoned claims.
WAITING = Question(_in_order(*_BY_NAME, *_BY_SHORT_NAME), _in_order(*_BY_NAME))

#: The next name in the queue that ends in a short one.
NEXT_NAME = """\
SELECT name FROM task INDEXED BY task_queue
WHERE state = 'pending' AND task_list_name = ? AND short_name = ? AND name > ?
ORDER BY name LIMIT 1"""


def _next_due(names: str) -> str:
    return f"""\
SELECT (
    SELECT not_before FROM task INDEXED BY task_queue
    WHERE state = 'pending' AND task_list_name = :task_list
    AND short_name = wanted.value ->> 0 AND name = wanted.value ->> 1
    AND held = 0 AND not_before > :now ORDER BY not_before LIMIT 1
) AS time FROM json_each({names}) AS wanted"""


#: Of leases the next end of all: most are renewed before it comes, and looking once more is cheap.
NEXT_TIME = f"""\
SELECT min(time) FROM (
{_next_due(":exact")}
UNION ALL
{_next_due(":fitting")}
UNION ALL
SELECT min(lease_expires) FROM task INDEXED BY task_running
WHERE state = 'running' AND lease_expires > :now
)"""

#: What `afl.runtime.claims.claimed` does, to many at once: with reading first and writing back, a
#: claim took 22 µs for each task, and not 16.
TAKE = f"""\
UPDATE task SET state = 'running', owner = :owner, fence = fence + 1, deliveries = deliveries + 1,
    lease_ms = :lease_ms, lease_expires = :now + :lease_ms, not_before = 0, updated = :now,
    version = version + 1
WHERE seq IN (SELECT value FROM json_each(:chosen))
RETURNING {column_list(TASKS.fields)}, seq"""
_NONE = to_json([])
_MOST = 100_000  # in one commit


class Wanted(NamedTuple):
    """What a worker can do, at this moment. Names are JSON; in pairs, with their short ones."""

    names: str
    short_names: str
    #: Names that were asked for.
    exact: str
    #: Other names in the queue that end in a short name that was asked for.
    fitting: str
    task_list: str
    now: int

    @classmethod
    def of(cls, reader: Reader, names: Collection[str], task_list: str, now: int) -> Wanted:
        known, short, exact, short_names = _asked(tuple(names))
        fitting = _NONE
        if short_names:
            others = {each for name in short_names for each in _ending_in(reader, name, task_list)}
            fitting = _pairs(sorted(others.difference(names)))
        return cls(known, short, exact, fitting, task_list, now)


@lru_cache(maxsize=64)  # a worker asks for the same names again and again
def _asked(names: tuple[str, ...]) -> tuple[str, str, str, tuple[str, ...]]:
    known = sorted(set(names))
    short = tuple(filter(is_short, known))
    return to_json(known), to_json(short), _pairs(known), short


def _pairs(names: Iterable[str]) -> str:
    return to_json([(short_name(each), each) for each in names])


def _ending_in(reader: Reader, short: str, task_list: str) -> Iterator[str]:
    """Few names end alike, however many tasks have them."""
    name = ""
    while (row := reader.query_one(NEXT_NAME, (task_list, short, name))) is not None:
        (name,) = row
        yield name


def claim(
    tx: Transaction, question: Question, wanted: Wanted, limit: int, owner: str, lease_ms: int
) -> list[TaskDefinition]:
    candidates = question.rows(tx, wanted, min(max(limit, 0), _MOST))
    chosen = list(_of_different_steps(candidates))
    if not chosen:
        return []
    claim = {"owner": owner, "lease_ms": lease_ms, "now": wanted.now, "chosen": to_json(chosen)}
    taken = {seq: TASKS.record(tuple(row)) for *row, seq in tx.query_all(TAKE, claim)}
    return [taken[seq] for seq in chosen]


def fill(tx: Transaction, claimings: Iterable[Claiming], now: int) -> None:
    """Claim what a decision asks for."""
    for each in claimings:
        wanted = Wanted.of(tx, each.names, each.task_list, now)
        each.fill(claim(tx, WAITING, wanted, each.limit, each.owner, each.lease_ms))


def has_work(reader: Reader, wanted: Wanted) -> bool:
    return bool(CANDIDATES.rows(reader, wanted, 1))


def next_time(reader: Reader, wanted: Wanted) -> int | None:
    """When a task may become claimable without anybody's doing; None: never."""
    row = reader.query_one(NEXT_TIME, wanted._asdict())
    return None if row is None else row[0]


def _of_different_steps(rows: Sequence[Row]) -> Iterator[int]:
    seen: set[str] = set()
    for _rank, seq, step in rows:
        if step not in seen:
            yield seq
        if step:
            seen.add(step)
