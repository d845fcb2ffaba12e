"""The watchdog finds loops that hang, and harms no others.

The hazards each have a mutant that makes the mistake, and is caught by the same scenario.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from afl import telemetry
from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.runtime.bounded import BoundedCalls
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.lifecycle import wait_until
from afl.runtime.watchdog import LoopView, Stall, StallStage, Watchdog, _Watch
from afl.telemetry import Event, LoopRecovered, LoopStalled

MINUTE = 60


class Loop:
    """A loop as the watchdog sees it; tests say how it is."""

    def __init__(self, clock: FakeClock, name: str = "mail") -> None:
        self.name = name
        self.heartbeat: Heartbeat | None = Heartbeat(clock)
        self.has_to_live = True
        self.done = 0
        self.declared_s: float | None = None

    def is_watched(self) -> bool:
        return self.has_to_live

    def progress(self) -> int:
        return self.done

    def longest_turn_s(self) -> float | None:
        return self.declared_s

    def beat(self) -> None:
        assert self.heartbeat is not None
        self.heartbeat.beat()


class Patient:
    """Loops under a watchdog, minute by minute."""

    def __init__(self, kind: type[Watchdog] = Watchdog, *, loops: int = 1) -> None:
        self.clock = FakeClock()
        self.loops = [Loop(self.clock, f"loop-{number}") for number in range(loops)]
        self.kills = 0
        self.stalls: list[Stall] = []
        self.watchdog = kind(
            self.loops, clock=self.clock, on_stall=self.stalls.append, kill=self._note_kill
        )

    @property
    def loop(self) -> Loop:
        return self.loops[0]

    def _note_kill(self) -> None:
        self.kills += 1

    def live(self, minutes: int, each_minute: Callable[[], object] = lambda: None) -> None:
        """Let time pass, with a check every minute, until `minutes` or the end."""
        self.watchdog.start()
        for _ in range(minutes):
            self.clock.wait_for_waiters(1)
            each_minute()
            self.clock.advance(MINUTE)
            self.clock.wait_for_waiters(1)
            if self.kills:
                break

    def end(self) -> int:
        """Stop the watchdog; how often it has killed."""
        self.watchdog.stop()
        return self.kills


@pytest.fixture
def patient() -> Iterator[Patient]:
    patient = Patient()
    yield patient
    patient.end()


def started(watchdog: Watchdog) -> threading.Thread:
    """The thread of a watchdog that is started now."""
    before = set(threading.enumerate())
    watchdog.start()
    new = set(threading.enumerate()) - before
    return next(each for each in new if each.name == "watchdog")


@pytest.fixture(autouse=True)
def _no_stacks_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written before a kill is looked at in processes that are really killed."""
    monkeypatch.setattr("afl.runtime.watchdog.write_stacks", lambda _stalls: None)


@pytest.fixture
def events() -> Iterator[list[Event]]:
    heard: list[Event] = []
    unsubscribe = telemetry.subscribe(heard.append)
    yield heard
    unsubscribe()


# What it is for


def test_a_loop_that_hangs_is_named_then_cancelled_then_forced_then_killed(
    patient: Patient,
) -> None:
    patient.live(30)
    assert [each.stage for each in patient.stalls] == ["suspected", "cancelled", "forced", "killed"]
    assert patient.kills == 1
    assert patient.clock.monotonic() == (13 + 3) * MINUTE


def test_a_loop_that_beats_is_left_alone(patient: Patient) -> None:
    patient.live(60, patient.loop.beat)
    assert (patient.kills, patient.stalls) == (0, [])


def test_a_loop_that_only_makes_progress_is_left_alone(patient: Patient) -> None:
    """Hazard: long work that moves on but does not beat is killed."""

    def move_on() -> None:
        patient.loop.done += 1

    patient.live(60, move_on)
    assert (patient.kills, patient.stalls) == (0, [])


def test_the_threshold_itself_is_still_allowed(patient: Patient) -> None:
    patient.live(12)
    assert patient.stalls == []
    patient.live(1)
    assert len(patient.stalls) == 1


def test_one_sign_of_life_takes_everything_back(patient: Patient, events: list[Event]) -> None:
    patient.live(15)
    patient.loop.beat()
    patient.live(13)
    stages = [each.stage for each in patient.stalls]
    assert stages == ["suspected", "cancelled", "forced", "suspected"]
    assert [each.loop for each in events if isinstance(each, LoopRecovered)] == ["loop-0"]
    assert patient.kills == 0


def test_only_the_loop_that_hangs_is_named() -> None:
    patient = Patient(loops=3)

    def others_live() -> None:
        patient.loops[0].beat()
        patient.loops[2].beat()

    patient.live(30, others_live)
    patient.end()
    assert {each.loop for each in patient.stalls} == {"loop-1"}


def test_bare_heartbeats_are_watched_under_the_names_given() -> None:
    clock, stalls = FakeClock(), list[Stall]()
    beating, silent = Heartbeat(clock), Heartbeat(clock)
    watchdog = Watchdog(
        [beating, silent], loop_names=["a", "b"], clock=clock, on_stall=stalls.append
    )
    clock.advance(721)
    beating.beat()
    watchdog.check()
    assert [each.loop for each in stalls] == ["b"]


def test_a_loop_without_a_heartbeat_is_not_watched(patient: Patient) -> None:
    patient.loop.heartbeat = None
    patient.live(60)
    assert patient.kills == 0


def test_readiness_sees_a_stall_at_once_and_long_before_the_kill(patient: Patient) -> None:
    assert patient.watchdog.stalls() == []
    patient.clock.advance(721)
    (stall,) = patient.watchdog.stalls()
    assert stall.stage == "suspected"
    assert str(stall).startswith(
        "loop loop-0 hangs: no beat and no progress for 12m1s, where 12m are allowed; handler"
    )
    assert patient.kills == 0
    patient.loop.beat()
    assert patient.watchdog.stalls() == []


def test_a_stall_names_the_handler_and_the_line_of_the_thread_that_beat_last(
    patient: Patient, events: list[Event]
) -> None:
    is_in, release = threading.Lock(), threading.Lock()
    is_in.acquire()
    release.acquire()

    def handler_that_hangs() -> None:
        patient.loop.beat()
        is_in.release()
        release.acquire()

    thread = threading.Thread(target=handler_that_hangs)
    thread.start()
    is_in.acquire()
    patient.clock.advance(800)
    patient.watchdog.check()
    release.release()
    thread.join()
    (event,) = [each for each in events if isinstance(each, LoopStalled)]
    assert event.handler.endswith("handler_that_hangs")
    assert event.line.startswith(f"{__file__}:")
    assert event.line.endswith("handler_that_hangs")
    assert (event.loop, event.stage, event.limit_s) == ("loop-0", "suspected", 720)


# Hazards


class SeesBeatsAlone(Watchdog):
    """Mutant: the age of the last beat is all that counts."""

    def _stall(self, watch: _Watch) -> Stall | None:
        assert watch.loop.heartbeat is not None
        age = watch.loop.heartbeat.elapsed()
        if age <= 720:
            return None
        return Stall(watch.loop.name, StallStage.SUSPECTED, age, 720, "", "")


class KillsAtOnce(Watchdog):
    """Mutant: the first check that finds a loop silent is the last."""

    def _escalated(self, watch: _Watch) -> Stall | None:
        stall = super()._escalated(watch)
        return stall and stall._replace(stage=StallStage.KILLED)


class DiesOnErrors(Watchdog):
    """Mutant: an error in a check ends its thread."""

    def _run(self, stop: threading.Event, calls: BoundedCalls) -> None:
        try:
            while not self._clock.wait(stop, self._interval_s):
                for watch in self._watches:
                    watch.loop.progress()
                self.check()
        except Exception:
            calls.close()


def killed_after_its_end(kind: type[Watchdog]) -> int:
    patient = Patient(kind)
    patient.loop.has_to_live = False
    patient.live(60)
    return patient.end()


def test_a_loop_that_ended_or_drains_is_never_killed() -> None:
    """Hazard: loops that ended by themselves, or finish their last message, go stale, and the
    healthy ones are killed with them."""
    assert killed_after_its_end(Watchdog) == 0
    assert killed_after_its_end(SeesBeatsAlone) == 1


def killed_although_it_starts_late(kind: type[Watchdog]) -> int:
    """A loop that is made early, begins to run an hour later, and does not beat at once."""
    patient = Patient(kind)
    patient.loop.has_to_live = False
    patient.clock.advance(60 * MINUTE)
    patient.live(2)
    patient.loop.has_to_live = True
    patient.live(5)
    return patient.end()


def test_the_age_of_a_loop_begins_when_it_runs() -> None:
    """Hazard: ages count from construction, so that a slow start is killed."""
    assert killed_although_it_starts_late(Watchdog) == 0
    assert killed_although_it_starts_late(SeesBeatsAlone) == 1


def killed_in_a_declared_turn(kind: type[Watchdog]) -> int:
    patient = Patient(kind)
    patient.loop.declared_s = 60 * MINUTE
    patient.live(61)
    return patient.end()


def test_a_turn_that_was_declared_longer_may_take_longer() -> None:
    """Hazard: a long single call without beats is killed."""
    assert killed_in_a_declared_turn(Watchdog) == 0
    assert killed_in_a_declared_turn(SeesBeatsAlone) == 1


def test_a_declared_turn_ends_some_time(patient: Patient) -> None:
    patient.loop.declared_s = 60 * MINUTE
    patient.live(70)
    assert patient.kills == 1
    assert patient.clock.monotonic() == (62 + 3) * MINUTE


def killed_after_a_freeze(kind: type[Watchdog]) -> int:
    """The machine sleeps for a night; then the loops go on as before."""
    patient = Patient(kind)
    patient.live(5, patient.loop.beat)
    patient.clock.advance(8 * 60 * MINUTE)
    patient.clock.wait_for_waiters(1)
    patient.live(5, patient.loop.beat)
    return patient.end()


def test_a_process_that_was_frozen_has_time_to_show_that_it_lives() -> None:
    """Hazard: after a suspended night every beat is old, and the first check kills."""
    assert killed_after_a_freeze(Watchdog) == 0
    assert killed_after_a_freeze(KillsAtOnce) >= 1


class Raises(Loop):
    """A loop whose state cannot be read."""

    def progress(self) -> int:
        raise RuntimeError("no such counter")


class Hangs(Loop):
    """A loop whose state cannot be read while it works."""

    def progress(self) -> int:
        threading.Event().wait(30)
        return 0


def kills_beside(kind: type[Watchdog], unseen: type[Loop]) -> int:
    clock, kills = FakeClock(), list[int]()
    loops: list[LoopView] = [unseen(clock, "unseen"), Loop(clock, "hung")]
    watchdog = kind(loops, clock=clock, kill=lambda: kills.append(1), last_words_s=0.02)
    thread = started(watchdog)
    clock.wait_for_waiters(1)
    for _ in range(16):
        clock.advance(MINUTE)
        while thread.is_alive() and not clock.waiters:
            thread.join(0.001)
    watchdog.stop()
    thread.join()
    return len(kills)


def test_an_error_in_a_check_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    """Hazard: the thread of the watchdog dies silently on any exception."""
    assert kills_beside(DiesOnErrors, Raises) == 0
    with caplog.at_level(logging.ERROR):
        assert kills_beside(Watchdog, Raises) == 1
    assert "no such counter" in caplog.text


def test_a_loop_that_hangs_when_it_is_asked_costs_one_thread_and_not_the_watch() -> None:
    before = set(threading.enumerate())
    assert kills_beside(Watchdog, Hangs) == 1

    def left() -> list[str]:
        new = set(threading.enumerate()) - before
        return [each.name for each in new if each.name.startswith("watchdog")]

    # The one that does not hang ends soon; threads of other tests come and go.
    assert wait_until(lambda: left() == ["watchdog-calls"], timeout=20), left()


def test_a_loop_that_cannot_be_asked_is_judged_by_its_beats() -> None:
    clock, killed = FakeClock(), list[int]()
    loop = Raises(clock)
    watchdog = Watchdog([loop], clock=clock, kill=lambda: killed.append(1))
    for _ in range(30):
        clock.advance(MINUTE)
        loop.beat()
        watchdog.check()
    assert killed == []
    for _ in range(16):
        clock.advance(MINUTE)
        watchdog.check()
    assert killed == [1]


@pytest.mark.parametrize("names", [[], ["one", "two"]])
def test_names_that_do_not_fit_are_refused_at_once(names: list[str]) -> None:
    """Hazard: the mismatch is found later, inside the thread."""
    with pytest.raises(ConfigurationError, match=f"1 loops but {len(names)} loop_names"):
        Watchdog([Heartbeat()], loop_names=names)


@pytest.mark.parametrize("option", ["stall_threshold", "check_interval"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_times_that_make_no_sense_are_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} is {value}"):
        Watchdog([], **{option: value})  # type: ignore[arg-type]


# What others do meanwhile


class Helped(Loop):
    """A loop whose work can be cancelled."""

    def __init__(self, clock: FakeClock, is_cured_by: str) -> None:
        super().__init__(clock)
        self.is_cured_by = is_cured_by
        self.rescues: list[str] = []

    def rescue(self, stage: StallStage) -> None:
        self.rescues.append(stage)
        if stage == self.is_cured_by:
            self.beat()


@pytest.mark.parametrize(
    ("cure", "rescues", "kills"),
    [
        ("cancelled", ["cancelled"], 0),
        ("forced", ["cancelled", "forced"], 0),
        ("nothing", ["cancelled", "forced"], 1),
    ],
)
def test_the_work_of_a_loop_is_given_up_before_the_process_is(
    cure: str, rescues: list[str], kills: int
) -> None:
    clock, killed = FakeClock(), list[int]()
    loop = Helped(clock, cure)
    watchdog = Watchdog([loop], clock=clock, kill=lambda: killed.append(1))
    for _ in range(17):
        clock.advance(MINUTE)
        watchdog.check()
        if killed:
            break
    assert loop.rescues == rescues
    assert len(killed) == kills


def stuck(_stall: Stall) -> None:
    threading.Event().wait(30)


def raising(_stall: Stall) -> None:
    raise RuntimeError("pager is down")


@pytest.mark.parametrize("hook", [stuck, raising])
def test_a_hook_that_hangs_or_fails_does_not_save_the_process(
    hook: Callable[[Stall], None],
) -> None:
    clock, killed = FakeClock(), list[int]()
    watchdog = Watchdog(
        [Heartbeat(clock)],
        clock=clock,
        on_stall=hook,
        kill=lambda: killed.append(1),
        last_words_s=0.3,
    )
    clock.advance(721)
    for _ in range(4):
        watchdog.check()
    assert killed == [1]


# Starting and stopping


def test_after_stop_nothing_is_killed(patient: Patient) -> None:
    patient.live(15)
    patient.watchdog.stop()
    patient.clock.advance(60 * MINUTE)
    patient.watchdog.check()
    assert patient.stalls[-1].stage == "killed"
    assert patient.kills == 0


def test_it_can_be_stopped_without_a_start_and_by_its_own_hook() -> None:
    clock, stages = FakeClock(), list[str]()
    watchdog = Watchdog([Heartbeat(clock)], clock=clock, on_stall=lambda _stall: stop())

    def stop() -> None:
        watchdog.stop()
        stages.append("stopped")

    watchdog.stop()
    thread = started(watchdog)
    clock.wait_for_waiters(1)
    clock.advance(800)
    thread.join()
    assert stages == ["stopped"]


def test_starting_twice_is_starting_once() -> None:
    watchdog = Watchdog([], clock=FakeClock())
    thread = started(watchdog)
    before = set(threading.enumerate())
    watchdog.start()
    assert before.issuperset(threading.enumerate())
    watchdog.stop()
    thread.join()


def test_a_new_start_forgets_the_stages_of_the_last(patient: Patient) -> None:
    patient.live(15)
    patient.watchdog.stop()
    patient.live(13)
    assert [each.stage for each in patient.stalls][-1] == "suspected"
    assert patient.kills == 0


def test_it_gives_signs_of_life_itself(patient: Patient) -> None:
    patient.live(3, patient.loop.beat)
    assert patient.watchdog.heartbeat.elapsed() == 0
    patient.watchdog.stop()
    patient.clock.advance(MINUTE)
    assert patient.watchdog.heartbeat.elapsed() == MINUTE
