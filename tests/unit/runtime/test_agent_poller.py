"""Functions of a program do tasks."""

from __future__ import annotations

import dataclasses
import socket
from dataclasses import replace
from typing import Any

import pytest
from tests.workers.shop import SENT, Shop, pack, running, weigh

from afl.errors import UsageError
from afl.operations import runs
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import TaskState
from afl.runtime.memory_store import MemoryStore


@pytest.fixture
def shop() -> Shop:
    return Shop(MemoryStore())


@pytest.fixture
def poller(shop: Shop) -> AgentPoller:
    return AgentPoller(shop.store, shop.evaluator)


def test_its_configuration_has_the_usual_fields_and_defaults() -> None:
    fields = dataclasses.fields(AgentPollerConfig)
    positional = {each.name: each.default for each in fields if not each.kw_only}
    assert positional == {
        "service_name": "afl-agent",
        "server_group": "default",
        "server_name": "",
        "task_list": "default",
        "poll_interval_ms": 2000,
        "max_concurrent": 5,
        "heartbeat_interval_ms": 10000,
    }
    assert AgentPollerConfig().server_name == socket.gethostname()
    assert AgentPollerConfig("x", "g", "n").server_name == "n"
    assert AgentPollerConfig().lease_ms == 15000


def test_who_is_registered_is_known_by_name(poller: AgentPoller) -> None:
    assert poller.registered_names() == []
    poller.register("shop.Weigh", weigh)
    poller.register("Pack", pack)
    assert poller.registered_names() == ["Pack", "shop.Weigh"]


def test_short_names_serve_all_namespaces(shop: Shop, poller: AgentPoller) -> None:
    poller.register("Weigh", weigh)
    poller.register("Pack", pack)
    run = shop.send()
    with running(poller):
        assert shop.outputs(run) == SENT


def test_an_exact_name_wins(shop: Shop, poller: AgentPoller) -> None:
    poller.register("Weigh", lambda payload: {"grams": 1})
    poller.register("shop.Weigh", lambda payload: {"grams": 2})
    run = shop.weigh_all("a")
    poller.poll_once()
    assert shop.outputs(run) == {"grams": [2]}


def test_the_last_registration_counts(shop: Shop, poller: AgentPoller) -> None:
    poller.register("shop.Weigh", lambda payload: {"grams": 1})
    poller.register("shop.Weigh", lambda payload: {"grams": 2})
    run = shop.weigh_all("a")
    poller.poll_once()
    assert shop.outputs(run) == {"grams": [2]}


def test_what_is_wrong_is_refused_at_once(poller: AgentPoller) -> None:
    with pytest.raises(UsageError, match=r"the handler of shop\.Weigh is of type str"):
        poller.register("shop.Weigh", "weigh")  # type: ignore[arg-type]
    assert poller.registered_names() == []


@pytest.mark.parametrize(
    "names", [("a.Weigh", "b.Weigh", "Weigh"), ("Weigh", "b.Weigh", "a.Weigh")], ids=str
)
def test_a_short_name_takes_the_rest_beside_any_exact_ones(
    shop: Shop, poller: AgentPoller, names: tuple[str, ...]
) -> None:
    for each in names:
        grams = 1 if each == "Weigh" else 2
        poller.register(each, lambda _payload, grams=grams: {"grams": grams})
    assert poller.registered_names() == ["Weigh", "a.Weigh", "b.Weigh"]
    run = shop.weigh_all("a")
    assert poller.poll_once() == 1
    assert shop.outputs(run) == {"grams": [1]}
    task = shop.task(run)
    handler = poller.handler_for(replace(task, name="b.Weigh"))
    assert handler is not None
    assert handler.facet == "b.Weigh"


class Scale:
    """Handlers may be objects."""

    async def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        return {"grams": len(payload["item"]) + len(context.facet_name)}


async def weigh_async(payload: dict[str, Any]) -> dict[str, Any]:
    return weigh(payload)


@pytest.mark.parametrize(
    ("handler", "grams"),
    [(weigh_async, 100), (lambda payload: weigh_async(payload), 100), (Scale(), 11)],
    ids=["coroutine function", "awaitable result", "object"],
)
@pytest.mark.parametrize("way", ["poll", "run"])
def test_handlers_may_be_asynchronous(
    shop: Shop, poller: AgentPoller, handler: Any, grams: int, way: str
) -> None:
    poller.register_async("shop.Weigh", handler)
    run = shop.weigh_all("a")
    if way == "poll":
        poller.poll_once()
    else:
        poller.run(max_iterations=1)
    assert shop.outputs(run) == {"grams": [grams]}


def test_a_task_that_nobody_serves_is_left_alone(shop: Shop, poller: AgentPoller) -> None:
    poller.register("shop.Pack", pack)
    run = shop.send()
    poller.run(max_iterations=1)
    assert poller.poll_once() == 0
    assert shop.task(run).state == TaskState.PENDING


def test_a_failure_ends_the_run_with_its_message(shop: Shop, poller: AgentPoller) -> None:
    def refuse(payload: dict[str, Any]) -> None:
        raise ValueError("too heavy")

    poller.register("Weigh", refuse)
    run = shop.send()
    assert poller.poll_once() == 1
    with pytest.raises(runs.RunFailed, match="too heavy"):
        shop.outputs(run)
    assert shop.task(run).state == TaskState.FAILED


def test_only_its_own_task_list_is_served(shop: Shop) -> None:
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(task_list="night"))
    poller.register("Weigh", weigh)
    by_day, by_night = shop.weigh_all("a"), shop.weigh_all("a", task_list="night")
    assert poller.poll_once() == 1
    assert shop.task(by_day).state == TaskState.PENDING
    assert shop.outputs(by_night) == {"grams": [100]}
