"""What a service does: its agents and workers, and what they need. Opens nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

from afl.agents.calling import AnyAdapter
from afl.errors import UsageError
from afl.loops.agent_loop import AgentLoop
from afl.loops.durable import OnMismatch
from afl.loops.requests import AgentLoopConfig
from afl.mailbox.failure import DLQPolicy
from afl.runtime.dependencies import (
    Dependency,
    WarmupStep,
    as_step,
    http_dependency,
)
from afl.serving.request_types import request_type_of, require_json

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[], object]

_DAYS_KEPT = 30


class AgentOptions(TypedDict, total=False):
    """What may be said of an agent."""

    #: How many turns go on at once, in each process.
    concurrency: int
    #: What its requests are; otherwise as the code says.
    request_type: Any
    config: AgentLoopConfig
    #: What becomes of requests that fail; otherwise each failure is answered, once.
    dlq: DLQPolicy[Any]
    #: What becomes of turns that do not fit new code: they wait for a person, or `restart`.
    on_mismatch: OnMismatch
    #: How long turns are kept after their end; None: for ever.
    retention: timedelta | None
    #: After how many seconds the turns of a process that was killed go on elsewhere.
    lease_s: float


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent of an app. Raises UsageError for what cannot be."""

    name: str
    #: Makes its loop, of what a service has for it.
    make: Callable[..., AgentLoop[Any, Any]]
    adapter: AnyAdapter | None = None
    request_type: Any = Any
    concurrency: int = 1
    config: AgentLoopConfig | None = None
    dlq: DLQPolicy[Any] | None = None
    on_mismatch: OnMismatch = "wait"
    retention: timedelta | None = field(default=timedelta(days=_DAYS_KEPT))
    lease_s: float = 15.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise UsageError(f"{self.name!r} is no name of an agent; give it a text")
        require_json(self.request_type, self.name)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Tasks of runs, done beside the agents. What is None is as the settings have it. Raises
    UsageError for what cannot be."""

    #: Modules or files with handlers, beside those that are registered in the store.
    handlers: Sequence[str] = ()
    topics: Sequence[str] | None = None
    task_list: str | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        # Here it is called so; the worker that is made of this calls it otherwise.
        if self.concurrency is not None and self.concurrency < 1:
            raise UsageError(f"concurrency is {self.concurrency}; expected 1 or more")


class App:
    """Say in a file what a service does, and let `afl serve` run it:

        app = afl.App()

        @app.agent("support")
        def support(request: str, turn: Turn) -> str: ...

    A declaration only: nothing is opened or started before it is served.
    """

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}
        self._workers: list[Worker] = []
        self._dependencies: dict[str, Dependency] = {}
        self._warmup: list[WarmupStep] = []

    def agent(self, name: str | None = None, **options: Unpack[AgentOptions]) -> Callable[[F], F]:
        """The function below does the turns of an agent: it is called with a request, and with the
        `Turn` if it takes a second parameter. What it returns is the answer."""
        if callable(name):
            raise UsageError('write `@app.agent()`, or `@app.agent("name")`, with parentheses')

        def declare(function: F) -> F:
            make = partial(AgentLoop.from_function, function)
            called = name or str(getattr(function, "__name__", ""))
            self._add(called, make, request_type_of(function), None, options)
            return function

        return declare

    def agent_loop(
        self,
        name: str,
        make: Callable[..., AgentLoop[Any, Any]],
        *,
        adapter: AnyAdapter | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        """An agent that has a class. `make` is the class, or a function with its keywords that
        makes one: `lambda **parts: Support(shop, **parts)`.

        What the adapter can do to be warm (`prepare`) and to be checked (`ping`) is done before
        the service is ready.
        """
        self._add(name, make, request_type_of(make), adapter, options)

    def _add(
        self,
        name: str,
        make: Callable[..., AgentLoop[Any, Any]],
        request_type: Any,
        adapter: AnyAdapter | None,
        options: AgentOptions,
    ) -> None:
        given: dict[str, Any] = {"request_type": request_type, **options}
        unknown = given.keys() - AgentOptions.__annotations__
        if unknown:
            raise UsageError(
                f"an agent has no {', '.join(sorted(unknown))}; it has "
                f"{', '.join(AgentOptions.__annotations__)}"
            )
        if name in self._agents:
            raise UsageError(f"two agents of the app are called {name!r}; rename one of them")
        self._agents[name] = Agent(name=name, make=make, adapter=adapter, **given)

    def worker(
        self,
        *handlers: str,
        topics: Sequence[str] | None = None,
        task_list: str | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Do also the tasks of runs, as `afl worker` does: with the handlers that are registered in
        the store, and those of these modules or files."""
        self._workers.append(
            Worker(handlers=handlers, topics=topics, task_list=task_list, concurrency=concurrency)
        )

    def dependency(self, name: str, check: Check | str, **options: Any) -> None:
        """Something that must be there before turns are taken, and is looked at again and again:
        a function that raises or returns False if it is not, or a URL that answers a GET. `options`
        are those of `Dependency`: timeout, retry, interval."""
        if name in self._dependencies:
            raise UsageError(f"two dependencies of the app are called {name!r}; rename one of them")
        if isinstance(check, str):
            self._dependencies[name] = http_dependency(check, name, **options)
        else:
            self._dependencies[name] = Dependency(name, check, **options)

    def warmup(self, step: F) -> F:
        """Call this function before turns are taken, until it returns."""
        self._warmup.append(as_step(step))
        return step

    # What was said

    @property
    def agents(self) -> tuple[Agent, ...]:
        return tuple(self._agents.values())

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._workers)

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        return tuple(self._dependencies.values())

    @property
    def warmup_steps(self) -> tuple[WarmupStep, ...]:
        return tuple(self._warmup)
