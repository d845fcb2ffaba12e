# ruff: noqa: S608 - statements are made of constants
"""The queue: which tasks may be claimed, in which order, and when the next one may.

One question says what is claimable. Claiming and waiting both ask it, so that whoever is told of
work also gets it. Who claims passes over what others are just claiming: nobody waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from afl.db.postgres import Reader, Transaction
from afl.db.postgres.transaction import SERVER_TIME
from afl.runtime.entities import TaskDefinition
from afl.runtime.names import is_short, short_name
from afl.runtime.persistence import Claiming
from afl.runtime.postgres_store.tasks import TASKS
from afl.runtime.rows.table import Row

_CLOCK = f"clock AS MATERIALIZED (SELECT {SERVER_TIME} AS now)"
_NOW = "(SELECT now FROM clock)"
#: Names that were asked for, with what they end in.
_EXACT = "asked (short, name) AS (SELECT * FROM unnest(%(shorts)s::text[], %(names)s::text[]))"
#: Names in the queue that end in a short name that was asked for: few, however many tasks have
#: them, and each costs one look into the index.
_FITTING = """\
walk (short, name) AS (
    SELECT short, '' FROM unnest(%(short_names)s::text[]) AS short
    UNION ALL
    SELECT short, (
        SELECT task.name FROM afl_task AS task
        WHERE state = 'pending' AND task_list_name = %(task_list)s
        AND short_name = walk.short AND task.name > walk.name
        ORDER BY task.name LIMIT 1
    ) FROM walk WHERE walk.name IS NOT NULL
),
fitting (short, name) AS (
    SELECT short, name FROM walk WHERE name <> '' AND name <> ALL (%(names)s::text[])
)"""

#: A step that has a running task lends no second one. Asked for each task by itself, because of the
#: limit: joined, all running tasks might be looked through.
_FREE = """(
    SELECT other.uuid FROM afl_task AS other
    WHERE other.step_id = task.step_id AND other.step_id <> '' AND other.state = 'running' LIMIT 1
) IS NULL"""
_IS_DUE = f"not_before > 0 AND not_before <= {_NOW}"


def _waiting(rank: int, names: str, due: str) -> str:
    """The first tasks of each name."""
    return f"""\
SELECT {rank} AS rank, found.* FROM {names} AS wanted, LATERAL (
    SELECT seq, uuid, step_id, version FROM afl_task AS task
    WHERE state = 'pending' AND task_list_name = %(task_list)s
    AND short_name = wanted.short AND name = wanted.name
    AND held = false AND {due} AND {_FREE}
    ORDER BY seq LIMIT %(most)s
) AS found"""


def _abandoned(lapsed: str) -> str:
    """Tasks of abandoned claims, in the place in the queue that they had."""
    return f"""\
SELECT CASE WHEN name = ANY (%(names)s::text[]) THEN 1 ELSE 2 END, seq, uuid, step_id, version
FROM afl_task WHERE state = 'running' AND {lapsed}
AND task_list_name = %(task_list)s AND held = false
AND (name = ANY (%(names)s::text[]) OR short_name = ANY (%(short_names)s::text[]))"""


_ABANDONED = (
    _abandoned(f"lease_expires <= {_NOW}"),
    _abandoned(f"lease_ms <> 0 AND lease_expires - lease_ms > {_NOW}"),
)
_BY_NAME = (_waiting(0, "asked", _IS_DUE), _waiting(1, "asked", "not_before = 0"))
_BY_SHORT_NAME = (_waiting(0, "fitting", _IS_DUE), _waiting(2, "fitting", "not_before = 0"))


def _candidates(*parts: str) -> str:
    found = "\nUNION ALL\n".join(parts)
    return f"candidates AS MATERIALIZED (\n{found}\n)"


def _for_exact(*others: str) -> str:
    return f"WITH {_CLOCK},\n{_EXACT},\n{_candidates(*_BY_NAME, *others)}"


def _for_all(*others: str) -> str:
    found = _candidates(*_BY_NAME, *_BY_SHORT_NAME, *others)
    return f"WITH RECURSIVE {_CLOCK},\n{_EXACT},\n{_FITTING},\n{found}"


_FOR_EXACT, _FOR_ALL = _for_exact(*_ABANDONED), _for_all(*_ABANDONED)

#: Retries that have become due, then exact names, then short ones, each oldest first; of a step
#: only the first. What others have changed since the look, or are changing now, is passed over: not
#: only what is claimable no more, because the time of this look is older than their claims.
_CLAIM = f"""\
ranked AS MATERIALIZED (
    SELECT rank, seq, uuid, version FROM (
        SELECT rank, seq, uuid, version, row_number() OVER (
            PARTITION BY CASE WHEN step_id = '' THEN uuid ELSE step_id END ORDER BY rank, seq
        ) AS place FROM candidates
    ) AS placed WHERE place = 1 ORDER BY rank, seq LIMIT %(most)s
),
chosen AS MATERIALIZED (
    SELECT task.uuid, ranked.rank FROM ranked JOIN afl_task AS task ON task.uuid = ranked.uuid
    WHERE task.version = ranked.version
    ORDER BY ranked.rank, ranked.seq LIMIT %(limit)s
    FOR NO KEY UPDATE OF task SKIP LOCKED
)
UPDATE afl_task AS task SET
    state = 'running',
    owner = %(owner)s,
    fence = fence + 1,
    deliveries = deliveries + 1,
    lease_ms = %(lease)s,
    lease_expires = {_NOW} + %(lease)s,
    not_before = 0,
    updated = {_NOW},
    version = version + 1
FROM chosen
WHERE task.uuid = chosen.uuid
RETURNING chosen.rank, task.seq, {", ".join(f'task."{each}"' for each in TASKS.fields)}"""


def _next_due(names: str) -> str:
    return f"""\
SELECT (
    SELECT not_before FROM afl_task
    WHERE state = 'pending' AND task_list_name = %(task_list)s
    AND short_name = wanted.short AND name = wanted.name
    AND held = false AND not_before > {_NOW} ORDER BY not_before LIMIT 1
) AS at FROM {names} AS wanted"""


def _left(*names: str) -> str:
    """Milliseconds until something can be claimed: 0 for now, null if nothing will be by itself.

    Of leases the next end of all: most are renewed before it comes, and looking is cheap.
    """
    times = "\nUNION ALL\n".join(map(_next_due, names))
    return f"""\
SELECT CASE WHEN EXISTS (SELECT FROM candidates) THEN 0 ELSE (
    SELECT min(at) - {_NOW} FROM (
{times}
UNION ALL
(
    SELECT lease_expires FROM afl_task
    WHERE state = 'running' AND lease_expires > {_NOW} ORDER BY lease_expires LIMIT 1
)
    ) AS times
) END"""


CLAIM_EXACT, CLAIM = f"{_FOR_EXACT},\n{_CLAIM}", f"{_FOR_ALL},\n{_CLAIM}"
#: Without those of abandoned claims.
CLAIM_WAITING_EXACT, CLAIM_WAITING = f"{_for_exact()},\n{_CLAIM}", f"{_for_all()},\n{_CLAIM}"
LEFT_EXACT, LEFT = f"{_FOR_EXACT}\n{_left('asked')}", f"{_FOR_ALL}\n{_left('asked', 'fitting')}"

_MOST = 100_000  # in one commit
_FEW_SPARE = 8


class Wanted(NamedTuple):
    """What a worker can do."""

    names: list[str]
    #: What each of them ends in.
    shorts: list[str]
    #: Those that take every task that ends in them.
    short_names: list[str]
    task_list: str

    @classmethod
    def of(cls, names: Sequence[str], task_list: str) -> Wanted:
        return cls(*_asked(tuple(names)), task_list)


@lru_cache(maxsize=64)  # a worker asks for the same names again and again
def _asked(names: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    known = sorted(set(names))
    return known, [short_name(each) for each in known], list(filter(is_short, known))


Given = dict[str, Any]


def given(
    wanted: Wanted,
    limit: int,
    owner: str,
    lease_ms: int,
    told: int | None,
    *,
    spare: int = 32,
) -> Given | None:
    """The values of a claim, which looks at `spare` more than it may have to: of those that wait
    some may be on their way to others. None if nothing can be claimed."""
    limit = min(max(limit, 0), _MOST)
    if not limit or not wanted.names:
        return None
    values = {"limit": limit, "most": 2 * limit + spare, "owner": owner, "lease": lease_ms}
    return {**wanted._asdict(), **values, "told": told}


def claim(
    reader: Reader, wanted: Wanted, values: Given | None, *, is_told: bool
) -> list[TaskDefinition]:
    """Who is told of something new gets nothing of abandoned claims."""
    if values is None:
        return []
    if is_told:
        return _claimed(reader.query_all(_claim_waiting(wanted), values))
    return _claimed(reader.query_all(CLAIM if wanted.short_names else CLAIM_EXACT, values))


def fill(tx: Transaction, claiming: Claiming) -> None:
    """Claim what a decision asks for, with the end of the transaction."""
    wanted = Wanted.of(tuple(claiming.names), claiming.task_list)
    # Who gets nothing here asks again, and thoroughly.
    values = given(
        wanted, claiming.limit, claiming.owner, claiming.lease_ms, tx.told, spare=_FEW_SPARE
    )
    if values is not None:
        sql = _claim_waiting(wanted)
        tx.put_question(sql, values, lambda rows: claiming.fill(_claimed(rows)))


def _claim_waiting(wanted: Wanted) -> str:
    return CLAIM_WAITING if wanted.short_names else CLAIM_WAITING_EXACT


def _claimed(rows: Iterable[Row]) -> list[TaskDefinition]:
    return [TASKS.record(row[2:]) for row in sorted(rows, key=_place)]


def _place(row: Row) -> tuple[Any, ...]:
    return row[:2]


def seconds_left(reader: Reader, wanted: Wanted, told: int | None) -> float:
    """Until a task can be claimed without anybody's doing: 0 now, infinite never."""
    if not wanted.names:
        return math.inf
    sql = LEFT if wanted.short_names else LEFT_EXACT
    row = reader.query_one(sql, {**wanted._asdict(), "most": 1, "told": told})
    assert row is not None
    return math.inf if row[0] is None else row[0] / 1000
