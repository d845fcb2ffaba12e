"""Telemetry: every subscriber hears every event, and none can disturb the others."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from afl import log
from afl.bootstrap import log_events
from afl.clock import FakeClock
from afl.telemetry import (
    EVENTS,
    TELEMETRY,
    ConfigLoaded,
    Event,
    OperatorActed,
    ProgramCompiled,
    StreamClosed,
    StreamOpened,
    Telemetry,
)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def compiled(sources: int = 1) -> ProgramCompiled:
    return ProgramCompiled(
        at=FakeClock().now(), sources=sources, declarations=2, duration_s=0.5, warnings=0
    )


def failing(event: Event) -> None:
    raise RuntimeError("exporter is down")


def test_subscribers_hear_events_in_order_until_they_leave(telemetry: Telemetry) -> None:
    heard: list[Event] = []
    leave = telemetry.subscribe(heard.append)
    first, second = compiled(1), compiled(2)
    telemetry.emit(first)
    telemetry.emit(second)
    leave()
    leave()
    telemetry.emit(compiled(3))
    assert heard == [first, second]
    assert telemetry.statistics().subscribers == 0


def test_the_same_callback_can_subscribe_twice_and_leave_once(telemetry: Telemetry) -> None:
    heard: list[Event] = []
    leave = telemetry.subscribe(heard.append)
    telemetry.subscribe(heard.append)
    leave()
    telemetry.emit(compiled())
    assert len(heard) == 1


def test_a_failing_subscriber_disturbs_nobody_and_is_logged_once(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Event] = []
    telemetry.subscribe(failing)
    telemetry.subscribe(heard.append)
    for _ in range(3):
        telemetry.emit(compiled())
    assert len(heard) == 3
    assert telemetry.statistics().failures == 3
    assert len(caplog.records) == 1
    assert "exporter is down" in caplog.text
    assert "program_compiled" in caplog.text


def test_each_failing_subscriber_is_logged(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.subscribe(failing)
    telemetry.subscribe(failing)
    telemetry.emit(compiled())
    assert len(caplog.records) == 2


def test_a_subscriber_may_leave_and_emit_while_it_is_told(telemetry: Telemetry) -> None:
    heard: list[str] = []

    def once(event: Event) -> None:
        leave()
        heard.append(event.name)
        telemetry.emit(ConfigLoaded(at=event.at, file=None, overrides=0))

    leave = telemetry.subscribe(once)
    telemetry.subscribe(lambda event: heard.append(event.name))
    telemetry.emit(compiled())
    assert heard == ["program_compiled", "config_loaded", "program_compiled"]


def test_an_interrupt_is_not_swallowed(telemetry: Telemetry) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    telemetry.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        telemetry.emit(compiled())


def test_subscribing_from_many_threads_loses_nobody(telemetry: Telemetry) -> None:
    heard: list[Event] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(50):
            telemetry.subscribe(heard.append)
            telemetry.subscribe(failing)()
            telemetry.emit(compiled())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heard.clear()
    telemetry.emit(compiled())
    assert len(heard) == telemetry.statistics().subscribers == 400


def test_events_are_frozen_and_flat() -> None:
    event = compiled()
    with pytest.raises(AttributeError):
        event.sources = 2  # type: ignore[misc]
    assert event.facts() == {
        "at": FakeClock().now(),
        "sources": 1,
        "declarations": 2,
        "duration_s": 0.5,
        "warnings": 0,
    }


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_every_event_is_described(kind: type[Event]) -> None:
    assert kind.name.isidentifier()
    assert kind.name == kind.name.lower()
    assert kind.meaning().endswith(".")
    assert kind.meaning().count(".") == 1
    assert all(type_name and meaning for type_name, meaning in kind.field_meanings().values())
    assert next(iter(kind.field_meanings())) == "at"


# As log lines


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Where events are logged as long as the test runs."""
    loggers = [logging.getLogger(), logging.getLogger("afl")]
    before = [(each, each.level, list(each.handlers)) for each in loggers]
    stream = io.StringIO()
    log.configure("debug", "json", stream)
    unsubscribe = log_events()
    yield stream
    unsubscribe()
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


NOW = FakeClock().now()


@pytest.mark.parametrize(
    "event",
    [
        OperatorActed(at=NOW, caller="ada", action="retry_run", subject="run-1", outcome="done"),
        StreamOpened(at=NOW, turn="turn-1", loop="support", caller="ada", after="0"),
        StreamClosed(
            at=NOW,
            turn="turn-1",
            loop="support",
            caller="ada",
            events=3,
            reason="the turn is over",
            duration_s=0.5,
        ),
    ],
    ids=lambda event: event.name,
)
def test_the_log_says_who_acted(lines: io.StringIO, event: Event) -> None:
    TELEMETRY.emit(event)
    [line] = map(json.loads, lines.getvalue().splitlines())
    assert (line["event"], line["caller"]) == (event.name, "ada")


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_no_field_of_an_event_has_a_name_that_the_log_hides(kind: type[Event]) -> None:
    shown = dict.fromkeys(kind.field_meanings(), "ada")
    assert log.redact(shown) == shown
