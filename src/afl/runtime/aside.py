"""Having small things done on an ordinary thread, asked for from places that may not wait.

A signal handler runs in the middle of anything the main thread does. Whatever takes a lock there
may wait for the very code that it interrupts, for ever. Putting something into a `SimpleQueue`
takes none, so handlers do only that, and a thread of ours does the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from afl.log import get_logger

_log = get_logger(__name__)

Action = Callable[[], object]

_lock = threading.Lock()
_actions: SimpleQueue[Action] = SimpleQueue()
_is_started = False


def start_aside() -> None:
    """Make sure that the thread is there. Call this before, never in, a signal handler."""
    global _is_started
    with _lock:
        if not _is_started:
            _is_started = True
            thread = threading.Thread(target=_act, args=(_actions,), name="afl-aside", daemon=True)
            thread.start()


def do_aside(action: Action) -> None:
    """Have `action` done soon by the thread that `start_aside` made. It must not wait.

    Takes no lock and never waits, so signal handlers may call it.
    """
    _actions.put(action)


def on_main_thread() -> bool:
    """Whether this may be the inside of a signal handler: they run on the main thread only."""
    return threading.get_ident() == threading.main_thread().ident


def _act(actions: SimpleQueue[Action]) -> None:
    while True:
        action = actions.get()
        try:
            action()
        except Exception:
            _log.exception("aside_failed", action=repr(action))


def _start_again() -> None:
    """A fork copies the queue but not the thread, and perhaps a lock that somebody held."""
    global _lock, _actions, _is_started
    was_started, _is_started = _is_started, False
    _lock, _actions = threading.Lock(), SimpleQueue()
    if was_started:
        start_aside()


os.register_at_fork(after_in_child=_start_again)
