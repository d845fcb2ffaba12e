"""Settings: read once, from flags > environment > afl.toml > defaults.

- The fields below are the table of all settings: each `setting(...)` is at once its default, its
  type, its key in the file, its environment variable and its line in the documentation.
- Every value remembers where it came from; `afl config show` prints that.
- Whatever is wrong is reported together, before anything starts, and never shows a secret.

This is the only module that reads the environment. It opens nothing but the settings file and
the files that secrets are kept in.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from afl import log, telemetry
from afl.backoff import format_duration, parse_duration
from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.urls import hint
from afl.errors import ConfigurationError
from afl.runtime.worker_numbers import LEAST_LEASE_MS

FILE_NAME = "afl.toml"
#: Names the settings file, instead of ./afl.toml.
FILE_VARIABLE = "AFL_CONFIG"

_PREFIX = "AFL_"
#: Variables of the test suite, which are no settings of the product.
_TEST_PREFIX = "AFL_TEST_"

#: 0 is any port that is free.
_PORTS = range(65536)
#: Work that one process may have in hand at once.
_CONCURRENCY = range(1, 100_001)


def _hide(_value: object) -> object:
    return log.HIDDEN


class _HintedError(ValueError):
    """What cannot be taken, with what was probably meant."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of setting: how to read it, and how to tell what is expected.

    `accept` takes a value of a flag or of the file, `parse` the text of a variable. Both raise
    ValueError for what they cannot take. `conceal` leaves what may be shown of a secret.
    """

    expected: str
    accept: Callable[[object], object]
    parse: Callable[[str], object]
    conceal: Callable[[object], object] = _hide


def one_of(*allowed: str) -> Kind:
    def accept(value: object) -> object:
        if not isinstance(value, str) or value.lower() not in allowed:
            raise ValueError
        return value.lower()

    return Kind(f"one of {', '.join(allowed)}", accept, accept)


def url_of(*schemes: str, words: tuple[str, ...] = ()) -> Kind:
    """A URL with one of these schemes; or one of these words."""
    starts = tuple(f"{scheme}:" for scheme in schemes)

    def accept(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError
        if not (value in words or value.startswith(starts)):
            raise _HintedError(hint(value, schemes))
        return value

    expected = f"a URL that starts with {', '.join(starts)}{_or_words(words)}"
    return Kind(expected, accept, accept, _conceal_password)


def _or_words(words: tuple[str, ...]) -> str:
    return "".join(f", or {word}" for word in words)


def _conceal_password(value: object) -> object:
    if not isinstance(value, str):
        return log.HIDDEN
    # What should have been a URL may hold a password all the same.
    is_url = "://" in value or "@" not in value
    return value if is_url else f"{log.HIDDEN}@{value.rpartition('@')[2]}"


def _accept_bool(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _parse_bool(text: str) -> object:
    words = {"true": True, "1": True, "yes": True, "on": True}
    words |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


def _accept_paths(value: object) -> object:
    if not isinstance(value, list | tuple) or not all(isinstance(p, str | Path) for p in value):
        raise ValueError
    if not all(str(path) for path in value):
        raise ValueError
    return tuple(Path(path).expanduser() for path in value)


def _parse_paths(text: str) -> object:
    return _accept_paths([part for part in text.split(os.pathsep) if part])


def duration(*words: str) -> Kind:
    """A time span such as 30s, kept as text in one spelling; or one of these words."""

    def accept(value: object) -> object:
        if isinstance(value, str) and value.lower() in words:
            return value.lower()
        if not isinstance(value, str | int | float):
            raise ValueError
        try:
            return format_duration(parse_duration(value))
        except ConfigurationError:
            raise ValueError from None

    return Kind(f"a duration such as 30s, 15m or 30d{_or_words(words)}", accept, accept)


def _duration_from(least_ms: int) -> Kind:
    """A time span that is no shorter than this."""
    any_length = duration()

    def accept(value: object) -> object:
        text = any_length.accept(value)
        if parse_duration(str(text)) * 1000 < least_ms:
            raise ValueError
        return text

    expected = f"{any_length.expected}, of {format_duration(least_ms / 1000)} or more"
    return Kind(expected, accept, accept)


def port(*words: str) -> Kind:
    """A TCP port, kept as a number; or one of these words."""

    def accept(value: object) -> object:
        if isinstance(value, str) and value.lower() in words:
            return value.lower()
        # A bool is an int to Python, but nobody means a port by true.
        if not isinstance(value, int) or isinstance(value, bool) or value not in _PORTS:
            raise ValueError
        return value

    def parse(text: str) -> object:
        return accept(int(text) if text.isascii() and text.isdigit() else text)

    return Kind(f"a port from 0 to {_PORTS[-1]}{_or_words(words)}", accept, parse)


def number(allowed: range) -> Kind:
    """A whole number of this range."""

    def accept(value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
            raise ValueError
        return value

    def parse(text: str) -> object:
        return accept(int(text) if text.isascii() and text.isdigit() else text)

    return Kind(f"a whole number from {allowed[0]} to {allowed[-1]}", accept, parse)


def _accept_text(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _accept_words(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_accept_text(each) for each in value)


def _parse_words(text: str) -> object:
    return _accept_words([part for part in text.split(os.pathsep) if part])


def secret_text(*words: str) -> Kind:
    """A text to hide, unless it is one of these words."""

    def conceal(value: object) -> object:
        return value if value in words else log.HIDDEN

    return Kind("a text that is not empty", _accept_text, _accept_text, conceal)


BOOL = Kind("true or false", _accept_bool, _parse_bool)
PATHS = Kind("a list of paths", _accept_paths, _parse_paths)
TEXT = Kind("a text that is not empty", _accept_text, _accept_text)
WORDS = Kind("a list of texts", _accept_words, _parse_words)


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table. The rest of a setting's names follow from `name`."""

    name: str
    kind: Kind
    default: object
    help: str
    secret: bool
    #: The option of commands that take this setting.
    flag: str
    #: The name of its environment variable, where it does not follow from its own.
    other_variable: str = ""

    @property
    def variable(self) -> str:
        return self.other_variable or _PREFIX + self.name.replace(".", "_").upper()

    def shown(self, value: object) -> object:
        """The value as plain data that may be printed, without its secret."""
        if self.secret:
            value = self.kind.conceal(value)
        if isinstance(value, tuple | list):
            value = [str(each) for each in value]
        # Every value, because people put secrets where none belong.
        return log.redact(value)


def setting(
    kind: Kind,
    default: object,
    help: str,  # noqa: A002
    *,
    flag: str,
    secret: bool = False,
    variable: str = "",
) -> Any:
    """A field of a settings group. A secret may also come from a file, and is redacted."""
    return field(
        default=default,
        repr=not secret,
        metadata={
            "kind": kind,
            "help": help,
            "secret": secret,
            "flag": flag,
            "other_variable": variable,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    url: str = setting(
        url_of("memory", "sqlite", "postgresql", "postgres", "mongodb", "mongodb+srv"),
        "sqlite:///./afl.db",
        "Where runs, tasks and turns are kept.",
        flag="--store",
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    level: str = setting(
        one_of(*log.LEVELS), "info", "The least severe log events to write.", flag="--log-level"
    )
    format: str = setting(
        one_of(*log.FORMATS),
        "auto",
        "How log events look; `auto` is text on a terminal and JSON elsewhere.",
        flag="--log-format",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageConfig:
    library_paths: tuple[Path, ...] = setting(
        PATHS,
        (),
        "Folders and files of AFL text that every program may use. Paths in a settings file are "
        "relative to that file.",
        flag="--library",
    )
    strict: bool = setting(
        BOOL, False, "Treat warnings of the compiler as errors.", flag="--strict"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptsConfig:
    enabled: bool = setting(
        BOOL,
        False,
        "Whether `script` blocks run. They are Python code of the program's author, run in a "
        "process with limits: a safety net, not a sandbox for hostile code.",
        flag="--scripts",
    )
    timeout: str = setting(
        duration(), "30s", "How long one script may take.", flag="--script-timeout"
    )


#: The word for a retention without end.
NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    runs: str = setting(
        duration(NEVER),
        "30d",
        "How long runs are kept after their end; `never` removes none. Workers remove older ones.",
        flag="--older-than",
    )
    turns: str = setting(
        duration(NEVER),
        NEVER,
        "How long `afl prune` keeps turns after their end. The loops of agents remove their own, "
        "after 30 days or as they were told; this is for turns whose loops are gone.",
        flag="--turns-older-than",
    )


#: The word for a setting that leaves the decision to the code.
UNSET = "unset"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleConfig:
    """How groups of loops stop and are probed; `bootstrap.group_options` hands it to them."""

    drain_deadline: str = setting(
        duration(UNSET),
        UNSET,
        "How long loops may take to finish or save their work once the process is to stop.",
        flag="--drain-deadline",
    )
    settle: str = setting(
        duration(UNSET),
        UNSET,
        "The least time that probes are answered after readiness has failed.",
        flag="--settle",
    )
    max_processing: str = setting(
        duration(UNSET),
        UNSET,
        "The longest that one message may take. Only compared with the other times.",
        flag="--max-processing",
    )
    termination_grace: str = setting(
        duration(UNSET),
        UNSET,
        "What the platform grants between its SIGTERM and its SIGKILL. Only compared with the "
        "other times.",
        flag="--termination-grace",
    )
    pre_stop: str = setting(
        duration(UNSET),
        UNSET,
        "What the platform's pre-stop hook takes of that. Only compared with the other times.",
        flag="--pre-stop",
    )
    health_port: int | str = setting(
        port(UNSET),
        UNSET,
        "Where probes are answered; 0 is any free port.",
        flag="--health-port",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    concurrency: int = setting(
        number(_CONCURRENCY),
        8,
        "Tasks that a worker has in hand at once.",
        flag="--concurrency",
    )
    lease: str = setting(
        _duration_from(LEAST_LEASE_MS),
        "15s",
        "How long a claim holds unless it is renewed: a killed worker's tasks run elsewhere after "
        "this time. Renewed at every third of it.",
        flag="--lease",
    )
    topics: tuple[str, ...] = setting(
        WORDS,
        (),
        "Patterns such as `billing.*` of the facets that a worker serves; empty: all that are "
        "registered.",
        flag="--topics",
    )
    task_list: str = setting(
        TEXT, "default", "Where runs queue their tasks and workers take them.", flag="--task-list"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlersConfig:
    paths: tuple[Path, ...] = setting(
        PATHS,
        (),
        "Folders, beside the working directory, from which registered handlers may be loaded. "
        "Paths in a settings file are relative to that file.",
        flag="--handler-path",
        variable="AFL_HANDLER_PATHS",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    traces: bool = setting(
        BOOL,
        False,
        "Make OpenTelemetry spans of runs, steps, handlers and model calls; needs the extra "
        "`otel`.",
        flag="--traces",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """What `afl serve` has beside what loops and workers have."""

    host: str = setting(
        TEXT,
        "127.0.0.1",
        "Where turns are taken by HTTP. Other places than this machine need tokens.",
        flag="--host",
    )
    dashboard_port: int | str = setting(
        port(UNSET),
        UNSET,
        "Where the dashboard is, at the same host, for the same operators and readers; 0 is any "
        "free port, and `unset` is no dashboard.",
        flag="--dashboard-port",
    )
    port: int = setting(
        port(), 8000, "Where turns are taken by HTTP; 0 is any free port.", flag="--port"
    )
    mailboxes: str = setting(
        url_of("memory", "sqlite", "postgresql", "postgres", "redis", "rediss", words=(UNSET,)),
        UNSET,
        "Where agents have the mailboxes that bear their names; `unset` is the store, or memory if "
        "there are no mailboxes in such a store.",
        flag="--mailboxes",
        secret=True,
    )
    name: str = setting(
        TEXT,
        UNSET,
        "What this service calls itself in journals and logs, with some letters that tell its "
        "processes apart; `unset` is the name of the machine.",
        flag="--name",
    )
    tokens: str = setting(
        secret_text(UNSET),
        UNSET,
        "Who may use the turn API, a line for each token: NAME ROLE TOKEN, where ROLE is caller, "
        "reader or operator; a token alone is an operator's. `unset` makes one, which is shown "
        "at the start.",
        flag="--token-file",
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a process, and where each came from."""

    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)
    language: LanguageConfig = field(default_factory=LanguageConfig)
    scripts: ScriptsConfig = field(default_factory=ScriptsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    lifecycle: LifecycleConfig = field(default_factory=LifecycleConfig)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    handlers: HandlersConfig = field(default_factory=HandlersConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)

    #: The settings file that was read.
    file: Path | None = None
    #: Origin of each setting that is not at its default, by name.
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: What an operator should be told, though it stops nothing.
    warnings: tuple[str, ...] = ()

    def entries(self) -> tuple[Entry, ...]:
        """Every setting, in the order of the table, fit to be printed."""
        return tuple(
            Entry(each.name, each.shown(self._value(each)), self.origins.get(each.name, "default"))
            for each in SETTINGS
        )

    def _value(self, wanted: Setting) -> object:
        group, _, key = wanted.name.partition(".")
        value: object = getattr(getattr(self, group), key)
        return value


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting as `afl config show` prints it; the value is redacted plain data."""

    name: str
    value: object
    origin: str


_GROUPS: dict[str, type[Any]] = {
    "store": StoreConfig,
    "log": LogConfig,
    "language": LanguageConfig,
    "scripts": ScriptsConfig,
    "retention": RetentionConfig,
    "lifecycle": LifecycleConfig,
    "worker": WorkerConfig,
    "handlers": HandlersConfig,
    "telemetry": TelemetryConfig,
    "serve": ServeConfig,
}

#: Every setting there is.
SETTINGS: tuple[Setting, ...] = tuple(
    Setting(f"{group}.{each.name}", default=each.default, **each.metadata)
    for group, cls in _GROUPS.items()
    for each in fields(cls)
)
_BY_NAME = {each.name: each for each in SETTINGS}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the settings. `value` is redacted text, or none."""

    subject: str
    origin: str
    expected: str
    value: str | None = None

    def __str__(self) -> str:
        given = "" if self.value is None else f" = {self.value}"
        return f"{self.subject}{given} ({self.origin}): {self.expected}"


class SettingsError(ConfigurationError):
    """Settings cannot be used. Correct each of `problems`, which are all there are."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(["The settings cannot be used:", *(f"  {each}" for each in self.problems)])


def load_config(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    file: Path | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Config:
    """Read all settings and say what is wrong with any of them.

    `flags` are values by setting name; None is a flag that was not given. The settings file is
    `file`, or what AFL_CONFIG names, or afl.toml in `directory` (the working directory) if there
    is one. Raises SettingsError.
    """
    reader = _Reader(
        environ=os.environ if environ is None else environ,
        directory=Path() if directory is None else directory,
    )
    # Later sources overwrite earlier ones, so the strongest comes last; all are checked.
    used = reader.read_file(file)
    reader.read_environment()
    reader.read_flags(flags or {})
    config = reader.finish(used)
    telemetry.emit(
        telemetry.ConfigLoaded(
            at=clock.now(),
            file=None if used is None else str(used),
            overrides=len(config.origins),
        )
    )
    return config


class _Reader:
    """Collects values, origins and problems from one source after the other."""

    def __init__(self, environ: Mapping[str, str], directory: Path) -> None:
        self._environ = environ
        self._directory = directory
        self._values: dict[str, object] = {}
        self._origins: dict[str, str] = {}
        self._problems: list[Problem] = []
        self._warnings: list[str] = []

    def finish(self, file: Path | None) -> Config:
        if self._problems:
            raise SettingsError(tuple(self._problems))
        groups: dict[str, Any] = {
            group: cls(**self._of_group(group)) for group, cls in _GROUPS.items()
        }
        return Config(
            **groups,
            file=file,
            origins=MappingProxyType(self._origins),
            warnings=tuple(self._warnings),
        )

    def _of_group(self, group: str) -> dict[str, object]:
        start = f"{group}."
        return {
            name.removeprefix(start): value
            for name, value in self._values.items()
            if name.startswith(start)
        }

    def _take(
        self, known: Setting, raw: object, origin: str, read: Callable[[Any], object]
    ) -> None:
        try:
            self._values[known.name] = read(raw)
            self._origins[known.name] = origin
        except ValueError as error:
            value = repr(known.shown(raw))
            meant = str(error) if isinstance(error, _HintedError) else ""
            self._refuse(known.name, origin, f"expected {known.kind.expected}{meant}", value)

    def _refuse(self, subject: str, origin: str, expected: str, value: str | None = None) -> None:
        self._problems.append(Problem(subject, origin, expected, value))

    def read_file(self, given: Path | None) -> Path | None:
        """Take the settings of the file that counts, and return its path if there is one."""
        path, origin = self._which_file(given)
        if path is None:
            return None
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            self._refuse(str(path), origin, f"cannot be read: {error.strerror or error}")
        except ValueError as error:  # of TOML and of UTF-8
            self._refuse(str(path), origin, f"is not valid TOML: {error}")
        else:
            for name, value in _flattened(content):
                self._take_from_file(path, name, value)
        return path

    def _which_file(self, given: Path | None) -> tuple[Path | None, str]:
        if given is not None:
            return given, "settings file"
        if FILE_VARIABLE in self._environ:
            named = self._environ[FILE_VARIABLE]
            return self._directory / Path(named).expanduser(), f"environment {FILE_VARIABLE}"
        usual = self._directory / FILE_NAME
        return (usual if usual.exists() else None), "settings file"

    def _take_from_file(self, path: Path, name: str, value: object) -> None:
        origin = f"{path} key {name}"
        known = _BY_NAME.get(name)
        if known is None:
            self._refuse(name, origin, f"there is no such setting{_meant(name, _BY_NAME)}")
        else:
            self._take(
                known, value, origin, lambda raw: _based(known.kind.accept(raw), path.parent)
            )

    def read_environment(self) -> None:
        for known in SETTINGS:
            if known.variable in self._environ:
                origin = f"environment {known.variable}"
                self._take(known, self._environ[known.variable], origin, known.kind.parse)
            if known.secret:
                self._read_secret(known)
        self._warn_of_misspelled_variables()

    def _read_secret(self, known: Setting) -> None:
        variable = _file_variable(known)
        if variable not in self._environ:
            return
        origin = f"environment {variable}"
        if known.variable in self._environ:
            self._refuse(known.name, origin, f"{known.variable} is given as well; keep one of them")
            return
        try:
            text = (self._directory / self._environ[variable]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self._refuse(known.name, origin, f"the file cannot be read: {error}")
        else:
            self._take(known, text.rstrip("\r\n"), origin, known.kind.parse)

    def _warn_of_misspelled_variables(self) -> None:
        allowed = {FILE_VARIABLE, *(each.variable for each in SETTINGS)}
        allowed |= {_file_variable(each) for each in SETTINGS if each.secret}
        for variable in sorted(self._environ):
            if not variable.startswith(_PREFIX) or variable.startswith(_TEST_PREFIX):
                continue
            meant = _meant(variable, allowed)
            # Other programs have AFL_ variables too: only what resembles ours is worth a word.
            if variable not in allowed and meant:
                self._warnings.append(f"environment {variable} is not a setting{meant}")

    def read_flags(self, flags: Mapping[str, object]) -> None:
        for name, value in flags.items():
            known = _BY_NAME.get(name)
            if known is None:
                self._refuse(name, "flag", f"there is no such setting{_meant(name, _BY_NAME)}")
            elif value is not None:
                read = known.kind.parse if isinstance(value, str) else known.kind.accept
                self._take(known, value, f"flag {known.flag}", read)


def _flattened(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted names and values. A table is a value where a setting of that name exists."""
    for key, value in content.items():
        name = prefix + key
        if name in _BY_NAME or not isinstance(value, dict):
            yield name, value
        elif value:
            yield from _flattened(value, f"{name}.")
        elif name not in _GROUPS:  # an unknown table is a mistake even if it is empty
            yield name, value


def _based(value: object, folder: Path) -> object:
    """Make the paths of a settings file relative to that file, not to who happens to read it."""
    if not isinstance(value, tuple):
        return value
    return tuple(folder / each if isinstance(each, Path) else each for each in value)


def _file_variable(known: Setting) -> str:
    return f"{known.variable}_FILE"


def _meant(name: str, known: Mapping[str, object] | set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
