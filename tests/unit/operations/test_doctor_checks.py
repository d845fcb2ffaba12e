"""Each situation that would go wrong has a check that says so, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afl.operations.doctor import Finding, Result, examine
from afl.operations.doctor.facts import (
    AppFacts,
    ExtraFacts,
    Facts,
    FileFacts,
    Platform,
    PortFacts,
    ProcessFacts,
    SignalFacts,
    StoreFacts,
    TablesFacts,
    TimeFacts,
)

FILE = FileFacts(
    path=Path("/var/lib/agents/afl.db"), is_there=True, is_writable=True, file_system="ext4"
)
TABLES = TablesFacts(component="engine", version=3, oldest=3, known=3)
STORE = StoreFacts(place="sqlite:////var/lib/agents/afl.db", tables=[TABLES], file=FILE)
TIMES = TimeFacts(drain=90, settle=5, pre_stop=5, grace=111, max_processing=60)
CLUSTER = Platform(name="Kubernetes", grace_s=30)

#: A deployment with nothing wrong.
SOUND = Facts(
    process=ProcessFacts(pid=7, first=["/sbin/init"], parent=["-bash"]),
    signals=SignalFacts(at_start="SIG_DFL", now="SIG_DFL", is_blocked=False),
    times=TIMES,
    platform=CLUSTER,
    store=STORE,
    extras=[ExtraFacts(wanted_for="afl serve", extra="serve", is_there=True)],
    ports=[PortFacts(port=8080, used_for="probes", problem=None)],
    missing_handler_paths=[],
    scripts_enabled=False,
    app=AppFacts(name="support:app", problem=None),
    has_tokens=True,
)


def worst(facts: Facts) -> list[Finding]:
    return [each for each in examine(facts) if each.result is not Result.OK]


def test_a_sound_deployment_has_nothing_to_do() -> None:
    found = examine(SOUND)
    assert worst(SOUND) == []
    assert [each.advice for each in found if each.advice] == []
    assert [each.check for each in found] == [
        "SIGTERM",
        "first process",
        "drain",
        "grace",
        "times",
        "store",
        "tables of engine",
        "file system",
        "extras",
        "scripts",
        "port 8080",
        "app",
        "tokens",
    ]


def signals(**changes: Any) -> dict[str, Any]:
    return {"signals": replace(SOUND.signals, **changes)}


def process(**changes: Any) -> dict[str, Any]:
    return {"process": replace(SOUND.process, **changes)}


def times(**changes: Any) -> dict[str, Any]:
    return {"times": replace(TIMES, **changes)}


def store(**changes: Any) -> dict[str, Any]:
    return {"store": replace(STORE, **changes)}


def file(**changes: Any) -> dict[str, Any]:
    return store(file=replace(FILE, **changes))


def tables(**changes: Any) -> dict[str, Any]:
    return store(tables=[replace(TABLES, **changes)])


SERVE_IS_MISSING = ExtraFacts(wanted_for="afl serve", extra="serve", is_there=False)
TAKEN = PortFacts(port=8080, used_for="probes", problem="Address already in use")


@pytest.mark.parametrize(
    ("changes", "check", "result", "found", "advice"),
    [
        (signals(is_blocked=True), "SIGTERM", "fail", "blocked", "unblock it"),
        (signals(now="lib.stop (lib.py:3)"), "SIGTERM", "warn", "lib.py:3", "delegate()"),
        (
            signals(at_start="site.stop", now="site.stop"),
            "SIGTERM",
            "warn",
            "before afl it belonged to site.stop",
            "takes it back",
        ),
        (
            process(first=["/bin/sh", "-c", "afl serve support:app"]),
            "first process",
            "fail",
            "a shell: /bin/sh -c afl serve support:app",
            "without a shell",
        ),
        (process(first=["bash", "/start.sh"]), "first process", "fail", "bash /start.sh", "exec"),
        (process(first=["/bin/busybox", "sh", "-c", "afl"]), "first process", "fail", "sh", "exec"),
        (process(first=["/bin/bash"]), "first process", "warn", "a shell: /bin/bash", "exec"),
        (
            process(parent=["dash", "-c", "afl doctor; true"]),
            "first process",
            "warn",
            "under a shell: dash -c",
            "exec",
        ),
        (times(drain=None), "drain", "warn", "refuse to start", "60s to 120s for chat"),
        (times(grace=110), "grace", "fail", "must be longer than 110 s", "afl deploy"),
        (
            times(grace=None),
            "grace",
            "warn",
            "Kubernetes grants 30 s unless told otherwise",
            "AFL_LIFECYCLE_TERMINATION_GRACE",
        ),
        (times(max_processing=700), "times", "warn", "watchdog_threshold", "change one"),
        (store(problem="cannot be reached"), "store", "fail", "cannot be", "afl config show"),
        (
            {"store": StoreFacts(place="memory:")},
            "store",
            "warn",
            "dies with the process",
            "store.url",
        ),
        (store(skew_s=1.5), "store clock", "warn", "1.5 s ahead of this machine", "NTP"),
        (store(skew_s=-61.0), "store clock", "fail", "61.0 s behind this machine", "NTP"),
        (tables(version=4, oldest=4), "tables of engine", "fail", "up to 3", "upgrade afl"),
        (file(file_system="nfs4"), "file system", "fail", "on nfs4", "local disk"),
        (file(is_writable=False), "database file", "fail", "cannot be written", "this user"),
        ({"extras": [SERVE_IS_MISSING]}, "extras", "fail", "missing", "pip install 'afl[serve]'"),
        (
            {"missing_handler_paths": [Path("/srv/handlers")]},
            "handler paths",
            "fail",
            "/srv/handlers is no folder",
            "AFL_HANDLER_PATHS",
        ),
        ({"scripts_enabled": True}, "scripts", "warn", "runs code here", "leave"),
        ({"ports": [TAKEN]}, "port 8080", "warn", "already in use", "choose another"),
        (
            {"app": AppFacts(name="x:y", problem="there is no module x")},
            "app",
            "fail",
            "there is no module x",
            "the folder",
        ),
        ({"has_tokens": False}, "tokens", "warn", "makes one of its own", "AFL_SERVE_TOKENS"),
    ],
)
def test_what_would_go_wrong_is_found_with_advice(
    changes: dict[str, Any], check: str, result: str, found: str, advice: str
) -> None:
    (said,) = worst(replace(SOUND, **changes))
    assert (said.check, said.result) == (check, result)
    assert found in said.found
    assert advice in said.advice


@pytest.mark.parametrize(
    "changes",
    [
        process(pid=1, first=["/bin/sh", "-c", "afl"]),  # it replaced the shell that started it
        process(first=[], parent=[]),  # a system without /proc
        process(parent=["bash", "script.sh"]),
        {**times(grace=None), "platform": None},
        file(is_there=False),
        file(file_system=""),
        store(skew_s=0.9),
        tables(version=2, oldest=2),  # the next start migrates it
        tables(version=4),  # a newer program has added to it, and says that this one can go on
        tables(component="others", known=0),
        {"app": None, "has_tokens": False},
    ],
)
def test_what_is_well_is_not_reported(changes: dict[str, Any]) -> None:
    assert worst(replace(SOUND, **changes)) == []


def test_a_command_line_is_shown_without_its_secrets() -> None:
    shell = ["sh", "-c", "AFL_STORE_URL=postgresql://me:hunter2@host/db afl serve x:y"]
    (said,) = worst(replace(SOUND, **process(first=shell)))
    assert "hunter2" not in said.found


def test_without_a_drain_nothing_is_said_of_other_times() -> None:
    (said,) = worst(replace(SOUND, times=TimeFacts(grace=1)))
    assert said.check == "drain"
