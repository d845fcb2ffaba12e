"""How lists are asked for and given in pages, and counts that end early.

A page costs what it shows, however many records there are: it begins behind a record, never at a
number of records to pass over. What is added or removed meanwhile shifts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from afl.errors import UsageError
from afl.runtime.entities import TaskDefinition
from afl.runtime.names import short_name

R = TypeVar("R")

#: Records that are looked at for one page of a list that no index fits.
LOOKED_AT = 10_000
#: Where counting ends, unless somebody says otherwise: people read "10,000+" as well.
COUNTED = 10_000


@dataclass(frozen=True)
class RunQuery:
    """Which runs a list shows. All of what is given must fit; of `workflows` and `ids` one."""

    state: str | None = None
    #: Qualified names.
    workflows: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TaskQuery:
    """Which tasks a list shows. All of what is given must fit."""

    state: str | None = None
    #: The qualified name of a facet, or the part behind its last dot.
    name: str | None = None
    task_list: str | None = None
    workflow_id: str | None = None

    def fits(self, task: TaskDefinition) -> bool:
        return (
            self.state in (None, task.state)
            and self.names(task.name)
            and self.task_list in (None, task.task_list_name)
            and self.workflow_id in (None, task.workflow_id)
        )

    def names(self, name: str) -> bool:
        """Whether tasks of this name fit."""
        return self.name in (None, name, short_name(name))


@dataclass(frozen=True)
class Page(Generic[R]):
    """Some records of a list."""

    items: list[R]
    #: Where the next page begins: right behind these records. A list that grows at its end can be
    #: asked again from here at any time.
    cursor: str
    #: Whether there may be more now. A page can be short, or even empty, and have more behind it:
    #: a store looks at no more than LOOKED_AT records for one.
    has_more: bool


@dataclass(frozen=True)
class Count:
    """How many there are: exactly, or at least."""

    number: int
    is_exact: bool = True

    @classmethod
    def up_to(cls, limit: int, found: int) -> Count:
        """Of as many as were found, if nobody looked for more than one above the limit."""
        return cls(min(found, limit), found <= limit)


class Queue(NamedTuple):
    """Pending tasks of one name in one task list."""

    task_list: str
    #: Qualified facet name.
    name: str
    #: Those that may be claimed, now or when their retry is due.
    waiting: Count
    #: Those of paused runs.
    held: Count
    #: When the one was created that has waited longest; 0 if none waits.
    oldest: int


def position_of(cursor: str | None, start: int) -> int:
    """The number that a cursor stands for. Raises UsageError for a text that is none."""
    if not cursor:
        return start
    try:
        return int(cursor, 36)
    except ValueError:
        raise UsageError(
            f"'{cursor}' is no place in a list; use the cursor of a page, or begin without one"
        ) from None


def cursor_at(position: int) -> str:
    """The cursor of a store that numbers its records; the opposite of `position_of`."""
    digits = ""
    while position > 0:
        position, digit = divmod(position, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def windows(newest: int) -> tuple[int, int, int]:
    """How far back to look for a page of what many indexes give, in turn: little at first, because
    each of them gives as many as the page could need."""
    return newest - 1_000, newest - 32_000, 0


def page_of(found: Sequence[tuple[int, R]], limit: int, start: int) -> Page[R]:
    """The page of numbered records of which one more than the limit was looked for."""
    shown = found[:limit]
    last = shown[-1][0] if shown else start
    return Page([record for _, record in shown], cursor_at(last), len(found) > limit)


def pages_of(page: Callable[[str | None], Page[R]]) -> Iterator[R]:
    """All items of a list that is given in pages."""
    cursor: str | None = None
    while True:
        found = page(cursor)
        yield from found.items
        if not found.has_more:
            return
        cursor = found.cursor
