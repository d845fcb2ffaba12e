"""Forked children of a process with loops: each hears its own signals, and nobody else's."""

from __future__ import annotations

import os
import signal

from tests.lifecycle.children import child
from tests.lifecycle.loops import is_caught

TERM = signal.SIGTERM

FORK = """
import warnings
warnings.simplefilter('ignore')
IdleLoop('parent')
MISTAKE
pid = os.fork()
if pid == 0:
    threading.Timer(PATIENCE, lambda: os._exit(3)).start()
    LoopGroup([Idle('one')]).run()
    say('done')
    os._exit(0)
say('pid', pid)
say('code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
WITHOUT_A_NEW_THREAD = """
from afl.runtime import aside
aside.start_aside = lambda: setattr(aside, '_is_started', True)
"""


def stop_a_forked_child(patience_s: float = 40.0, mistake: str = "") -> None:
    code = FORK.replace("MISTAKE", mistake).replace("PATIENCE", str(patience_s))
    with child(code) as process:
        process.hears("working one")
        os.kill(int(process.hears("pid ").split()[1]), TERM)
        process.hears("done")
        process.hears("code 0")
        assert process.end()[0] == 0


def test_stops_are_heard_in_a_forked_child() -> None:
    """A fork copies neither the thread that acts for handlers nor those of others."""
    stop_a_forked_child()
    is_caught(lambda: stop_a_forked_child(0.4, WITHOUT_A_NEW_THREAD))


def test_a_signal_for_a_forked_child_is_not_one_for_its_parent() -> None:
    """Both would write to the same socket, most likely while the child is still very young."""
    code = """
import warnings
warnings.simplefilter('ignore')
coordinator, told = ShutdownCoordinator.install(), threading.Event()
coordinator.register(told.set)
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        time.sleep(40)
        os._exit(0)
    os.kill(pid, signal.SIGTERM)
    say('code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
say('parent', coordinator.triggered)
os.kill(os.getpid(), signal.SIGTERM)
say('own', told.wait(40))
"""
    with child(code) as process:
        process.hears("parent False")
        process.hears("own True")
        assert process.end()[0] == 0
        assert process.lines.count(f"code {-TERM}") == 30


def test_a_forked_child_hears_its_signals_although_two_coordinators_came_before_it() -> None:
    """What the first one took is put back after what the second one found."""
    code = """
import warnings
warnings.simplefilter('ignore')
ShutdownCoordinator.install()
reset = threading.Thread(target=ShutdownCoordinator.reset)
reset.start()
reset.join()
ShutdownCoordinator.install()
pid = os.fork()
if pid == 0:
    time.sleep(40)
    os._exit(0)
os.kill(pid, signal.SIGTERM)
say('code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    with child(code) as process:
        process.hears(f"code {-TERM}")
        assert process.end()[0] == 0


FORK_IN_A_LOOP = """
import multiprocessing, warnings
warnings.simplefilter('ignore')
MISTAKE
class Forking(Idle):
    def wait(self, stop):
        process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(PATIENCE,))
        process.start()
        process.terminate()
        process.join()
        say('code', process.exitcode)
LoopGroup([Forking('one')]).run()
say('done')
"""
KEEPING_WHAT_THE_PARENT_HELD = """
from afl.runtime import signals
signals._hold = lambda let_go: None
"""


def end_a_child_of_a_loop(patience_s: float = 40.0, mistake: str = "") -> None:
    code = FORK_IN_A_LOOP.replace("MISTAKE", mistake).replace("PATIENCE", str(patience_s))
    with child(code) as process:
        process.hears(f"code {-TERM}")
        process.hears("done")
        assert process.end()[0] == 0


def test_a_forked_child_of_a_loop_can_be_terminated() -> None:
    """A child with our handlers and without our threads swallows every signal."""
    end_a_child_of_a_loop()
    is_caught(lambda: end_a_child_of_a_loop(0.4, KEEPING_WHAT_THE_PARENT_HELD))


def test_a_loop_can_leave_a_pool_of_forked_children() -> None:
    code = """
import multiprocessing, warnings
warnings.simplefilter('ignore')
fork = multiprocessing.get_context('fork')
is_busy = fork.Event()
def work():
    is_busy.set()
    time.sleep(40)
class Forking(Idle):
    def wait(self, stop):
        with fork.Pool(1) as pool:
            pool.apply_async(work)
            is_busy.wait()
            began = time.monotonic()
        say('left the pool', time.monotonic() - began < 40)
LoopGroup([Forking('one')]).run()
say('done')
"""
    with child(code) as process:
        process.hears("left the pool True")
        process.hears("done")
        assert process.end()[0] == 0


def test_a_group_in_a_forked_child_of_a_loop_hears_its_own_signals() -> None:
    code = """
import multiprocessing, warnings
warnings.simplefilter('ignore')
def live():
    threading.Timer(40, lambda: os._exit(3)).start()
    LoopGroup([Idle('child')]).run()
    say('child over')
    os._exit(0)
class Forking(Idle):
    def wait(self, stop):
        process = multiprocessing.get_context('fork').Process(target=live)
        process.start()
        say('pid', process.pid)
        process.join()
        say('code', process.exitcode, coordinator.triggered)
        super().wait(stop)
coordinator = ShutdownCoordinator.install()
LoopGroup([Forking('parent')]).run()
say('done')
"""
    with child(code) as process:
        process.hears("working child")
        os.kill(int(process.hears("pid").split()[1]), TERM)
        process.hears("child over")
        process.hears("code 0 False")
        process.hears("working parent")
        process.send(TERM)
        process.hears("done")
        assert process.end()[0] == 0
