"""What must be reachable, and what must be warm, before a process takes work.

Each check runs on a thread of its own, so one that hangs keeps neither the others nor the process
from going on. A check fails if it raises, returns False, or takes longer than its timeout; it is
tried again, with growing pauses, and never ends the process by itself.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from afl import telemetry
from afl.backoff import Backoff, format_duration
from afl.clock import Clock
from afl.errors import ConfigurationError
from afl.log import redact

_RETRY = Backoff(initial=0.5, maximum=15.0, jitter=0.5)

Action = Callable[[], object]


@dataclass(frozen=True)
class Dependency:
    """Something outside this process that its work needs: a store, a queue, a model provider."""

    name: str
    check: Action
    #: Seconds until a check without an answer counts as failed.
    timeout: float = 5.0
    #: Pauses after failures.
    retry: Backoff = _RETRY
    #: Seconds between checks while all is well.
    interval: float = 10.0


@dataclass(frozen=True)
class WarmupStep:
    """Something to do once before work is taken: fetch tools, ping a model, fill a cache."""

    name: str
    action: Action
    timeout: float = 60.0
    retry: Backoff = _RETRY


def as_dependency(given: Dependency | Action) -> Dependency:
    """A plain function is a check under its own name."""
    return given if isinstance(given, Dependency) else Dependency(_name_of(given), given)


def as_step(given: WarmupStep | Action) -> WarmupStep:
    """A plain function is a step under its own name."""
    return given if isinstance(given, WarmupStep) else WarmupStep(_name_of(given), given)


def _name_of(action: Action) -> str:
    return getattr(action, "__qualname__", None) or repr(action)


# Ready-made


class _Store(Protocol):
    def now_ms(self) -> int: ...


class _Mailbox(Protocol):
    def approximate_count(self) -> int: ...


def store_dependency(store: _Store, name: str = "store", **options: Any) -> Dependency:
    """A store that answers what time it is, which takes one round trip to its database."""
    return Dependency(name, store.now_ms, **options)


def mailbox_dependency(mailbox: _Mailbox, name: str | None = None, **options: Any) -> Dependency:
    """A mailbox that can say how many messages it has."""
    label = name or f"mailbox {getattr(mailbox, 'name', '')}".strip()
    # Zero messages are a good answer.
    return Dependency(label, lambda: mailbox.approximate_count() >= 0, **options)


def http_dependency(
    url: str, name: str | None = None, *, timeout: float = 5.0, **options: Any
) -> Dependency:
    """A URL that answers a GET with a status below 400."""
    return _url_dependency(url, name or url, timeout, 400, options)


def model_dependency(
    url: str, name: str = "model provider", *, timeout: float = 10.0, **options: Any
) -> Dependency:
    """A model provider that answers at its address.

    Anything below 500 will do: a refusal without a key shows that it is there, and costs nothing.
    """
    return _url_dependency(url, name, timeout, 500, options)


def _url_dependency(
    url: str, name: str, timeout: float, limit: int, options: dict[str, Any]
) -> Dependency:
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{url!r} is no address to check; expected http:// or https://")

    def check() -> None:
        try:
            # The scheme is checked above.
            with urllib.request.urlopen(url, timeout=timeout):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            with error:
                if error.code >= limit:
                    raise ConnectionError(f"{url} answered {error.code}") from None

    return Dependency(str(redact(name)), check, timeout, **options)


# Running them


class Probe:
    """One check, done again and again on a thread of its own, and how it stands."""

    def __init__(
        self,
        check: Dependency | WarmupStep,
        clock: Clock,
        stop: threading.Event,
        on_change: Callable[[], None],
    ) -> None:
        self.name = check.name
        self._check = check
        self._clock = clock
        self._stop = stop
        self._on_change = on_change
        self._failures = 0
        self._problem: str | None = "not checked yet"
        #: When the check that is going on began; None between checks.
        self._began_at: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"afl-check-{self.name}", daemon=True).start()

    @property
    def problem(self) -> str | None:
        """Why it is not well, or None."""
        return self._lateness(self._began_at) or self._problem

    def _run(self) -> None:
        while not self._stop.is_set():
            self._note(self._attempt())
            if self._is_done():
                return
            self._clock.wait(self._stop, self._pause())

    def _attempt(self) -> str | None:
        """Check once; what is wrong, or None."""
        began_at = self._began_at = self._clock.monotonic()
        try:
            answer = _action_of(self._check)()
        except Exception as error:
            return _sentence(error)
        finally:
            self._began_at = None
        return self._lateness(began_at) or ("the check says no" if answer is False else None)

    def _lateness(self, began_at: float | None) -> str | None:
        limit = self._check.timeout
        if began_at is None or self._clock.monotonic() - began_at <= limit:
            return None
        return f"no answer within {format_duration(limit)}"

    def _note(self, problem: str | None) -> None:
        was_well = self._failures == 0 and self._problem is None
        is_news = not was_well if problem is None else self._failures == 0
        self._failures = self._failures + 1 if problem else 0
        self._problem = problem
        if is_news:
            self._tell(problem)
        self._on_change()

    def _tell(self, problem: str | None) -> None:
        at = self._clock.now()
        if problem is None:
            telemetry.emit(telemetry.CheckPassed(at=at, check=self.name))
        else:
            telemetry.emit(telemetry.CheckFailed(at=at, check=self.name, reason=problem))

    def _is_done(self) -> bool:
        return self._problem is None and isinstance(self._check, WarmupStep)

    def _pause(self) -> float:
        if self._failures or isinstance(self._check, WarmupStep):
            return self._check.retry.delay(max(self._failures, 1))
        return self._check.interval


def _action_of(check: Dependency | WarmupStep) -> Action:
    return check.check if isinstance(check, Dependency) else check.action


def _sentence(error: Exception) -> str:
    text = str(redact(str(error))).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def problems_of(probes: Iterable[Probe]) -> list[str]:
    """What is wrong, each with the name of the one it is wrong with."""
    stands = [(each.name, each.problem) for each in probes]
    return [f"{name}: {problem}" for name, problem in stands if problem is not None]
