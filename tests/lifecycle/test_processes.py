"""Real processes and real signals: they end in time, with the right exit code, every time."""

from __future__ import annotations

import signal

import pytest
from tests.lifecycle.children import child
from tests.lifecycle.loops import is_caught

TERM, INT = signal.SIGTERM, signal.SIGINT


# One signal


@pytest.mark.parametrize("signum", [TERM, INT])
def test_an_idle_group_ends_with_success(signum: signal.Signals) -> None:
    with child("LoopGroup([Idle('one'), Idle('two')]).run(); say('done')") as process:
        process.hears("working one")
        process.hears("working two")
        process.send(signum)
        process.hears("done")
        assert process.end()[0] == 0


def test_a_busy_group_finishes_its_work() -> None:
    with child("LoopGroup([Busy('one')]).run(); say('done')") as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0
        assert process.lines.index("finished one") < process.lines.index("done")


HANG = """
group = LoopGroup([Idle('fine'), Hung('stuck')], 0.5)
group.run()
say('left', *group.abandoned)
"""


def test_a_group_that_hangs_ends_at_its_deadline_and_names_who() -> None:
    with child(HANG) as process:
        process.hears("working stuck")
        process.send(TERM)
        process.hears("left stuck")
        code, errors = process.end()
        assert code == 0
        assert "loop_abandoned" in errors
        assert "stuck" in errors
        assert "handler='tests.lifecycle.loops.IdleLoop.work'" in errors


def test_a_loop_that_dies_ends_the_process_with_a_failure() -> None:
    code = """
failing = FailingLoop('failing')
failing.fail.set()
LoopGroup([Idle('one'), failing]).run()
"""
    with child(code) as process:
        exit_code, errors = process.end()
        assert exit_code == 1
        assert "out of luck" in errors
        assert "in the loop failing" in errors


def test_a_signal_during_the_start_ends_it() -> None:
    code = """
def check():
    say('checking')
    raise OSError('away')
LoopGroup([Idle('one')], dependencies=[check]).run()
say('done')
"""
    with child(code) as process:
        process.hears("checking")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0
        assert "working one" not in process.lines


def test_a_loop_that_hangs_while_it_should_work_ends_the_process() -> None:
    """With the stacks of all threads, and the loop by its name."""
    code = """
LoopGroup([Idle('silent')], watchdog_threshold=0.2, watchdog_interval=0.05).run()
"""
    with child(code) as process:
        process.hears("working silent")
        exit_code, errors = process.end()
        assert exit_code == -signal.SIGKILL
        assert "loop silent hangs" in errors
        assert "Thread 0x" in errors


# More signals

SAVE = "LoopGroup([Saving('one')], 1000).run(); say('done')"


def test_the_second_signal_saves_now() -> None:
    with child(SAVE) as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("asked one")
        process.send(TERM)
        process.hears("saved one")
        process.hears("done")
        assert process.end()[0] == 0


def test_the_third_signal_waits_for_nobody() -> None:
    with child("LoopGroup([Hung('one')], 1000).run(); say('done')") as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("asked one")
        process.send(INT)
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0


def test_after_the_third_signal_the_handlers_are_those_from_before() -> None:
    code = """
signal.signal(TERM := signal.SIGTERM, before := lambda *_: say('before'))
LoopGroup([Hung('one')], 1000).run()
say('same', signal.getsignal(TERM) is before)
os.kill(os.getpid(), TERM)
say('done')
"""
    with child(code) as process:
        process.hears("working one")
        for _ in range(2):
            process.send(TERM)
            process.hears("asked one")
        process.send(INT)
        process.hears("same True")
        process.hears("before")
        process.hears("done")
        assert process.end()[0] == 0


# A loop on the main thread

SINGLE = """
class Waiting(Idle):
    def shutdown(self, *, timeout=30.0):
        answer = super().shutdown(timeout=timeout)
        say('stopped', answer)
        return answer
coordinator = ShutdownCoordinator.install()
loop = Waiting('one')
coordinator.register(loop.shutdown)
loop.run()
say('done')
"""
IN_THE_HANDLER = """
ShutdownCoordinator._receive_signal = lambda self, signum: self.trigger()
ShutdownCoordinator._hear_socket = lambda self, signum: None
"""


def stop_a_loop_on_the_main_thread(mistake: str = "") -> None:
    with child(mistake + SINGLE) as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("done")
        process.hears("stopped True")
        assert process.end()[0] == 0


def test_a_loop_on_the_main_thread_can_be_shut_down_by_a_callback() -> None:
    """A handler that waits for the very code it interrupts burns the whole timeout."""
    stop_a_loop_on_the_main_thread()
    is_caught(lambda: stop_a_loop_on_the_main_thread(IN_THE_HANDLER))


def test_a_process_that_ends_lets_its_callbacks_return() -> None:
    code = """
closing = threading.Event()
def close():
    closing.set()
    time.sleep(0.1)
    say('closed')
coordinator = ShutdownCoordinator.install()
coordinator.register(close)
say('working')
closing.wait()
"""
    with child(code) as process:
        process.hears("working")
        process.send(TERM)
        assert process.end()[0] == 0
        assert "closed" in process.lines


def test_a_loop_may_be_asked_in_a_signal_handler_of_others() -> None:
    """Setting an event there would take a lock that the waiting code may hold; this one holds it
    most of the time, so the first few rounds would hang."""
    code = """
sys.setswitchinterval(0.0005)
class Restless(IdleLoop):
    def wait(self, stop):
        while not stop.wait(0):
            pass
loop = Restless('one')
signal.signal(signal.SIGTERM, lambda *_: loop.request_stop())
def ask():
    loop.is_working.wait()
    # Again and again: a signal that comes just before a wait does not end it.
    while loop.is_working.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
for _ in range(30):
    threading.Thread(target=ask, daemon=True).start()
    loop.run()
say('done')
"""
    with child(code) as process:
        process.hears("done")
        assert process.end()[0] == 0


def test_a_third_signal_ends_a_loop_on_the_main_thread_that_hangs() -> None:
    code = """
coordinator = ShutdownCoordinator.install()
loop = Hung('one')
coordinator.register(loop.shutdown)
loop.run()
"""
    with child(code) as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("asked one")
        process.send(INT)
        process.send(TERM)
        # As the third signal would have ended it without us: KeyboardInterrupt or the default.
        assert process.end()[0] in (-TERM, -INT, 1)


# Others who want signals


def test_a_library_that_replaces_our_handler_is_named_and_loses_it() -> None:
    code = """
from afl.runtime import take_back
def note(replaced):
    say('replaced', replaced.holder.partition(' ')[0])
    return take_back(replaced)
def greedy(signum, frame):
    say('swallowed')
ShutdownCoordinator.install(on_replaced=note)
signal.signal(signal.SIGTERM, greedy)
while signal.getsignal(signal.SIGTERM) is greedy: time.sleep(0.01)
LoopGroup([Idle('one')]).run()
say('done')
"""
    with child(code) as process:
        process.hears("replaced __main__.greedy")
        process.hears("working one")
        process.send(TERM)
        process.hears("done")
        code_, errors = process.end()
        assert code_ == 0
        assert "signal_handler_replaced" in errors
        assert "swallowed" not in process.lines


def test_a_handler_is_taken_back_while_the_main_thread_waits() -> None:
    code = """
from afl.runtime import take_back
def greedy(signum, frame):
    say('swallowed')
group = LoopGroup([Idle('one')], on_replaced=take_back)
def take(*_):
    signal.signal(signal.SIGTERM, greedy)
    say('taken')
signal.signal(signal.SIGUSR1, take)
def watch():
    while signal.getsignal(signal.SIGTERM) is not greedy: time.sleep(0.01)
    while signal.getsignal(signal.SIGTERM) is greedy: time.sleep(0.01)
    say('back')
threading.Thread(target=watch, daemon=True).start()
group.run()
say('done')
"""
    with child(code) as process:
        process.hears("working one")
        process.send(signal.SIGUSR1)
        process.hears("back")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0
        assert "swallowed" not in process.lines


def test_a_framework_with_its_own_handlers_hands_signals_over() -> None:
    code = """
coordinator = ShutdownCoordinator.install()
hand_over = coordinator.delegate()
def framework(signum, frame):
    say('framework')
    hand_over(signum, frame)
signal.signal(signal.SIGTERM, framework)
LoopGroup([Idle('one')]).run()
say('done')
"""
    with child(code) as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("framework")
        process.hears("done")
        assert process.end()[0] == 0


def test_handlers_are_those_from_before_when_the_group_has_ended() -> None:
    code = """
signal.signal(signal.SIGTERM, before := lambda *_: say('before'))
class Ending(Idle):
    def wait(self, stop): say('working', self.name)
for number in range(2):
    LoopGroup([Ending('one')]).run()
    say('same', signal.getsignal(signal.SIGTERM) is before)
    say('int', signal.getsignal(signal.SIGINT) is signal.default_int_handler)
say('none', ShutdownCoordinator.get())
"""
    with child(code) as process:
        assert process.end()[0] == 0
        assert process.lines.count("same True") == 2
        assert process.lines.count("int True") == 2
        assert "none None" in process.lines


# Threads


def test_a_group_on_another_thread_hears_of_signals_through_an_installed_coordinator() -> None:
    code = """
ShutdownCoordinator.install()
group = LoopGroup([Idle('one')])
thread = threading.Thread(target=group.run)
thread.start()
thread.join()
say('done')
"""
    with child(code) as process:
        process.hears("working one")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0


WAIT = """
group = LoopGroup([Idle('one')])
ShutdownCoordinator.install()
thread = threading.Thread(target=group.run, daemon=True)
thread.start()
# Signals go to another thread then, and the wait of this one is not interrupted.
def tell_when_it_waits():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name not in ('join', '_wait_for_tstate_lock'):
        time.sleep(0.001)
    say('waiting')
threading.Thread(target=tell_when_it_waits, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
began = time.monotonic()
thread.join(PATIENCE)
say('ended', time.monotonic() - began < PATIENCE)
os._exit(0)
"""
WITHOUT_A_SOCKET = """
from afl.runtime.signals import SignalSocket
SignalSocket.open = lambda self: None
"""


def stop_while_the_main_thread_waits(patience_s: float = 30.0, mistake: str = "") -> None:
    with child(mistake + WAIT.replace("PATIENCE", str(patience_s))) as process:
        process.hears("working one")
        process.hears("waiting")
        process.send(TERM)
        process.hears("ended True")


def test_a_signal_is_heard_although_the_main_thread_does_not_wake_up() -> None:
    """Python handles signals when its main thread runs, which may be never."""
    stop_while_the_main_thread_waits()
    is_caught(lambda: stop_while_the_main_thread_waits(2.0, WITHOUT_A_SOCKET))


WITH_A_LIMIT_FOR_ALL_SOCKETS = "import socket; socket.setdefaulttimeout(0.001)"


def test_a_signal_is_heard_although_the_application_limits_the_time_of_all_sockets() -> None:
    stop_while_the_main_thread_waits(mistake=WITH_A_LIMIT_FOR_ALL_SOCKETS)


def test_the_first_of_two_groups_to_end_leaves_the_signals_to_the_other() -> None:
    code = """
signal.signal(signal.SIGTERM, lambda *_: say('before'))
class First(Idle):
    def wait(self, stop):
        thread.start()
        super().wait(stop)
class Second(Busy):
    def wait(self, stop):
        first.request_stop()
        super().wait(stop)
first, second = LoopGroup([First('first')]), LoopGroup([Second('second')])
thread = threading.Thread(target=second.run)
first.run()
say('first over')
thread.join()
say('second over')
os.kill(os.getpid(), signal.SIGTERM)
say('done')
"""
    with child(code) as process:
        process.hears("first over")
        process.hears("working second")
        process.send(TERM)
        process.hears("finished second")
        process.hears("second over")
        process.hears("before")
        process.hears("done")
        assert process.end()[0] == 0


def test_installing_off_the_main_thread_fails_and_the_main_thread_still_can() -> None:
    code = """
from afl.errors import UsageError
def install():
    try:
        ShutdownCoordinator.install()
    except UsageError as error:
        say('refused')
thread = threading.Thread(target=install)
thread.start()
thread.join()
LoopGroup([Idle('one')]).run()
say('done')
"""
    with child(code) as process:
        process.hears("refused")
        process.hears("working one")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0


def test_a_group_can_run_twice_in_a_process() -> None:
    code = """
group = LoopGroup([Idle('one')])
for number in range(2):
    group.run()
    say('run', number, 'over')
"""
    with child(code) as process:
        for number in range(2):
            process.hears("working one")
            process.lines.clear()
            process.send(TERM)
            process.hears(f"run {number} over")
        assert process.end()[0] == 0


def test_a_group_that_was_stopped_before_it_starts_ends_at_once() -> None:
    code = """
group = LoopGroup([Idle('one')])
group.request_stop()
group.run()
say('done')
"""
    with child(code) as process:
        process.hears("done")
        assert process.end()[0] == 0
        assert "working one" not in process.lines


def test_a_coordinator_that_was_triggered_keeps_a_group_from_starting() -> None:
    code = """
coordinator = ShutdownCoordinator.install()
coordinator.trigger()
for _ in range(100):
    loop = IdleLoop()
    LoopGroup([loop]).run()
    assert loop.runs == 0
say('done')
"""
    with child(code) as process:
        process.hears("done")
        assert process.end()[0] == 0
