"""Whether a stop reaches this process, and leaves it enough time. Each check is pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from textwrap import shorten

from afl.log import redact
from afl.operations.doctor.facts import Facts, TimeFacts
from afl.operations.doctor.findings import Finding, fail, fine, warn
from afl.operations.group_times import timings_of
from afl.runtime.timings import Timings, contradictions

_LONGEST = 80
_SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "zsh"})
_EXEC_FORM = 'start afl without a shell (CMD ["afl", …]), or with exec in the script that starts it'


# Signals


def sigterm(facts: Facts) -> Finding:
    signals = facts.signals
    if signals.is_blocked:
        return fail(
            "SIGTERM",
            "it is blocked: nobody can be told to stop here",
            "unblock it in whatever starts afl",
        )
    if signals.now != signals.at_start:
        return warn(
            "SIGTERM",
            f"importing the app gave it to {signals.now}",
            "pass it on with coordinator.delegate(), or take it back: on_replaced=take_back",
        )
    if signals.at_start != "SIG_DFL":
        return warn(
            "SIGTERM",
            f"before afl it belonged to {signals.at_start}",
            "afl takes it while it runs; see to it that nobody takes it back",
        )
    return fine("SIGTERM", "nobody but afl wants it")


# The first process, and the parent


def first_process(facts: Facts) -> Finding:
    process = facts.process
    if process.pid == 1:
        return fine("first process", "afl itself, which hears signals")
    if _is_shell(process.first):
        has_work = len(process.first) > 1
        say = fail if has_work else warn
        return say("first process", f"a shell: {_line(process.first)}", _EXEC_FORM)
    if _is_shell(process.parent) and _has_command(process.parent):
        return warn("first process", f"afl is under a shell: {_line(process.parent)}", _EXEC_FORM)
    return fine("first process", process.first[0] if process.first else "unknown")


def _is_shell(words: Sequence[str]) -> bool:
    # Shells that log somebody in are called -bash.
    names = [PurePath(each.lstrip("-")).name for each in words[:2]]
    return bool(_SHELLS & set(names[:1])) or (names[:1] == ["busybox"] and names[-1] in _SHELLS)


def _has_command(words: Sequence[str]) -> bool:
    return any(each.startswith("-") and each.endswith("c") for each in words[1:])


def _line(words: Sequence[str]) -> str:
    """As it was typed, without secrets and without its end."""
    return shorten(str(redact(" ".join(words))), _LONGEST, placeholder=" …")


# Times


def drain(facts: Facts) -> Finding:
    if facts.times.drain is None:
        return warn(
            "drain",
            "no drain deadline is set, so services refuse to start",
            "set lifecycle.drain_deadline: 60s to 120s for chat, 2m to 5m with tools",
        )
    return fine("drain", f"{facts.times.drain:g} s")


def grace(facts: Facts) -> Finding:
    """Whether what the platform grants is enough."""
    times, platform = facts.times, facts.platform
    if times.drain is None:
        return fine("grace", "nothing to compare")
    if times.grace is not None:
        without = set(_other_contradictions(times))
        broken = [each for each in contradictions(_timings(times)) if each not in without]
        if broken:
            return fail("grace", broken[0], "grant more, or drain for less: see afl deploy")
        return fine("grace", f"{times.grace:g} s are enough for a drain of {times.drain:g} s")
    if platform is None:
        return fine("grace", "no platform is known that kills")
    return warn(
        "grace",
        f"{platform.name} grants {platform.grace_s:g} s unless told otherwise, and nothing here "
        f"says what it was told; the drain takes {times.drain:g} s",
        "say it in AFL_LIFECYCLE_TERMINATION_GRACE, as the files of afl deploy do",
    )


def times(facts: Facts) -> Iterator[Finding]:
    """Times that contradict each other, whatever the platform grants."""
    if facts.times.drain is None:
        return
    broken = _other_contradictions(facts.times)
    for each in broken:
        yield warn("times", each, "change one of them")
    if not broken:
        yield fine("times", "they fit together")


def _other_contradictions(times: TimeFacts) -> list[str]:
    return contradictions(_timings(replace(times, grace=None)))


def _timings(times: TimeFacts) -> Timings:
    assert times.drain is not None
    return timings_of(
        drain_deadline=times.drain,
        settle=times.settle or 0.0,
        pre_stop=times.pre_stop or 0.0,
        termination_grace=times.grace,
        max_processing=times.max_processing,
    )
