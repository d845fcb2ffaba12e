"""From an app and settings to a group that serves it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from afl.bootstrap import open_store, retention_loop, service_options, worker_loops
from afl.config import UNSET, Config
from afl.errors import UsageError
from afl.gateway import LoopInfo, Token
from afl.gateway.http_loop import HttpLoop
from afl.ids import new_id
from afl.loops import AgentLoop, AgentLoopRequest, Durability
from afl.mailbox import Mailbox, open_mailbox
from afl.runtime.dependencies import (
    Dependency,
    WarmupStep,
    mailbox_dependency,
    store_dependency,
)
from afl.runtime.lifecycle import LoopGroup, Runnable
from afl.serving.api import ServedApi
from afl.serving.app import Agent, App, Worker
from afl.serving.extras import require_dashboard
from afl.serving.presence import Presence
from afl.serving.tokens import Admission, admission
from afl.turns import TurnStore, open_turns

_DEADLINES = "1m to 2m for agents that chat, 2m to 5m for those that use tools, 30m for research"
#: Stores in which mailboxes can be, too.
_WITH_MAILBOXES = ("memory", "sqlite", "postgresql", "postgres")
#: A model provider is far away, and slow to say that it is there.
_PING_TIMEOUT_S = 10.0
_PING_INTERVAL_S = 30.0
_PREPARE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Service:
    """A service that is put together; `group.run()` serves until it is stopped."""

    group: LoopGroup
    api: ServedApi
    admission: Admission
    #: One, if the settings ask for it.
    dashboards: Sequence[HttpLoop] = ()
    #: None if nobody else could see it.
    presence: Presence | None = None

    def shown(self) -> AbstractContextManager[None]:
        """While `group` runs: others see the service among the servers of the store."""
        return nullcontext() if self.presence is None else self.presence.shown()


@contextmanager
def open_service(app: App, config: Config) -> Iterator[Service]:
    """Put a service together; what it opens is closed at the end of the block.

    Raises UsageError for an app without agents, ConfigurationError without a drain deadline and
    for settings that cannot be, StoreUnavailable if the store cannot be opened.
    """
    options = service_options(config, "a service", "turns", _DEADLINES)
    if not app.agents:
        raise UsageError(
            "the app has no agents: declare one with @app.agent or app.agent_loop, or use "
            "`afl worker`, which does the tasks of runs alone"
        )
    admitted = admission(config.serve)
    with ExitStack() as stack:
        parts = _Parts(config, stack)
        for agent in app.agents:
            parts.add_agent(agent)
        for worker in app.workers:
            parts.add_worker(worker)
        if app.workers:
            parts.add_retention()
        group: LoopGroup  # which the API asks, and is part of
        api = ServedApi(
            parts.turns,
            loops=[LoopInfo(each.name, each.request_type) for each in app.agents],
            host=config.serve.host,
            port=config.serve.port,
            tokens=admitted.tokens,
            ready=lambda: group.ready(),
            others=parts.loops,
            # The other half is for what it takes to end.
            stay_s=options["checkpoint_reserve_seconds"] / 2,
        )
        dashboards = parts.dashboards(admitted.tokens)
        group = LoopGroup(
            [*parts.loops, api, *dashboards],
            dependencies=[*parts.dependencies, *app.dependencies],
            warmup=[*parts.warmup, *app.warmup_steps],
            **options,
        )
        yield Service(group, api, admitted, dashboards, parts.presence(group))


class _Parts:
    """What a service is made of, as it comes together."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        self._config = config
        self._stack = stack
        self._owner = _owner(config.serve.name)
        self.turns: TurnStore = stack.enter_context(closing(open_turns(config.store.url)))
        self.loops: list[Runnable] = []
        self.dependencies: list[Dependency] = [store_dependency(self.turns)]
        self.warmup: list[WarmupStep] = []

    def add_agent(self, agent: Agent) -> None:
        requests = self._requests(agent)
        self.dependencies.append(mailbox_dependency(requests))
        self.loops.append(_loop(agent, requests, self.turns, self._owner))
        self._add_provider(agent)

    def add_worker(self, worker: Worker) -> None:
        store = self._stack.enter_context(closing(open_store(self._config.store.url)))
        self.loops += worker_loops(store, _for_worker(self._config, worker), worker.handlers)

    def add_retention(self) -> None:
        store = self._stack.enter_context(closing(open_store(self._config.store.url)))
        self.loops.append(retention_loop(store, self._config))

    def dashboards(self, tokens: Sequence[Token]) -> list[HttpLoop]:
        serve = self._config.serve
        if serve.dashboard_port == UNSET:
            return []
        require_dashboard()
        # Only here: not every service has the packages for it.
        from afl.dashboard.server import Dashboard
        from afl.serving.pages import open_desk

        store = self._stack.enter_context(closing(open_store(self._config.store.url)))
        mailboxes = None if serve.mailboxes == UNSET else serve.mailboxes
        desk = self._stack.enter_context(open_desk(self._config, store, mailboxes=mailboxes))
        return [Dashboard(desk, tokens=tokens, host=serve.host, port=int(serve.dashboard_port))]

    def presence(self, group: LoopGroup) -> Presence | None:
        if self._config.store.url.startswith("memory:"):
            return None
        store = self._stack.enter_context(closing(open_store(self._config.store.url)))
        agents = [each for each in self.loops if isinstance(each, AgentLoop)]
        return Presence(store, group, agents, self._config.serve.name)

    def _requests(self, agent: Agent) -> Mailbox[Any, Any]:
        body_type, url = _body_type(agent.request_type), mailbox_url(self._config)
        return self._stack.enter_context(open_mailbox(url, agent.name, body_type=body_type))

    def _add_provider(self, agent: Agent) -> None:
        """The model is asked nothing that costs before it is needed; but it must be there."""
        prepare: Callable[[], object] | None = getattr(agent.adapter, "prepare", None)
        ping: Callable[[], object] | None = getattr(agent.adapter, "ping", None)
        label = f"model of {agent.name}"
        if prepare is not None:
            self.warmup.append(WarmupStep(label, prepare, _PREPARE_TIMEOUT_S))
        if ping is not None:
            self.dependencies.append(
                Dependency(label, ping, _PING_TIMEOUT_S, interval=_PING_INTERVAL_S)
            )


def _body_type(request_type: Any) -> Any:
    """Of messages; None takes anything, also bare requests."""
    return None if request_type is Any else AgentLoopRequest[request_type]


def mailbox_url(config: Config) -> str:
    """Where the mailboxes are: in the store, unless somebody says otherwise."""
    given, store = config.serve.mailboxes, config.store.url
    if given != UNSET:
        return given
    return store if store.partition(":")[0].lower() in _WITH_MAILBOXES else "memory:"


def _loop(
    agent: Agent, requests: Mailbox[Any, Any], turns: TurnStore, owner: str
) -> AgentLoop[Any, Any]:
    durability = Durability(
        turns,
        on_mismatch=agent.on_mismatch,
        retention=agent.retention,
        request_type=agent.request_type,
    )
    adapter = {} if agent.adapter is None else {"adapter": agent.adapter}
    loop = agent.make(
        requests=requests,
        turns=durability,
        name=agent.name,
        worker_id=owner,
        concurrency=agent.concurrency,
        config=agent.config,
        dlq=agent.dlq,
        lease_s=agent.lease_s,
        **adapter,
    )
    if not isinstance(loop, AgentLoop):
        raise UsageError(
            f"what makes the agent {agent.name} gives {type(loop).__name__}; expected an AgentLoop"
        )
    return loop


def _for_worker(config: Config, worker: Worker) -> Config:
    said = {
        "topics": None if worker.topics is None else tuple(worker.topics),
        "task_list": worker.task_list,
        "concurrency": worker.concurrency,
    }
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return replace(config, worker=replace(config.worker, **changes))


def _owner(name: str) -> str:
    """Who does turns: no two processes are the same, also if they are called the same."""
    label = socket.gethostname() if name == UNSET else name
    return f"{label}-{new_id()[-8:]}"
