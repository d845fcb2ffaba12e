"""What a store holds, found in pages: ids and versions, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple, TypeVar

from afl.runtime.entities import RunnerDefinition, TaskDefinition, TaskState
from afl.runtime.listing import RunQuery, TaskQuery, pages_of
from afl.runtime.persistence import PersistenceAPI

R = TypeVar("R")

#: Records that are read, and written, at once.
AT_ONCE = 200
#: These may wait for somebody; completed ones are copied with their runs.
_WAITING_STATES = tuple(each for each in TaskState if each != TaskState.COMPLETED)


class Head(NamedTuple):
    uuid: str
    workflow_id: str
    version: int


class Standing(NamedTuple):
    """How far everything is: the same again, if nothing was done in between."""

    runs: tuple[Head, ...]
    #: Ids and versions of tasks that wait, for a worker or a person.
    tasks: tuple[tuple[str, int], ...]


def standing(store: PersistenceAPI) -> Standing:
    return Standing(tuple(heads(store)), tuple(_waiting(store)))


def heads(store: PersistenceAPI) -> list[Head]:
    newest_first = pages_of(lambda cursor: store.list_runs(RunQuery(), AT_ONCE, cursor))
    return [_head(each) for each in newest_first][::-1]


def _head(run: RunnerDefinition) -> Head:
    return Head(run.uuid, run.workflow_id, run.version)


def _waiting(store: PersistenceAPI) -> Iterator[tuple[str, int]]:
    """In the order in which they were made, as far as one can tell."""
    states = [_in_state(store, each) for each in _WAITING_STATES]
    for _created, uuid, version in merge(*states, key=lambda each: each[0]):
        yield uuid, version


def _in_state(store: PersistenceAPI, state: str) -> list[tuple[int, str, int]]:
    query = TaskQuery(state)
    newest_first: Iterator[TaskDefinition] = pages_of(
        lambda cursor: store.list_tasks(query, AT_ONCE, cursor)
    )
    return [(each.created, each.uuid, each.version) for each in newest_first][::-1]


def some_at_once(items: Iterable[R], size: int = AT_ONCE) -> Iterator[Sequence[R]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
