"""What a handler is given, and what it may return."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import pytest

from afl.runtime.dispatch import HandlerContext, invoke, invoke_async
from afl.runtime.entities import TaskDefinition
from afl.runtime.json_values import JsonObject, NotJson, json_object
from afl.runtime.loading import Handler
from afl.turns import ToolClient, current_effect


def task(**data: Any) -> TaskDefinition:
    return TaskDefinition(
        uuid="t1",
        name="shop.Charge",
        runner_id="r1",
        workflow_id="w1",
        flow_id="f1",
        step_id="s1",
        data=data,
        deliveries=2,
        idempotency_key="key-1",
    )


def call(function: Callable[..., Any], **data: Any) -> dict[str, Any]:
    given = task(**data)
    handler = Handler("shop.Charge", function, "handlers.py", {"unit": "EUR"})
    return invoke(handler, given, HandlerContext(given))


def test_a_handler_gets_the_arguments_its_facet_and_its_metadata() -> None:
    assert call(lambda payload: payload, amount=5) == {
        "amount": 5,
        "_facet_name": "shop.Charge",
        "_handler_metadata": {"unit": "EUR"},
    }


def test_a_handler_cannot_change_the_task() -> None:
    def spoil(payload: dict[str, Any]) -> None:
        payload["lines"].clear()

    given = task(lines=[1, 2])
    invoke(Handler("f", spoil, "here"), given, HandlerContext(given))
    assert given.data == {"lines": [1, 2]}


def _sent() -> list[str]:
    """The keys of two requests, by whatever a handler calls."""
    sent: list[str] = []

    def answer(request: Any) -> Any:
        sent.append(request.headers["idempotency-key"])
        return httpx.Response(200)

    with ToolClient(transport=httpx.MockTransport(answer)) as client:
        client.post("http://shop/charge")
        client.post("http://shop/mail")
    return sent


def test_requests_of_a_handler_carry_its_key() -> None:
    async def charge(payload: dict[str, Any]) -> dict[str, Any]:
        return {"sent": _sent()}

    given = task()
    handler = Handler("shop.Charge", charge, "handlers.py")
    found = call(lambda payload: {"sent": _sent()})["sent"]
    assert found[0] == "key-1"
    assert found[1] not in ("", "key-1")
    assert asyncio.run(invoke_async(handler, given, HandlerContext(given))) == {"sent": found}
    assert invoke(handler, given, HandlerContext(given)) == {"sent": found}
    assert current_effect() is None


def test_a_second_parameter_is_the_context() -> None:
    def charge(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        return {
            "ids": (context.task_id, context.step_id, context.workflow_id),
            "key": context.idempotency_key,
            "attempt": context.attempt,
            "facet": context.facet_name,
            "late": context.deadline is not None or context.cancelled,
        }

    assert call(charge) == {
        "ids": ["t1", "s1", "w1"],
        "key": "key-1",
        "attempt": 2,
        "facet": "shop.Charge",
        "late": False,
    }


def test_a_context_with_a_default_is_still_the_context() -> None:
    def charge(payload: dict[str, Any], context: Any = None) -> dict[str, Any]:
        return {"given": context is not None}

    assert call(charge) == {"given": True}


@pytest.mark.parametrize(
    "function",
    [
        lambda payload, tries=3: {"tries": tries},
        lambda payload, *, tries=3: {"tries": tries},
        functools.partial(lambda tries, payload: {"tries": tries}, 3),
    ],
)
def test_other_parameters_are_left_alone(function: Callable[..., Any]) -> None:
    assert call(function) == {"tries": 3}


class Charger:
    async def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"paid": payload["amount"], "key": context.idempotency_key}


def test_an_asynchronous_handler_is_awaited() -> None:
    async def charge(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"paid": payload["amount"]}

    assert call(charge, amount=5) == {"paid": 5}
    assert call(Charger(), amount=5) == {"paid": 5, "key": "key-1"}


def test_how_coroutines_run_is_the_callers_choice() -> None:
    async def charge(payload: dict[str, Any]) -> dict[str, Any]:
        return {}

    def run(awaitable: Any) -> dict[str, Any]:
        awaitable.close()
        return {"by": "me"}

    given = task()
    assert invoke(Handler("f", charge, "here"), given, HandlerContext(given), run) == {"by": "me"}


def test_nothing_is_an_empty_result() -> None:
    assert call(lambda payload: None) == {}


def test_a_result_is_plain_json() -> None:
    result = call(lambda payload: OrderedDict(a=(1, 2), b={"c": [None, True, 1.5, "x"]}))
    assert result == {"a": [1, 2], "b": {"c": [None, True, 1.5, "x"]}}
    assert type(result) is JsonObject
    assert type(result["b"]) is dict


def test_a_result_is_looked_at_and_copied_once() -> None:
    result = call(lambda payload: {"a": [1]})
    assert json_object(result, "the result of a task") is result


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ([1], "expected a mapping of names to values, got a list"),
        ("ok", "expected a mapping of names to values, got a str"),
        ({"when": object()}, "when is an object"),
        ({"a": [{"b": {1}}]}, r"a\[0\].b is a set"),
        ({"x": float("nan")}, "x is nan"),
        ({"x": {1: 2}}, "x has the key 1"),
    ],
)
def test_a_result_that_no_step_can_hold_names_handler_and_type(result: Any, problem: str) -> None:
    def charge(payload: dict[str, Any]) -> Any:
        return result

    with pytest.raises(NotJson, match=f"result of handler handlers.py: charge: {problem}"):
        call(charge)


def test_what_a_handler_raises_comes_out() -> None:
    def charge(payload: dict[str, Any]) -> None:
        raise ValueError("card declined")

    with pytest.raises(ValueError, match="card declined"):
        call(charge)


def test_heartbeats_updates_and_logs_go_to_whoever_runs_it() -> None:
    seen: list[object] = []
    context = HandlerContext(
        task(),
        on_heartbeat=lambda: seen.append("beat"),
        on_update=seen.append,
        on_log=lambda message, level: seen.append((message, level)),
    )
    context.heartbeat()
    context.update({"done": [1]})
    context.log("half")
    context.log("odd", "warning")
    assert seen == ["beat", {"done": [1]}, ("half", "info"), ("odd", "warning")]


def test_cancellation_can_be_seen() -> None:
    context = HandlerContext(task())
    assert not context.cancelled
    context.cancellation.set()
    assert context.cancelled


def test_the_asynchronous_form_does_the_same() -> None:
    async def charge(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"paid": payload["amount"], "key": context.idempotency_key}

    def refund(payload: dict[str, Any]) -> tuple[int, int]:
        return 1, 2

    given = task(amount=5)

    async def both() -> None:
        handler = Handler("shop.Charge", charge, "here")
        done = await invoke_async(handler, given, HandlerContext(given))
        assert done == {"paid": 5, "key": "key-1"}
        with pytest.raises(NotJson, match="expected a mapping"):
            await invoke_async(Handler("f", refund, "here"), given, HandlerContext(given))

    asyncio.run(both())


def test_a_callable_is_looked_at_once() -> None:
    looked: list[object] = []

    class Charger:
        @property
        def __signature__(self) -> inspect.Signature:
            looked.append(1)
            return inspect.signature(lambda payload, context: None)

        def __call__(self, *given: Any) -> dict[str, Any]:
            return {"given": len(given)}

    handler, given = Handler("f", Charger(), "here"), task()
    for _ in range(3):
        assert invoke(handler, given, HandlerContext(given)) == {"given": 2}
    assert len(looked) == 1


def test_coroutine_functions_are_known_before_they_are_called() -> None:
    async def charge(payload: dict[str, Any]) -> None: ...

    def refund(payload: dict[str, Any]) -> None: ...

    waiting = (charge, functools.partial(charge), Charger())
    assert all(Handler("f", each, "here").is_async for each in waiting)
    assert not any(Handler("f", each, "here").is_async for each in (refund, Charger, print))
