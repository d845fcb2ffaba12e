"""Short turns: threads of one interpreter alternate quickly while somebody must answer in time.

Threads that compute take turns of five milliseconds, and who gets the next one is left to chance.
A thread that needs two turns to answer a probe then waits for hundreds of milliseconds, beside
eight busy ones. With turns of a fraction of a millisecond it is tens. Computing costs some percent
more while several threads do it, and nothing otherwise, because nobody else wants the turn.
"""

from __future__ import annotations

import sys
import threading

TURN_S = 0.0002

_lock = threading.Lock()
_users = 0
_before_s = 0.0


def begin_short_turns() -> None:
    """Let turns be short until every call of this was followed by one of `end_short_turns`.

    The interval of the interpreter is left alone if the application has chosen an even shorter
    one.
    """
    global _users, _before_s
    with _lock:
        if _users == 0:
            _before_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_before_s, TURN_S))
        _users += 1


def end_short_turns() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            sys.setswitchinterval(_before_s)
