"""Handlers by name, and one for everything else."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from afl.errors import UsageError
from afl.runtime import ToolRegistry
from afl.runtime.json_values import NotJson


def test_an_exact_name_goes_before_a_short_one() -> None:
    registry = ToolRegistry()
    registry.register("Pay", lambda payload: {"by": "short"})
    registry.register("shop.Pay", lambda payload: {"by": "exact"})
    assert registry.handle("shop.Pay", {}) == {"by": "exact"}
    assert registry.handle("club.Pay", {}) == {"by": "short"}
    assert registry.names() == ["Pay", "shop.Pay"]


def test_a_task_without_a_namespace_is_not_for_a_handler_with_one() -> None:
    registry = ToolRegistry()
    registry.register("shop.Pay", lambda payload: payload)
    assert registry.handle("Pay", {"a": 1}) is None
    registry.register("Pay", lambda payload: payload)
    assert registry.handle("Pay", {"a": 1}) == {"a": 1}


def test_what_nobody_serves_goes_to_the_default_handler() -> None:
    registry = ToolRegistry()
    registry.register("shop.Pay", lambda payload: {"by": "name"})
    assert registry.handle("shop.Ship", {}) is None
    assert not registry.has_handler("shop.Ship")
    registry.set_default_handler(lambda name, payload: {"name": name, **payload})
    assert registry.has_handler("shop.Ship")
    assert registry.handle("shop.Ship", {"a": 1}) == {"name": "shop.Ship", "a": 1}
    assert registry.handle("shop.Pay", {}) == {"by": "name"}
    assert registry.handler_for("shop.Ship", default=False) is None
    registry.set_default_handler(None)
    assert not registry.has_handler("shop.Ship")


def test_a_handler_that_returns_nothing_is_a_handler() -> None:
    registry = ToolRegistry()
    registry.register("Log", lambda payload: None)
    assert registry.handle("Log", {}) == {}


def test_a_coroutine_function_is_run_to_its_end() -> None:
    async def pay(payload: dict[str, Any]) -> dict[str, Any]:
        return {"paid": payload["amount"]}

    registry = ToolRegistry()
    registry.register("Pay", pay)
    assert registry.handle("Pay", {"amount": 5}) == {"paid": 5}


def test_a_result_that_is_not_json_is_refused() -> None:
    registry = ToolRegistry()
    registry.register("Pay", lambda payload: {"at": object()})
    with pytest.raises(NotJson, match="handler of Pay"):
        registry.handle("Pay", {})


def test_only_functions_with_names_can_be_registered() -> None:
    registry = ToolRegistry()
    with pytest.raises(UsageError, match="the handler of Pay is of type int"):
        registry.register("Pay", 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the name of a facet"):
        registry.register("", print)
    with pytest.raises(UsageError, match="the default handler is of type str"):
        registry.set_default_handler("x")  # type: ignore[arg-type]


def test_threads_may_register_while_others_look() -> None:
    registry, problems = ToolRegistry(), list[BaseException]()

    def register(prefix: str) -> None:
        try:
            for index in range(300):
                registry.register(f"{prefix}.F{index}", lambda payload: payload)
                registry.has_handler("none.Here")
                registry.names()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=register, args=(each,)) for each in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []
    assert len(registry.names()) == 1200
