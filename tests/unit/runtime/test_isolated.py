"""Handlers in a process of their own: what they are given, say and return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from afl.clock import SYSTEM_CLOCK
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import HandlerRegistration, Isolation, TaskDefinition
from afl.runtime.isolated import in_process, tell
from afl.runtime.registrations import RegistrationLoader
from afl.runtime.stacks import raised_at
from afl.work.isolation import Child, FailedThere

Do = Callable[..., Any]

TASK = TaskDefinition(
    "t1",
    "shop.Pay",
    "r1",
    "w1",
    "f1",
    "s1",
    data={"amount": 5},
    deliveries=2,
    failures=1,
    idempotency_key="key-1",
    timeout_ms=60_000,
)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with closing(Child()) as started:
        yield started


@pytest.fixture
def do(child: Child, tmp_path: Path) -> Do:
    """Have a handler with this text do a task; what it says goes into a list."""

    def do(
        text: str, said: list[Any] | None = None, task: TaskDefinition = TASK, **fields: Any
    ) -> Any:
        path = tmp_path / "handlers.py"
        path.write_text(dedent(text))
        given = {"isolation": Isolation.PROCESS, "checksum": str(hash(text)), **fields}
        registration = HandlerRegistration("shop.Pay", path.as_uri(), **given)
        handler = RegistrationLoader([tmp_path]).load(registration)
        how = in_process(handler, task, lambda *_: None)
        heard = [] if said is None else said
        return child.call(how.target, how.argument, lambda *each: heard.append(each))

    return do


def test_a_handler_there_gets_payload_metadata_and_context(do: Do) -> None:
    before = SYSTEM_CLOCK.now()
    result = do(
        """
        import os
        def handle(payload, context):
            return {
                "payload": payload,
                "key": context.idempotency_key,
                "attempt": context.attempt,
                "ids": [context.task_id, context.step_id, context.workflow_id],
                "deadline": context.deadline.isoformat(),
                "cancelled": context.cancelled,
                "pid": os.getpid(),
            }
        """,
        metadata={"unit": "EUR"},
    )
    assert result["payload"] == {
        "amount": 5,
        "_facet_name": "shop.Pay",
        "_handler_metadata": {"unit": "EUR"},
    }
    assert (result["key"], result["attempt"], result["cancelled"]) == ("key-1", 3, False)
    assert result["ids"] == ["t1", "s1", "w1"]
    left = datetime.fromisoformat(result["deadline"]) - before
    assert timedelta(minutes=1) <= left < timedelta(minutes=2)


def test_a_limit_beyond_all_calendars_is_no_deadline(do: Do) -> None:
    text = "def handle(payload, context): return {'is_none': context.deadline is None}\n"
    task = replace(TASK, timeout_ms=3_000_000 * 86_400_000)
    assert do(text, task=task) == {"is_none": True}


def test_where_it_runs_is_the_child(do: Do, child: Child) -> None:
    assert do("import os\ndef handle(payload): return {'pid': os.getpid()}\n") == {"pid": child.pid}


def test_a_coroutine_function_is_run_there_to_its_end(do: Do) -> None:
    text = """
        import asyncio
        async def handle(payload):
            await asyncio.sleep(0)
            return {"paid": payload["amount"]}
        """
    assert do(text) == {"paid": 5}


def test_what_it_says_reaches_the_context_here(do: Do) -> None:
    said: list[Any] = []
    do(
        """
        def handle(payload, context):
            context.log("half", "warning")
            context.update({"done": (1, 2)})
            context.heartbeat()
        """,
        said,
    )
    heard: list[Any] = []
    context = HandlerContext(
        TASK,
        on_heartbeat=lambda: heard.append("beat"),
        on_update=heard.append,
        on_log=lambda message, level: heard.append((message, level)),
    )
    for kind, value in said:
        tell(context, kind, value)
    assert heard == [("half", "warning"), {"done": [1, 2]}, "beat"]


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise KeyError('no card')", "KeyError", "no card"),
        ("return {'when': object()}", "NotJson", "result of handler .*handle: when is an object"),
        ("context.update({'x': {1}})", "NotJson", "partial result of shop.Pay: x is a set"),
        ("raise SystemExit(3)", "SystemExit", "3"),
    ],
)
def test_what_goes_wrong_there_is_raised_here(do: Do, body: str, kind: str, message: str) -> None:
    with pytest.raises(FailedThere, match=message) as raised:
        do(f"def handle(payload, context):\n    {body}\n")
    assert type(raised.value).__name__ == kind


def test_a_module_is_loaded_once_there(do: Do) -> None:
    text = """
        CALLS = []
        def handle(payload):
            CALLS.append(1)
            return {"calls": len(CALLS)}
        """
    assert [do(text)["calls"] for _ in range(3)] == [1, 2, 3]


def test_what_it_raises_names_the_line_in_its_file(do: Do, tmp_path: Path) -> None:
    with pytest.raises(FailedThere) as raised:
        do("""
            def handle(payload):
                return help_out(payload)

            def help_out(payload):
                raise ValueError("no money")
        """)
    assert raised_at(raised.value) == f"{tmp_path}/handlers.py:6 in help_out"
