"""Traces of runs, made from what is told and from handlers at work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from afl.clock import FakeClock
from afl.errors import UsageError
from afl.lang.compiler import compile_source
from afl.runtime import tracing
from afl.runtime.dispatch import HandlerContext, invoke, invoke_async
from afl.runtime.entities import HandlerRegistration, Isolation, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.isolated import call, in_process, tell
from afl.runtime.loading import Handler
from afl.runtime.memory_store import MemoryStore
from afl.runtime.registrations import RegistrationLoader
from afl.runtime.types import StepId, WorkflowId
from afl.telemetry import ModelCalled, ModelCallRetried, Telemetry

PROGRAM = compile_source(
    """
    namespace shop {
        event facet Pay(amount: Long) => (receipt: String)
        facet Sell(amount: Long) => (receipt: String) andThen {
            paid = Pay(amount = $.amount) with afl.Retry(max = 2, backoff = "1s")
            yield Sell(receipt = paid.receipt)
        }
        workflow Order() => (receipt: String) andThen {
            sold = Sell(amount = 5)
            yield Order(receipt = sold.receipt)
        }
    }
    """
)


class Bench:
    """A store, an evaluator, and what was exported."""

    def __init__(self, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
        self.provider = provider
        self.exporter = exporter
        self.telemetry = Telemetry()
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.evaluator = Evaluator(self.store, self.telemetry, clock=self.clock)

    def submit(self) -> WorkflowId:
        return self.evaluator.submit(PROGRAM, "shop.Order")

    def claim(self) -> TaskDefinition:
        (task,) = self.store.claim_tasks(["Pay"], 1)
        return task

    def do(self, task: TaskDefinition, function: Any) -> None:
        try:
            result = invoke(Handler(task.name, function, "here"), task, HandlerContext(task))
        except ValueError as error:
            self.evaluator.fail_task(task, error)
        else:
            self.evaluator.complete_task(task, result)

    def spans(self) -> dict[str, ReadableSpan]:
        found = self.exporter.get_finished_spans()
        assert len({each.name for each in found}) == len(found)
        return {each.name: each for each in found}

    def handlers(self) -> list[ReadableSpan]:
        found = self.exporter.get_finished_spans()
        return [each for each in found if each.name == "handler shop.Pay"]


def new_bench(provider: TracerProvider) -> Bench:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Bench(provider, exporter)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = new_bench(TracerProvider())
    uninstall = tracing.install(made.telemetry, made.provider)
    yield made
    uninstall()


def pay(payload: dict[str, Any]) -> dict[str, Any]:
    return {"receipt": "r1"}


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_run_is_one_trace_of_its_steps_and_handlers(bench: Bench) -> None:
    run = bench.submit()
    bench.clock.advance(2)
    bench.do(bench.claim(), pay)
    spans = bench.spans()
    assert set(spans) == {"run shop.Order", "step sold", "step paid", "handler shop.Pay"}
    assert len({each.context.trace_id for each in spans.values() if each.context}) == 1
    assert parent_of(spans["run shop.Order"]) is None
    assert parent_of(spans["step sold"]) == id_of(spans["run shop.Order"])
    assert parent_of(spans["step paid"]) == id_of(spans["step sold"])
    assert parent_of(spans["handler shop.Pay"]) == id_of(spans["step paid"])
    assert facts(spans["run shop.Order"]) == {
        "afl.run": run,
        "afl.workflow": "shop.Order",
        "afl.state": "completed",
    }
    assert facts(spans["handler shop.Pay"])["afl.attempt"] == 1
    assert spans["handler shop.Pay"].kind is SpanKind.CONSUMER


def test_a_span_begins_when_its_run_or_step_did(bench: Bench) -> None:
    bench.submit()
    bench.clock.advance(2)
    bench.do(bench.claim(), pay)
    for name in ("run shop.Order", "step paid"):
        span = bench.spans()[name]
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time - span.start_time == 2_000_000_000
        assert span.end_time == bench.clock.now().timestamp() * 1_000_000_000


def test_parts_that_other_processes_make_are_of_the_same_trace(bench: Bench) -> None:
    """A second set of spans, as another process has it, agrees about all ids."""
    bench.submit()
    task = bench.claim()
    other = new_bench(TracerProvider())
    from afl.runtime.spans import Spans

    with Spans(other.provider).handling(task):
        pass
    bench.do(task, pay)
    (there,), (here,) = other.handlers(), bench.handlers()
    assert there.context is not None
    assert here.context is not None
    assert (there.context.trace_id, id_of(there)) == (here.context.trace_id, id_of(here))
    assert parent_of(there) == id_of(bench.spans()["step paid"])


def test_attempts_are_linked(bench: Bench) -> None:
    def decline(payload: dict[str, Any]) -> None:
        raise ValueError("card declined")

    bench.submit()
    bench.do(bench.claim(), decline)
    bench.clock.advance(1)
    bench.claim()  # whose worker dies
    bench.clock.advance(15)
    bench.do(bench.claim(), decline)
    bench.evaluator.retry_step(StepId(bench.store.get_all_tasks()[0].step_id))
    bench.do(bench.claim(), pay)
    first, third, fourth = bench.handlers()
    assert first.links == ()
    # That of the worker that died was never exported, and is named all the same.
    assert [each.context.span_id for each in third.links] != [id_of(first)]
    assert [each.context.span_id for each in fourth.links] == [id_of(third)]
    assert first.status.status_code is StatusCode.ERROR
    assert first.events[0].name == "exception"
    assert fourth.status.status_code is StatusCode.UNSET


def test_a_retry_is_linked_to_what_failed(bench: Bench) -> None:
    def decline(payload: dict[str, Any]) -> None:
        raise ValueError("card declined")

    bench.submit()
    bench.do(bench.claim(), decline)
    bench.clock.advance(1)
    bench.do(bench.claim(), pay)
    first, second = bench.handlers()
    assert [each.context.span_id for each in second.links] == [id_of(first)]
    assert facts(second)["afl.attempt"] == 2


def test_errors_of_steps_and_runs_are_theirs(bench: Bench) -> None:
    bench.submit()
    bench.evaluator.fail_step(StepId(bench.claim().step_id), "no money")
    for span in bench.spans().values():
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "no money"


def test_what_a_handler_traces_itself_and_asks_of_models_is_below_it(bench: Bench) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def ask(payload: dict[str, Any]) -> dict[str, Any]:
        with bench.provider.get_tracer("mine").start_as_current_span("look up"):
            pass
        bench.telemetry.emit(
            ModelCallRetried(at=at, model="m", attempt=1, wait_s=1.0, error="overloaded")
        )
        bench.telemetry.emit(
            ModelCalled(
                at=at, model="m", input_tokens=7, output_tokens=3, duration_s=1.5, attempts=2
            )
        )
        return {"receipt": "r"}

    bench.submit()
    bench.do(bench.claim(), ask)
    spans = bench.spans()
    handler, model = spans["handler shop.Pay"], spans["chat m"]
    assert parent_of(spans["look up"]) == id_of(handler)
    assert parent_of(model) == id_of(handler)
    assert model.kind is SpanKind.CLIENT
    assert facts(model)["gen_ai.usage.input_tokens"] == 7
    assert facts(model)["gen_ai.usage.output_tokens"] == 3
    assert model.start_time == (at.timestamp() - 1.5) * 1_000_000_000
    assert [each.name for each in handler.events] == ["model_call_retried"]


def test_asynchronous_handlers_that_run_together_have_each_their_own_span(bench: Bench) -> None:
    async def look(payload: dict[str, Any]) -> dict[str, Any]:
        before = trace.get_current_span().get_span_context().span_id
        await asyncio.sleep(0)
        assert trace.get_current_span().get_span_context().span_id == before
        return {"span": str(before)}

    bench.submit()
    bench.submit()
    tasks = bench.store.claim_tasks(["Pay"], 2)

    async def both() -> list[dict[str, Any]]:
        handler = Handler("shop.Pay", look, "here")
        return await asyncio.gather(
            *(invoke_async(handler, each, HandlerContext(each)) for each in tasks)
        )

    seen = [int(each["span"]) for each in asyncio.run(both())]
    assert sorted(seen) == sorted(id_of(each) for each in bench.handlers())


def test_a_handler_in_another_process_has_its_span_here(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text("def handle(payload):\n    raise ValueError('card declined')\n")
    bench.submit()
    task = bench.claim()
    registration = HandlerRegistration("shop.Pay", path.as_uri(), isolation=Isolation.PROCESS)
    how = in_process(RegistrationLoader([tmp_path]).load(registration), task, lambda *_: None)
    said: list[Any] = []
    assert how.argument["is_traced"]
    # As in a process where nobody has installed anything.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "_spans", None)
        with pytest.raises(ValueError, match="card declined"):
            call(how.argument, lambda *each: said.append(each))
    for kind, value in said:
        tell(HandlerContext(task), kind, value)
    (span,) = bench.handlers()
    assert span.status.description == "ValueError: card declined"
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= span.end_time


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_traces_are_kept_as_a_whole_or_not_at_all(rate: float) -> None:
    bench = new_bench(TracerProvider(sampler=ParentBased(TraceIdRatioBased(rate))))
    uninstall = tracing.install(bench.telemetry, bench.provider)
    try:
        for _ in range(40):
            bench.submit()
            bench.do(bench.claim(), pay)
    finally:
        uninstall()
    found = bench.exporter.get_finished_spans()
    traces = {each.context.trace_id for each in found if each.context}
    assert len(found) == 4 * len(traces)
    assert len(traces) == 0 if rate == 0 else 0 < len(traces) < 40


def test_it_goes_to_whatever_opentelemetry_is_set_up_with_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = new_bench(TracerProvider())
    uninstall = tracing.install(bench.telemetry)
    try:
        bench.submit()
        bench.do(bench.claim(), pay)
        assert bench.spans() == {}
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: bench.provider)
        bench.submit()
        bench.do(bench.claim(), pay)
        assert len(bench.spans()) == 4
    finally:
        uninstall()


def test_it_can_be_turned_off_and_is_on_once(bench: Bench) -> None:
    with pytest.raises(UsageError, match="traces are on already"):
        tracing.install(bench.telemetry, bench.provider)
    assert tracing.is_on()


def test_nothing_is_traced_after_the_end() -> None:
    bench = new_bench(TracerProvider())
    uninstall = tracing.install(bench.telemetry, bench.provider)
    uninstall()
    uninstall()
    assert not tracing.is_on()
    assert not bench.telemetry.is_heard
    bench.submit()
    bench.do(bench.claim(), pay)
    assert bench.spans() == {}


OFF = """\
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from afl.errors import UsageError
from afl.runtime import tracing
from afl.runtime.dispatch import HandlerContext, invoke
from afl.runtime.entities import TaskDefinition
from afl.runtime.loading import Handler

task = TaskDefinition("t", "shop.Pay", "r", "w", "f", "s")
assert invoke(Handler("f", lambda payload: {}, "here"), task, HandlerContext(task)) == {}
assert tracing.handling(task) is tracing.handling(task)
try:
    tracing.install()
except UsageError as error:
    print(error)
"""


def test_without_the_extra_it_is_off_and_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFF], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'afl[otel]'" in done.stdout
