"""From a registration to the handler that it names."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard, TypeVar

from afl.backoff import format_duration, parse_duration
from afl.error_text import kind_of, message_of, with_article
from afl.errors import AflError, ConfigurationError, UsageError
from afl.runtime.claims import RetryPolicy
from afl.runtime.entities import HandlerRegistration, Isolation, OnLost
from afl.runtime.handler_modules import MODULES, Places, checksum_of, find, verified
from afl.runtime.loading import Handler

E = TypeVar("E", bound=StrEnum)

#: As `afl.Retry` has it.
_DEFAULT_BACKOFF = "1s"
#: How long it may take to load a handler.
LOAD_LIMIT_S = 60.0
#: The setting `handlers.paths`, as an environment variable.
_PATHS_VARIABLE = "AFL_HANDLER_PATHS"


class HandlerLoadError(UsageError):
    """A registration whose handler cannot be loaded here. The message is one sentence."""


def not_loaded(registration: HandlerRegistration, reason: str) -> HandlerLoadError:
    return HandlerLoadError(
        f"the handler of {registration.facet_name} cannot be loaded from "
        f"{registration.module_uri}: {reason}"
    )


def took_too_long() -> str:
    return f"importing it took longer than {format_duration(LOAD_LIMIT_S)}"


def allowed_places(paths: Iterable[str | Path] = ()) -> list[Path]:
    """Where handlers may be loaded from: below the working directory, and below these."""
    return [Path.cwd(), *(Path(each) for each in paths)]


def usual_places() -> list[Path]:
    """Where handlers may be loaded from if nobody says: below the working directory, and below the
    folders of AFL_HANDLER_PATHS."""
    # Settings are read above this layer, and whoever reads them says what is allowed. A program
    # that makes its own worker reads none; yet where its code is refused, it is told of this
    # variable, and so it has to count here, in the spelling that the settings take.
    listed = [each for each in os.environ.get(_PATHS_VARIABLE, "").split(os.pathsep) if each]
    return allowed_places(Path(each).expanduser() for each in listed)


class RegistrationLoader:
    """Loads the handlers of registrations, each module once. Safe from any thread.

    `allowed` are the folders that code may come from, `usual_places()` unless they are given.
    """

    def __init__(self, allowed: Sequence[Path] | None = None) -> None:
        self._places = Places(usual_places() if allowed is None else allowed)
        #: What was loaded, by module URI and checksum.
        self.modules: dict[tuple[str, str], ModuleType] = {}

    @property
    def allowed(self) -> tuple[Path, ...]:
        return self._places.folders

    def load(self, registration: HandlerRegistration) -> Handler:
        """The handler, ready to be called. Raises HandlerLoadError."""
        try:
            return self._handler(registration)
        except (HandlerLoadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # importing may raise anything, also to exit
            raise not_loaded(registration, _reason(error)) from error

    def checksum(self, module_uri: str) -> str:
        """The `sha256:…` of the module as it is now; runs nothing. Raises UsageError."""
        return checksum_of(verified(find(module_uri, self._places), ""))

    def _handler(self, registration: HandlerRegistration) -> Handler:
        isolation = _one_of(Isolation, "isolation", registration.isolation)
        return Handler(
            registration.facet_name,
            self._elsewhere(registration)
            if isolation is Isolation.PROCESS
            else _entrypoint(self._module(registration), registration),
            registration.module_uri,
            dict(registration.metadata),
            isolation=isolation,
            timeout_ms=_timeout(registration),
            on_lost=_one_of(OnLost, "on_lost", registration.on_lost),
            retry=_retry(registration.metadata),
            recipe=self._recipe(registration),
        )

    def _module(self, registration: HandlerRegistration) -> ModuleType:
        key = (registration.module_uri, registration.checksum)
        if key not in self.modules:
            found = find(registration.module_uri, self._places)
            self.modules[key] = MODULES.load(found, registration.checksum)
        return self.modules[key]

    # In a process of its own

    def _recipe(self, registration: HandlerRegistration) -> dict[str, Any]:
        """What `afl.runtime.isolated` needs to load it in another process."""
        return {
            "registration": asdict(registration),
            "allowed": [str(each) for each in self.allowed],
        }

    def _elsewhere(self, registration: HandlerRegistration) -> _Elsewhere:
        """Its code never runs here; that it can be loaded is tried in a process of its own."""
        verified(find(registration.module_uri, self._places), registration.checksum)
        check_in_process(self._recipe(registration))
        return _Elsewhere(registration.entrypoint)


class _Elsewhere:
    """Stands for a handler that runs in a process of its own."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, _payload: Mapping[str, Any]) -> Any:
        raise UsageError(f"{self.__name__} runs in a process of its own, and is not called here")


def check_in_process(recipe: Mapping[str, Any]) -> None:
    """Load a registration in a process that ends with that. Raises HandlerLoadError; UsageError if
    that takes too long."""
    from afl.work.errors import ProcessDied
    from afl.work.isolation import Child

    child = Child()
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        child.kill()

    timer = threading.Timer(LOAD_LIMIT_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        problem = child.call("afl.runtime.isolated:check", dict(recipe), lambda *_: None)
    except ProcessDied as died:
        if is_late.is_set():
            raise UsageError(took_too_long()) from died
        raise
    finally:
        timer.cancel()
        child.close()
    if problem is not None:
        raise HandlerLoadError(problem)


# What a registration says


def _entrypoint(module: ModuleType, registration: HandlerRegistration) -> Any:
    try:
        call = getattr(module, registration.entrypoint)
    except AttributeError:
        raise UsageError(f"it has no {registration.entrypoint!r}") from None
    if not callable(call):
        what = with_article(type(call).__name__)
        raise UsageError(f"{registration.entrypoint!r} is {what}, no function")
    return call


def _one_of(kind: type[E], field: str, value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"its {field} is {value!r}; expected {' or '.join(kind)}") from None


def _timeout(registration: HandlerRegistration) -> int:
    timeout = registration.timeout_ms
    if not _is_whole(timeout) or timeout < 0:
        raise UsageError(f"timeout_ms is {timeout!r}; expected milliseconds, or 0 for no limit")
    return timeout


def _retry(metadata: Mapping[str, Any]) -> RetryPolicy | None:
    if "retry" not in metadata:
        return None
    asked = metadata["retry"]
    expected = 'expected such as {"max": 3, "backoff": "2s"}'
    if not isinstance(asked, Mapping) or not asked.keys() <= {"max", "backoff"}:
        raise UsageError(f"the retry of its metadata is {asked!r}; {expected}")
    attempts = asked.get("max")
    if not _is_whole(attempts) or attempts < 1:
        raise UsageError(f"the retry of its metadata has max {attempts!r}; {expected}")
    try:
        backoff_s = parse_duration(asked.get("backoff", _DEFAULT_BACKOFF))
    except (ConfigurationError, TypeError) as error:
        raise UsageError(f"the retry of its metadata: {error}") from None
    return RetryPolicy(attempts, round(backoff_s * 1000))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _reason(error: BaseException) -> str:
    """One line; what is not ours with its class, which often says more than its text."""
    text = next(iter(message_of(error).splitlines()), "")
    return (
        text
        if isinstance(error, AflError) and text
        else ": ".join(filter(None, [kind_of(error), text]))
    )
