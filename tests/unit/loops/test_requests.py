"""Requests and results of agent loops, as objects and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from afl import loops
from afl.agents.deadline import Deadline
from afl.agents.turn_budget import TurnBudget
from afl.errors import UsageError
from afl.loops.bundle_config import BundleConfig, BundleRetention, chosen_bundle
from afl.loops.requests import (
    AgentLoopRequest,
    AgentLoopResult,
    RunContext,
    TurnStatus,
    context_of,
    request_of,
)
from afl.loops.turn import Turn, current_turn, inner_turn, taking
from afl.mailbox import Message


@dataclass
class Question:
    text: str


def message_with(body: Any, handle: str = "m-1:1") -> Message[Any, Any]:
    return Message("m-1", body, handle, 3, datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("name", loops.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(loops, name) is not None
    assert name in dir(loops)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'AgentLop'"):
        loops.AgentLop  # noqa: B018


def test_a_request_travels_as_json_with_all_that_it_limits() -> None:
    request = AgentLoopRequest(
        Question("why?"),
        budget=TurnBudget(max_tokens=5),
        deadline=Deadline.after(60),
        resources={"place": "here"},
        run_context=RunContext(trace_id="t"),
        debug_bundle=BundleConfig("bundles", retention=BundleRetention(max_bundles=3)),
    )
    text = msgspec.json.encode(request)
    assert msgspec.json.decode(text, type=AgentLoopRequest[Question]) == request


def test_a_result_travels_as_json() -> None:
    result = AgentLoopResult("r-1", Question("because"), run_context=RunContext(attempt=2))
    text = msgspec.json.encode(result)
    assert msgspec.json.decode(text, type=AgentLoopResult[Question]) == result
    assert b'"status":"done"' in text


def test_a_result_with_an_error_has_failed() -> None:
    assert AgentLoopResult("r", error="no").status is TurnStatus.FAILED
    assert AgentLoopResult("r").success
    waiting = AgentLoopResult[Any]("r", error="wait", status=TurnStatus.SUSPENDED, resume_token="t")
    assert waiting.status is TurnStatus.SUSPENDED
    assert not waiting.success


def test_a_bare_body_is_asked_with_the_id_of_its_message() -> None:
    request = request_of(message_with("why?"))
    assert (request.request, request.request_id) == ("why?", "m-1")


def test_a_mapping_with_an_id_is_a_request() -> None:
    request = request_of(message_with({"request": [1], "request_id": "r-1"}))
    assert (request.request, request.request_id) == ([1], "r-1")


def test_a_mapping_that_only_looks_like_a_request_is_refused_and_still_has_a_context() -> None:
    message = message_with({"request": 1, "request_id": 5})
    with pytest.raises(UsageError, match="is no request"):
        request_of(message)
    assert context_of(message, "w").request_id == "m-1"


def test_a_request_that_cannot_be_read_is_told_by_the_id_that_its_sender_gave() -> None:
    message = message_with({"request": 1, "request_id": "r-1", "budget": "much"})
    assert context_of(message, "w").request_id == "r-1"


def test_a_context_is_the_same_for_the_same_delivery_only() -> None:
    first, second = message_with("x"), message_with("x", "m-1:2")
    assert context_of(first, "w") == context_of(first, "w")
    assert context_of(first, "w").run_id != context_of(second, "w").run_id
    assert context_of(first, "w").attempt == 3


def test_a_context_as_fields_of_logs_leaves_out_what_is_unknown() -> None:
    context = RunContext("run", "request", worker_id="w", attempt=2)
    assert context.to_log_context() == {
        "run_id": "run",
        "request_id": "request",
        "attempt": "2",
        "worker_id": "w",
    }


def test_a_turn_within_a_turn_is_part_of_it() -> None:
    beats: list[str] = []
    outer = Turn(attempt=2, on_beat=lambda: beats.append("outer"))
    with taking(outer):
        inner = inner_turn(None, {"a": 1}, lambda: beats.append("inner"))
        with taking(inner):
            current_turn().beat()
        assert current_turn() is outer
    assert beats == ["inner", "outer"]
    outer.cancellation.set()
    assert inner.is_cancelled
    assert (inner.attempt, inner.resources) == (2, {"a": 1})


@pytest.mark.parametrize(
    ("asked", "configured", "chosen"),
    [
        (None, None, None),
        (BundleConfig("/b"), None, None),
        (BundleConfig("/b"), BundleConfig(), None),
        (None, BundleConfig("/b"), BundleConfig("/b")),
        (BundleConfig(), BundleConfig("/b"), BundleConfig("/b")),
        (BundleConfig("/b/c"), BundleConfig("/b"), BundleConfig("/b/c")),
    ],
)
def test_a_request_gets_the_bundle_that_its_loop_allows(
    asked: BundleConfig | None, configured: BundleConfig | None, chosen: BundleConfig | None
) -> None:
    assert chosen_bundle(asked, configured) == chosen


@pytest.mark.parametrize("target", ["/", "/c", "/b/../c", "/bc"])
def test_a_request_cannot_name_a_folder_elsewhere(target: str) -> None:
    with pytest.raises(UsageError, match="keeps bundles below"):
        chosen_bundle(BundleConfig(target), BundleConfig("/b"))
