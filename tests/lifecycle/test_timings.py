"""Times that contradict each other are named with their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.lifecycle.loops import EndingLoop, IdleLoop, Running

from afl import telemetry
from afl.errors import ConfigurationError
from afl.runtime.lifecycle import LoopGroup
from afl.runtime.timings import Timings, contradictions

#: The defaults of a group, for turns of ten minutes.
SOUND = Timings(
    drain_deadline=30,
    visibility_timeout=1800,
    wait_time=30,
    watchdog_threshold=720,
    watchdog_interval=60,
    max_processing=600,
    termination_grace=60,
    pre_stop=5,
    settle=5,
    checkpoint_reserve=5,
)


def test_the_defaults_of_a_group_do_not_contradict_each_other() -> None:
    assert contradictions(SOUND) == []


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        ({"visibility_timeout": 630, "watchdog_threshold": None}, ["630 s", "30 s", "600 s"]),
        ({"visibility_timeout": 1320}, ["1320 s", "720 s", "600 s"]),
        ({"watchdog_threshold": 630}, ["630 s", "30 s", "600 s"]),
        ({"watchdog_interval": 240}, ["240 s", "720 s"]),
        ({"termination_grace": 50}, ["50 s", "5 s", "30 s", "10 s"]),
        ({"checkpoint_reserve": 30}, ["30 s"]),
    ],
)
def test_each_rule_is_broken_at_equality_and_names_its_numbers(
    change: dict[str, float | None], numbers: list[str]
) -> None:
    (reason,) = contradictions(replace(SOUND, **change))  # type: ignore[arg-type]
    assert [each for each in numbers if each not in reason] == []


@pytest.mark.parametrize(
    "change",
    [
        {"visibility_timeout": 631, "watchdog_threshold": None},
        {"visibility_timeout": 1321},
        {"watchdog_threshold": 631},
        {"watchdog_interval": 239.9},
        {"termination_grace": 50.5},
        {"checkpoint_reserve": 29.9},
    ],
)
def test_each_rule_holds_just_beyond(change: dict[str, float | None]) -> None:
    assert contradictions(replace(SOUND, **change)) == []  # type: ignore[arg-type]


def test_numbers_that_nobody_gave_are_not_guessed() -> None:
    unknown = replace(SOUND, max_processing=None, termination_grace=None)
    assert contradictions(unknown) == []
    (reason,) = contradictions(replace(unknown, watchdog_threshold=200, wait_time=200))
    assert "max_processing" not in reason


def test_without_a_watchdog_its_rules_do_not_matter() -> None:
    assert contradictions(replace(SOUND, watchdog_threshold=None, watchdog_interval=9999)) == []


# In a group


@pytest.fixture
def reasons() -> Iterator[list[str]]:
    seen: list[str] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, telemetry.TimingsContradict):
            seen.append(event.reason)

    end = telemetry.subscribe(hear)
    yield seen
    end()


def test_a_group_reports_contradictions_when_it_starts(reasons: list[str]) -> None:
    loop = EndingLoop()
    loop.end.set()
    group = LoopGroup(
        [loop],
        drain_deadline_seconds=120,
        termination_grace_seconds=120,
        max_processing_seconds=900,
    )
    Running(group.run).outcome()
    assert len(reasons) == 2
    assert loop.runs == 1


def test_a_strict_group_refuses_to_start(reasons: list[str]) -> None:
    loop = IdleLoop()
    group = LoopGroup([loop], termination_grace_seconds=30, watchdog_interval=500, strict=True)
    with pytest.raises(ConfigurationError) as caught:
        group.run()
    assert "termination_grace_seconds (30 s)" in str(caught.value)
    assert "watchdog_interval (500 s)" in str(caught.value)
    assert (loop.runs, group.running, reasons) == (0, False, [])


def test_a_group_with_its_defaults_has_nothing_to_report(reasons: list[str]) -> None:
    loop = EndingLoop()
    loop.end.set()
    Running(LoopGroup([loop], strict=True).run).outcome()
    assert reasons == []
