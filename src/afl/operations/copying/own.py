"""What a destination has of its own: anything that no copy of this source has put there.

A copy would mix it with what it brings. One that was interrupted has left nothing but what the
source has, too, so it can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from afl.db.plain import PlainRows
from afl.errors import UsageError
from afl.operations.copying.ends import End
from afl.operations.copying.listing import AT_ONCE, Head, heads, some_at_once
from afl.runtime.listing import TaskQuery, pages_of
from afl.runtime.persistence import PersistenceAPI
from afl.turns.stored import StoredTurns

_ALL = 2**31 - 1


def refuse_own(target: End, source: End, wanted: Sequence[Head]) -> None:
    """Raise UsageError if the destination has anything that the source, with these runs, has not,
    or has gone on with it."""
    _refuse_other_runs(target.store, wanted)
    for kind, own in _all_own(target, source):
        raise UsageError(
            f"the destination has {kind}s of its own, such as {own}; copy into an empty database"
        )


def _refuse_other_runs(target: PersistenceAPI, wanted: Sequence[Head]) -> None:
    known = {each.uuid: each.version for each in wanted}
    for each in heads(target):
        if each.uuid not in known:
            raise UsageError(
                f"the destination has runs of its own, such as {each.workflow_id}; copy into an "
                "empty database"
            )
        if each.version != known[each.uuid]:
            raise UsageError(
                f"run {each.workflow_id} has gone on since it was copied; copy into an empty "
                "database"
            )


def _all_own(target: End, source: End) -> Iterator[tuple[str, str]]:
    """Kinds, and what there is of each."""
    for kind, names in _CATALOG.items():
        known = names(source.store)
        yield from ((kind, each) for each in names(target.store) if each not in known)
    yield from (("task", each) for each in _own_tasks(target.store, source.store))
    if target.turns is not None:
        yield from (("turn", each) for each in _own_turns(target.turns, source.turns))
    theirs = {each.kind: each for each in (*source.messages, *source.keys)}
    for rows in (*target.messages, *target.keys):
        yield from ((rows.kind, each) for each in _own_rows(rows, theirs.get(rows.kind)))


#: Names of what runs are made of. There are few of them, so that all are asked for at once.
_CATALOG: dict[str, Callable[[PersistenceAPI], dict[str, None]]] = {
    "flow": lambda store: _keys(each.uuid for each in store.get_all_flows()),
    "workflow": lambda store: _keys(each.uuid for each in store.get_all_workflows(_ALL)),
    "source": lambda store: _keys(
        f"{each.namespace_name}@{each.version}" for each in store.list_published_sources()
    ),
    "handler": lambda store: _keys(each.facet_name for each in store.list_handler_registrations()),
}


def _keys(names: Iterable[str]) -> dict[str, None]:
    """In their order, so that a message names the same one each time."""
    return dict.fromkeys(names)


def _own_tasks(target: PersistenceAPI, source: PersistenceAPI) -> Iterator[str]:
    found = pages_of(lambda cursor: target.list_tasks(TaskQuery(), AT_ONCE, cursor))
    for some in some_at_once(each.uuid for each in found):
        known = {each.uuid for each in source.changed_tasks(dict.fromkeys(some, -1))}
        yield from (each for each in some if each not in known)


def _own_turns(target: StoredTurns, source: StoredTurns | None) -> Iterator[str]:
    known = set() if source is None else {each.id for each in source.list(None, None, _ALL)}
    found = (each.id for each in target.list(None, None, _ALL))
    yield from (each for each in found if each not in known)


def _own_rows(target: PlainRows, source: PlainRows | None) -> Iterator[str]:
    for page in target.read(AT_ONCE):
        there = [] if source is None else source.find(page)
        known = {target.key_of(each) for each in there}
        yield from (key for key in map(target.key_of, page) if key not in known)
