"""What a doctor looks at: plain facts about a process and what is around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessFacts:
    pid: int
    #: The words that the first process of this machine or container was started with.
    first: Sequence[str]
    #: Those of the process that started this one.
    parent: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalFacts:
    """Who holds SIGTERM, for people; `SIG_DFL` is nobody."""

    at_start: str
    #: After the app was imported.
    now: str
    is_blocked: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeFacts:
    """Seconds; None is what nobody said."""

    drain: float | None = None
    settle: float | None = None
    pre_stop: float | None = None
    grace: float | None = None
    max_processing: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """Where this process runs, and what happens there unless somebody says otherwise."""

    name: str
    grace_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TablesFacts:
    """The tables of one component in the store."""

    component: str
    version: int
    #: The first version whose programs can use them.
    oldest: int
    #: The newest version that this program knows; 0: it does not know the component.
    known: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """The database file of a SQLite store."""

    path: Path
    is_there: bool
    is_writable: bool
    #: Its file system, as the kernel names it; "" if nobody knows.
    file_system: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreFacts:
    #: The URL, without secrets.
    place: str
    #: Why it cannot be used.
    problem: str | None = None
    #: By how much its clock is ahead of ours, beyond what asking took.
    skew_s: float | None = None
    tables: Sequence[TablesFacts] = ()
    file: FileFacts | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtraFacts:
    """Something that is wanted, and the extra of this package that brings it."""

    wanted_for: str
    extra: str
    is_there: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PortFacts:
    port: int
    used_for: str
    #: Why nobody can listen there.
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AppFacts:
    name: str
    #: Why it cannot be served.
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    process: ProcessFacts
    signals: SignalFacts
    times: TimeFacts
    platform: Platform | None
    store: StoreFacts
    extras: Sequence[ExtraFacts]
    ports: Sequence[PortFacts]
    #: Folders of handlers that are set but not there.
    missing_handler_paths: Sequence[Path]
    scripts_enabled: bool
    app: AppFacts | None
    #: Whether somebody said who may send requests.
    has_tokens: bool
