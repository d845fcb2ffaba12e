"""The turn API: turns over HTTP, and the client for it. Needs the extra `serve`.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    "TurnApi": "afl.gateway.server",
    **dict.fromkeys(("TurnApp", "make_app"), "afl.gateway.app"),
    "LoopInfo": "afl.gateway.desk",
    "Limits": "afl.gateway.requests",
    **dict.fromkeys(("Role", "Token"), "afl.gateway.access"),
    **dict.fromkeys(("TurnClient", "TurnHandle"), "afl.gateway.client"),
    "StreamEvent": "afl.gateway.sse",
    **dict.fromkeys(
        (
            *("TurnApiError", "RequestRefused", "ApiUnreachable"),
            *("TurnFailed", "TurnNotOver", "WordsChanged"),
        ),
        "afl.gateway.client_errors",
    ),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.gateway.access import Role as Role
    from afl.gateway.access import Token as Token
    from afl.gateway.app import TurnApp as TurnApp
    from afl.gateway.app import make_app as make_app
    from afl.gateway.client import TurnClient as TurnClient
    from afl.gateway.client import TurnHandle as TurnHandle
    from afl.gateway.client_errors import ApiUnreachable as ApiUnreachable
    from afl.gateway.client_errors import RequestRefused as RequestRefused
    from afl.gateway.client_errors import TurnApiError as TurnApiError
    from afl.gateway.client_errors import TurnFailed as TurnFailed
    from afl.gateway.client_errors import TurnNotOver as TurnNotOver
    from afl.gateway.client_errors import WordsChanged as WordsChanged
    from afl.gateway.desk import LoopInfo as LoopInfo
    from afl.gateway.requests import Limits as Limits
    from afl.gateway.server import TurnApi as TurnApi
    from afl.gateway.sse import StreamEvent as StreamEvent


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
