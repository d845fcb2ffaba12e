"""Signal handlers: taken all or none, put back, missed when somebody takes them away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lifecycle.loops import PATIENCE_S, Running, eventually, is_caught

from afl import telemetry
from afl.clock import SYSTEM_CLOCK
from afl.errors import UsageError
from afl.runtime.lifecycle import ShutdownCoordinator
from afl.runtime.signals import Replaced, SignalHandlers, describe, take_back

#: Nobody else in a test run uses these two.
ONE, TWO = signal.SIGUSR1, signal.SIGUSR2


def foreign(_signum: int, _frame: object) -> None:
    """A handler of somebody else."""


@pytest.fixture(autouse=True)
def clean_handlers() -> Iterator[None]:
    ShutdownCoordinator.reset()
    found = {each: signal.getsignal(each) for each in (ONE, TWO, signal.SIGURG)}
    yield
    ShutdownCoordinator.reset()
    for each, handler in found.items():
        signal.signal(each, handler)


def triggered_by(signum: signal.Signals) -> bool:
    """Whether the installed coordinator hears of this signal."""
    coordinator = ShutdownCoordinator.get()
    assert coordinator is not None
    called = threading.Event()
    coordinator.register(called.set)
    signal.raise_signal(signum)
    return called.wait(PATIENCE_S)


# Installing


def test_a_signal_triggers_the_coordinator() -> None:
    coordinator = ShutdownCoordinator.install(signals=(ONE,))
    assert ShutdownCoordinator.get() is coordinator
    assert triggered_by(ONE)
    assert coordinator.reason == "SIGUSR1"


def install_twice() -> None:
    first = ShutdownCoordinator.install(signals=(ONE,))
    signal.signal(TWO, foreign)
    assert ShutdownCoordinator.install(signals=(ONE, TWO)) is first
    assert signal.getsignal(TWO) is not foreign
    assert triggered_by(TWO)


def test_installing_again_gives_the_same_one_and_adds_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Signals of a later install must not be ignored in silence."""
    install_twice()
    ShutdownCoordinator.reset()
    install = SignalHandlers.install

    def once(self: SignalHandlers, signals: Any, **options: Any) -> None:
        if not self.signals:
            install(self, signals, **options)

    monkeypatch.setattr(SignalHandlers, "install", once)
    is_caught(install_twice)


def test_a_coordinator_made_directly_takes_no_signals() -> None:
    signal.signal(ONE, foreign)
    ShutdownCoordinator()
    assert signal.getsignal(ONE) is foreign
    assert ShutdownCoordinator.get() is None


class Hasty(ShutdownCoordinator):
    """The mistake: it is published before its handlers are in place."""

    @classmethod
    def install(cls, **options: Any) -> ShutdownCoordinator:
        if cls._instance is None:
            cls._instance = cls()
            cls._instance._take(options["signals"], None, False)
        return cls._instance


def install_off_the_main_thread(kind: type[ShutdownCoordinator]) -> None:
    kind.reset()
    with pytest.raises(UsageError, match="main thread"):
        Running(lambda: kind.install(signals=(ONE,))).outcome()
    assert kind.get() is None
    kind.install(signals=(ONE,))
    assert signal.getsignal(ONE) is not foreign


def test_installing_off_the_main_thread_fails_and_spoils_nothing() -> None:
    """An instance without handlers would be found by the next who installs."""
    signal.signal(ONE, foreign)
    install_off_the_main_thread(ShutdownCoordinator)
    ShutdownCoordinator.reset()
    assert signal.getsignal(ONE) is foreign
    is_caught(lambda: install_off_the_main_thread(Hasty))
    Hasty.reset()


def test_a_signal_that_cannot_be_taken_leaves_none_taken() -> None:
    signal.signal(ONE, foreign)
    with pytest.raises(OSError, match="Invalid argument"):
        ShutdownCoordinator.install(signals=(ONE, signal.SIGKILL))
    assert ShutdownCoordinator.get() is None
    assert signal.getsignal(ONE) is foreign


def test_installing_from_a_thread_is_fine_once_it_is_done() -> None:
    coordinator = ShutdownCoordinator.install(signals=(ONE,))
    again = Running(lambda: ShutdownCoordinator.install(signals=(ONE,)))
    assert again.outcome() is coordinator


# Putting back


class Keeping(SignalHandlers):
    """The mistake: nobody puts back what was there."""

    def restore(self) -> None:
        pass


def install_and_restore(kind: type[SignalHandlers]) -> None:
    signal.signal(ONE, foreign)
    handlers = kind(lambda _signum: None)
    handlers.install((ONE,))
    handlers.restore()
    assert signal.getsignal(ONE) is foreign


def test_the_handlers_found_are_put_back() -> None:
    """A forgotten coordinator must not swallow the signals of the program around it."""
    install_and_restore(SignalHandlers)
    is_caught(lambda: install_and_restore(Keeping))


def test_a_handler_that_came_after_ours_is_not_touched() -> None:
    ShutdownCoordinator.install(signals=(ONE,))
    signal.signal(ONE, foreign)
    ShutdownCoordinator.reset()
    assert signal.getsignal(ONE) is foreign


def test_reset_off_the_main_thread_gives_the_next_signal_to_who_was_before() -> None:
    heard: list[int] = []
    signal.signal(ONE, lambda signum, _frame: heard.append(signum))
    ShutdownCoordinator.install(signals=(ONE,))
    Running(ShutdownCoordinator.reset).outcome()
    signal.raise_signal(ONE)
    eventually(lambda: heard == [ONE])


def test_reset_without_an_install_does_nothing() -> None:
    ShutdownCoordinator.reset()
    assert ShutdownCoordinator.get() is None


# Groups


@pytest.fixture
def before() -> Iterator[Any]:
    found = signal.signal(signal.SIGTERM, foreign)
    yield foreign
    signal.signal(signal.SIGTERM, found)


def test_the_last_who_borrowed_the_coordinator_puts_the_handlers_back(before: Any) -> None:
    first = ShutdownCoordinator.borrow(None, SYSTEM_CLOCK)
    second = ShutdownCoordinator.borrow(None, SYSTEM_CLOCK)
    assert first is not None
    assert second is first
    first.register(lambda: None)  # who never unregisters keeps nobody
    first.give_back()
    assert ShutdownCoordinator.get() is first
    assert signal.getsignal(signal.SIGTERM) is not before
    second.give_back()
    assert ShutdownCoordinator.get() is None
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_the_program_installed_stays_when_groups_have_ended() -> None:
    installed = ShutdownCoordinator.install(signals=(ONE,))
    borrowed = ShutdownCoordinator.borrow(None, SYSTEM_CLOCK)
    assert borrowed is installed
    borrowed.give_back()
    assert ShutdownCoordinator.get() is installed
    assert triggered_by(ONE)


def test_a_group_that_ends_late_leaves_the_next_coordinator_alone(before: Any) -> None:
    borrowed = ShutdownCoordinator.borrow(None, SYSTEM_CLOCK)
    assert borrowed is not None
    ShutdownCoordinator.reset()
    assert signal.getsignal(signal.SIGTERM) is before
    installed = ShutdownCoordinator.install(signals=(ONE,))
    borrowed.give_back()
    assert ShutdownCoordinator.get() is installed


# Chains


def test_chained_handlers_are_called_too() -> None:
    heard: list[int] = []
    signal.signal(ONE, lambda signum, _frame: heard.append(signum))
    ShutdownCoordinator.install(signals=(ONE,), chain=True)
    assert triggered_by(ONE)
    assert heard == [ONE]


def test_handlers_are_not_chained_unless_asked_for() -> None:
    heard: list[int] = []
    signal.signal(ONE, lambda signum, _frame: heard.append(signum))
    ShutdownCoordinator.install(signals=(ONE,))
    assert triggered_by(ONE)
    assert heard == []


# The third signal


def test_the_third_signal_goes_to_who_was_before_if_nobody_else_can_end_it() -> None:
    heard: list[int] = []
    signal.signal(ONE, lambda signum, _frame: heard.append(signum))
    ShutdownCoordinator.install(signals=(ONE,))
    for _ in range(2):
        signal.raise_signal(ONE)
    assert heard == []
    signal.raise_signal(ONE)
    eventually(lambda: heard == [ONE])


# Replacing


def test_somebody_who_replaces_a_handler_is_noticed_and_named() -> None:
    seen: list[Replaced] = []
    events: list[telemetry.Event] = []
    end = telemetry.subscribe(events.append)
    ShutdownCoordinator.install(signals=(ONE, TWO), on_replaced=seen.append)
    signal.signal(ONE, foreign)
    eventually(lambda: bool(seen))
    end()
    assert seen[0].signum is ONE
    assert seen[0].holder.startswith("tests.lifecycle.test_signals.foreign (")
    assert f"{__file__}:" in seen[0].holder
    (event,) = [each for each in events if isinstance(each, telemetry.SignalHandlerReplaced)]
    assert (event.signal, event.holder) == ("SIGUSR1", seen[0].holder)
    assert signal.getsignal(ONE) is foreign, "noticed, not taken back"


def test_a_replaced_handler_can_be_taken_back() -> None:
    ShutdownCoordinator.install(signals=(ONE,), on_replaced=take_back)
    signal.signal(ONE, foreign)
    eventually(lambda: signal.getsignal(ONE) is not foreign)
    assert triggered_by(ONE)


def test_who_fails_to_hear_of_it_does_not_end_the_watch() -> None:
    seen: list[Replaced] = []

    def fail(replaced: Replaced) -> bool:
        seen.append(replaced)
        raise RuntimeError("no")

    ShutdownCoordinator.install(signals=(ONE, TWO), on_replaced=fail)
    signal.signal(ONE, foreign)
    eventually(lambda: len(seen) == 1)
    signal.signal(TWO, foreign)
    eventually(lambda: len(seen) == 2)


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (None, "a handler that was not set from Python"),
        (signal.SIG_DFL, "SIG_DFL"),
        (signal.SIG_IGN, "SIG_IGN"),
        (signal.default_int_handler, "_signal.default_int_handler"),
    ],
)
def test_holders_without_a_place_are_named(handler: Any, name: str) -> None:
    assert describe(handler) == name
