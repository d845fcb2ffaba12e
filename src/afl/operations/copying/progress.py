"""What is counted, compared and told while a copy goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import msgspec

from afl.errors import AflError

R = TypeVar("R")


_encode = msgspec.json.Encoder(order="deterministic").encode


class Differs(AflError):  # noqa: N818 - what happened is what callers catch
    """What is at the destination is not what was copied there."""

    def __init__(self, kind: str, key: str, fields: tuple[str, ...], reason: str) -> None:
        self.kind = kind
        self.key = key
        #: Those that are not the same; none if all of it is missing.
        self.fields = fields
        super().__init__(f"{kind} {key} {reason}")


@dataclass(frozen=True)
class PartReport:
    """What became of one kind of records."""

    kind: str
    #: How many are there now, each as it is at the source.
    records: int
    #: How many of them this copy has written; the others were there.
    written: int
    #: How many stay where they are, because the destination has no place for them.
    left: int
    #: SHA-256 of what was read back from the destination, in its order.
    digest: str


@dataclass(frozen=True)
class CopyReport:
    parts: tuple[PartReport, ...]

    @property
    def written(self) -> int:
        return sum(each.written for each in self.parts)

    @property
    def left(self) -> tuple[PartReport, ...]:
        return tuple(each for each in self.parts if each.left)


class Watcher(Protocol):
    """Who is told how far it is. Called after each commit."""

    def began(self, kind: str, total: int) -> None:
        """Records of this kind come next, so many of them."""

    def went_on(self, records: int) -> None:
        """So many more of them are there."""


class Nobody:
    def began(self, kind: str, total: int) -> None: ...

    def went_on(self, records: int) -> None: ...


class Part:
    """The records of one kind, as they are found at the destination."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.written = 0
        self._records = 0
        self._digest = sha256()

    def bring(
        self,
        records: Mapping[str, R],
        find: Callable[[Sequence[str]], Mapping[str, R]],
        add: Callable[[Sequence[R]], object],
        facts: Callable[[R], Mapping[str, Any]],
    ) -> None:
        """Have these records at the destination, by their keys: `find` gives those that are there,
        `add` writes others, in one commit. Raises Differs."""
        if not records:
            return
        there = dict(find(list(records)))
        missing = {key: each for key, each in records.items() if key not in there}
        if missing:
            add(list(missing.values()))
            self.written += len(missing)
            there.update(find(list(missing)))
        for key, each in records.items():
            self._compare(key, facts(each), facts(there[key]) if key in there else None)

    def _compare(
        self, key: str, wanted: Mapping[str, Any], found: Mapping[str, Any] | None
    ) -> None:
        if found is None:
            raise Differs(self.kind, key, (), "is not at the destination after it was written")
        if wanted != found:
            fields = tuple(sorted(_different(wanted, found)))
            raise Differs(
                self.kind,
                key,
                fields,
                f"is not the same at both ends ({', '.join(fields)}). If one of them has gone on "
                "since it was copied, copy into an empty database",
            )
        self._records += 1
        self._digest.update(_encode([key, found]))

    def report(self, left: int = 0) -> PartReport:
        return PartReport(self.kind, self._records, self.written, left, self._digest.hexdigest())


def _different(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> set[str]:
    names = wanted.keys() | found.keys()
    return {each for each in names if wanted.get(each) != found.get(each)}


def facts_of(record: Any) -> dict[str, Any]:
    """A record as plain data."""
    facts: dict[str, Any] = msgspec.to_builtins(record)
    return facts


class Pace:
    """Tells how far it is, and lets the copy keep its lock."""

    def __init__(self, watcher: Watcher, keep: Callable[[], None]) -> None:
        self._watcher = watcher
        self._keep = keep

    def began(self, kind: str, total: int) -> None:
        self._keep()
        self._watcher.began(kind, total)

    def went_on(self, records: int) -> None:
        self._watcher.went_on(records)
        self._keep()
