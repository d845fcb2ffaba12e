# ruff: noqa: N818 - what happened is what callers catch
"""What the client of the turn API raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.errors import AflError


class TurnApiError(AflError):
    """Root of all errors of the client."""


class RequestRefused(TurnApiError):
    """The server understood, and says no; `problem` is what it says. Ask differently."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        #: For programs: the last word of the problem's type.
        self.kind = str(problem.get("type", "")).rpartition(":")[2]
        title, detail = problem.get("title", "refused"), problem.get("detail", "")
        super().__init__(f"{status}: {title}: {detail}".removesuffix(": "))


class ApiUnreachable(TurnApiError):
    """No server has answered for as long as the client is patient. A turn that was submitted goes
    on meanwhile: ask again later, with the same key or id."""

    def __init__(self, urls: tuple[str, ...], seconds: float, why: str) -> None:
        super().__init__(f"{', '.join(urls)} cannot be used for {seconds:.0f} s now: {why}")


class TurnFailed(TurnApiError):
    """The turn is over, without a result."""

    def __init__(self, turn_id: str, state: str, reason: str) -> None:
        self.turn_id = turn_id
        self.state = state
        self.reason = reason
        super().__init__(f"turn {turn_id} {state}: {reason}".removesuffix(": "))


class TurnNotOver(TurnApiError, TimeoutError):
    """The turn takes longer than was waited for; it goes on."""


class WordsChanged(TurnApiError):
    """What was shown is not what the agent says now: the process that said it was replaced before
    its answer was kept. `shown` cannot be taken back; follow the events to take it back."""

    def __init__(self, shown: str, said: str) -> None:
        self.shown = shown
        self.said = said
        super().__init__(
            f"the agent has begun anew, with other words: it said {shown[-40:]!r} before; use "
            "stream(), and drop what is superseded"
        )
