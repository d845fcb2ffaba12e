"""Metrics: what Prometheus reads is what was told."""

from __future__ import annotations

import logging
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afl.runtime import metrics
from afl.runtime.metrics import FAMILIES, Family, Metrics
from afl.runtime.phases import Phase
from afl.telemetry import (
    Event,
    HandlerNotLoaded,
    LoopStalled,
    MessageDeadLettered,
    ModelCalled,
    ModelCallRetried,
    PhaseChanged,
    ServerLost,
    Telemetry,
    ThreadAbandoned,
    TurnEnded,
)

_NOW = datetime(2024, 1, 1, tzinfo=UTC)
_SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (?P<value>\S+)'
)
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Name and label values → number, read as the format says; every line must fit it."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ (gauge|counter))", line)
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        labels = [unescaped(value) for _, value in _LABEL.findall(match["labels"] or "")]
        found[(match["name"], *labels)] = float(match["value"])
    return found


def unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), value)


def test_a_gauge_shows_its_last_value() -> None:
    numbers = Metrics()
    numbers.set(metrics.BEAT_AGE, 4.5, loop="mail")
    numbers.set(metrics.BEAT_AGE, 0.25, loop="mail")
    numbers.set(metrics.BEAT_AGE, 7, loop="evals")
    assert samples(numbers.render()) == {
        ("afl_heartbeat_age_seconds", "evals"): 7,
        ("afl_heartbeat_age_seconds", "mail"): 0.25,
    }


def test_a_counter_grows() -> None:
    numbers = Metrics()
    numbers.add(metrics.LEASES_LOST, loop="mail")
    numbers.add(metrics.LEASES_LOST, 2, loop="mail")
    assert samples(numbers.render()) == {("afl_leases_lost_total", "mail"): 3}


def test_nothing_is_lost_when_many_threads_count() -> None:
    numbers = Metrics()

    def count() -> None:
        for _ in range(1000):
            numbers.add(metrics.LEASES_LOST, loop="mail")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert samples(numbers.render()) == {("afl_leases_lost_total", "mail"): 8000}


def test_every_family_is_explained_even_without_a_number() -> None:
    lines = Metrics().render().splitlines()
    assert lines == [
        line
        for each in FAMILIES
        for line in (f"# HELP {each.name} {each.help}", f"# TYPE {each.name} {each.kind}")
    ]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_names_follow_the_rules_of_prometheus(family: Family) -> None:
    assert re.fullmatch(r"afl_[a-z_]+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.help.endswith(".")


@pytest.mark.parametrize("name", ['with "quotes"', "back\\slash", "two\nlines", "a,b}", ""])
def test_any_name_of_a_loop_can_be_a_label(name: str) -> None:
    numbers = Metrics()
    numbers.set(metrics.IN_FLIGHT, 1, loop=name)
    assert samples(numbers.render()) == {("afl_in_flight", name): 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e-9, "1e-09"),
        (2**70, str(2**70)),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_exactly(value: float, text: str) -> None:
    numbers = Metrics()
    numbers.set(metrics.DRAIN, value)
    assert f"\nafl_drain_seconds {text}\n" in numbers.render()


@pytest.mark.parametrize("labels", [{}, {"loop": "mail", "zone": "b"}, {"name": "mail"}])
def test_labels_that_the_family_does_not_have_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="afl_in_flight has the labels"):
        Metrics().set(metrics.IN_FLIGHT, 1, **labels)


def test_numbers_that_change_by_themselves_are_read_at_each_rendering(
    caplog: pytest.LogCaptureFixture,
) -> None:
    numbers, ages = Metrics(), iter([1, 2])
    numbers.on_render(lambda: 1 / 0)
    numbers.on_render(lambda: numbers.set(metrics.BEAT_AGE, next(ages), loop="mail"))
    with caplog.at_level(logging.ERROR):
        assert samples(numbers.render()) == {("afl_heartbeat_age_seconds", "mail"): 1}
        assert samples(numbers.render()) == {("afl_heartbeat_age_seconds", "mail"): 2}
    assert "metrics_reader_failed" in caplog.text


def test_the_reference_lists_every_family_and_no_other() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `afl_")]
    assert rows == [
        f"| `{each.name}` | {each.kind} | {labels}| {each.help} |"
        for each in FAMILIES
        for labels in [", ".join(f"`{label}`" for label in each.labels) + " " * bool(each.labels)]
    ]


def test_phases_and_stalls_are_heard_of() -> None:
    numbers, telemetry = Metrics(), Telemetry()
    telemetry.subscribe(numbers.hear)
    telemetry.emit(
        PhaseChanged(at=_NOW, phase="drain", previous="ready", duration_s=3, reason="SIGTERM")
    )
    stall = LoopStalled(
        at=_NOW, loop="mail", stage="suspected", silent_s=800, limit_s=720, handler="", line=""
    )
    telemetry.emit(stall)
    telemetry.emit(stall)
    found = samples(numbers.render())
    assert found.pop(("afl_stalls_total", "mail", "suspected")) == 2
    assert found == {("afl_phase", each.value): int(each is Phase.DRAIN) for each in Phase}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            ModelCalled(
                at=_NOW, model="m", input_tokens=7, output_tokens=3, duration_s=1, attempts=1
            ),
            {
                ("afl_model_calls_total", "m"): 1,
                ("afl_model_tokens_total", "m", "input"): 7,
                ("afl_model_tokens_total", "m", "output"): 3,
            },
        ),
        (
            ModelCallRetried(at=_NOW, model="m", attempt=1, wait_s=1, error="busy"),
            {("afl_model_retries_total", "m"): 1},
        ),
        (
            TurnEnded(
                at=_NOW, loop="l", request="r", attempt=1, status="done", error=None, duration_s=2.5
            ),
            {("afl_turns_total", "l", "done"): 1, ("afl_turn_seconds_total", "l"): 2.5},
        ),
        (
            MessageDeadLettered(at=_NOW, mailbox="box", message="m", deliveries=5, reason="no"),
            {("afl_dead_letters_total", "box"): 1},
        ),
        (
            ThreadAbandoned(at=_NOW, work="w", handler="h", line="x.py:1"),
            {("afl_threads_abandoned_total",): 1},
        ),
        (
            HandlerNotLoaded(at=_NOW, facet="a.B", server="s", error="gone"),
            {("afl_handlers_not_loaded_total", "a.B"): 1},
        ),
        (
            ServerLost(at=_NOW, server="s", service="svc", host="h", pid=1, reason="gone"),
            {("afl_servers_lost_total", "svc"): 1},
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_events_are_counted(event: Event, expected: dict[tuple[str, ...], float]) -> None:
    numbers = Metrics()
    numbers.hear(event)
    assert samples(numbers.render()) == expected
