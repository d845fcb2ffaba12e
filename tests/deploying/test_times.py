"""All times of a deployment follow from the drain deadline, and what cannot fit is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deploying.deployments import any_options, example, search

from afl.errors import UsageError
from afl.operations.deploying import PLATFORMS, DeployOptions, choice, render
from afl.operations.deploying.options import LaunchType, Program
from afl.operations.deploying.times import STARTUP_PERIOD_S, times_of, warnings_of
from afl.operations.group_times import timings_of
from afl.runtime.timings import GRACE_BUFFER_S, contradictions


@given(options=any_options())
@search(50)
def test_the_process_gets_all_the_time_it_was_promised(options: DeployOptions) -> None:
    times = times_of(options, has_hook=True)
    assert times.stop_timeout_s > times.settle_s + times.drain_s + GRACE_BUFFER_S
    assert times.grace_s > times.pre_stop_s + times.settle_s + times.drain_s + GRACE_BUFFER_S
    assert times.deregistration_s >= times.settle_s + times.drain_s
    assert times.pre_stop_s >= (options.pre_stop or 0)
    assert times.startup_failures * STARTUP_PERIOD_S >= options.startup
    assert times.rollout_s > times.startup_s >= options.startup


def test_fractions_of_which_sums_hang_on_their_order_leave_time_enough() -> None:
    almost = 899.9999999999999
    options = example(drain_deadline=almost, settle=almost, pre_stop=152)
    times = times_of(options, has_hook=True)
    assert times.grace_s > 152 + almost + almost + GRACE_BUFFER_S


@given(options=any_options(max_processing=None))
@search(50)
def test_the_process_itself_has_nothing_to_say_against_the_grace(options: DeployOptions) -> None:
    times = times_of(options, has_hook=True)
    given_times = {
        "drain_deadline": times.drain_s,
        "settle": times.settle_s,
        "pre_stop": times.pre_stop_s,
    }
    others = contradictions(timings_of(**given_times))
    assert contradictions(timings_of(**given_times, termination_grace=times.grace_s)) == others


def test_a_service_outlives_requests_that_come_late_and_a_worker_need_not() -> None:
    serving = times_of(example(), has_hook=True)
    assert (serving.pre_stop_s, serving.settle_s, serving.grace_s) == (5, 5, 111)
    working = times_of(example(program=Program.WORKER), has_hook=True)
    assert (working.pre_stop_s, working.settle_s, working.grace_s) == (0, 0, 101)


@pytest.mark.parametrize("platform", ["ecs", "systemd", "docker"])
def test_a_platform_without_a_hook_refuses_to_wait_before_sigterm(platform: str) -> None:
    with pytest.raises(UsageError, match="leave --pre-stop out"):
        render(platform, example(pre_stop=5))
    assert render(platform, example(pre_stop=0)).times.pre_stop_s == 0


# ECS


@given(settle=st.integers(0, 100) | st.floats(0, 100), launch_type=st.sampled_from(LaunchType))
@search(30)
def test_the_drain_that_is_offered_instead_is_the_longest_that_fits(
    settle: float, launch_type: LaunchType
) -> None:
    options = example(settle=settle, launch_type=launch_type, drain_deadline=8000)
    with pytest.raises(UsageError) as refused:
        render("ecs", options)
    offered = re.search(r"--drain-deadline (\d+)s", str(refused.value))
    assert offered is not None
    longest = int(offered[1])
    render("ecs", replace(options, drain_deadline=longest))
    with pytest.raises(UsageError, match="does not fit"):
        render("ecs", replace(options, drain_deadline=longest + 1))


def test_a_drain_that_does_not_fit_on_fargate_is_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError) as refused:
        render("ecs", example(drain_deadline=120))
    said = str(refused.value)
    assert "kills 120 s after SIGTERM" in said
    assert "need 136 s" in said
    assert "--drain-deadline 104s" in said
    assert "--launch-type ec2 with up to 7200 s" in said


def test_where_not_even_the_shortest_drain_fits_that_is_said() -> None:
    with pytest.raises(UsageError, match="--settle 110s is too long"):
        render("ecs", example(settle=110))


# What may not be meant


def test_work_that_is_longer_than_the_drain_is_worth_a_word() -> None:
    options = example(drain_deadline=60, max_processing=300)
    assert warnings_of(options, times_of(options, has_hook=True)) == [
        "work of 300 s does not end in a drain of 60 s: what is unfinished then is saved or given "
        "back, and goes on elsewhere"
    ]


def test_times_that_a_group_would_warn_of_are_said_before() -> None:
    options = example(drain_deadline=1800)
    (said,) = warnings_of(options, times_of(options, has_hook=True))
    assert said.startswith("visibility_timeout (1800 s) must be longer than the drain deadline")


def test_sound_times_are_worth_no_word() -> None:
    options = example(max_processing=90)
    assert warnings_of(options, times_of(options, has_hook=True)) == []


# Options


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drain_deadline": 0}, "--drain-deadline is 0 s"),
        ({"drain_deadline": 86_401}, "at most a day"),
        ({"startup": 0}, "--startup is 0 s"),
        ({"settle": 1e9}, "--settle is 1e"),
        ({"name": "Support"}, "cannot be the name"),
        ({"name": "a" * 41}, "cannot be the name"),
        ({"name": "support-"}, "cannot be the name"),
        ({"app": ""}, "say what to serve"),
        ({"app": 'support:app"\nRUN id'}, "names no app"),
        ({"app": "--help"}, "names no app"),
        ({"image": "image; rm"}, "names no image"),
        ({"directory": "relative"}, "names no folder"),
        ({"directory": "/srv/%h"}, "names no folder"),
        ({"port": 0}, "0 is no port"),
        ({"health_port": 70_000}, "70000 is no health port"),
        ({"replicas": 0}, "0 is no number of replicas"),
        ({"port": 8080}, "port 8080 cannot be for requests and for probes"),
    ],
)
def test_what_no_platform_could_take_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        example(**changes)


def test_a_worker_needs_no_app_and_no_port_of_its_own() -> None:
    assert example(program=Program.WORKER, app="", port=8080).app == ""


@pytest.mark.parametrize("platform", ["kubernetes", "ecs", "nomad"])
def test_a_platform_that_pulls_needs_an_image(platform: str) -> None:
    with pytest.raises(UsageError, match=f"{platform} needs an image"):
        render(platform, example(image=""))


def test_an_unknown_platform_is_told_those_there_are() -> None:
    with pytest.raises(UsageError, match="'borg' is unknown; expected kubernetes, ecs, nomad"):
        render("borg", example())
    assert list(PLATFORMS) == ["kubernetes", "ecs", "nomad", "systemd", "docker"]


def test_an_unknown_choice_is_told_those_there_are() -> None:
    assert choice(LaunchType, "launch type", "EC2") is LaunchType.EC2
    with pytest.raises(UsageError, match="'run' is no command; expected serve or worker"):
        choice(Program, "command", "run")
