"""What can be wrong with a request, in the words of the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.responses import Response

from afl.errors import NotFound
from afl.gateway import problems
from afl.gateway.problems import Kind, Problem, problem_of
from afl.log import get_logger
from afl.runtime.errors import (
    InvalidRunStateError,
    InvalidStepStateError,
    InvalidTaskStateError,
)
from afl.turns.errors import TurnNotFound

_log = get_logger(__name__)

NOT_FOUND = Kind("not-found", HTTPStatus.NOT_FOUND, "There is no such thing")
NOT_NOW = Kind("not-now", HTTPStatus.CONFLICT, "This cannot be now")
NO_CSRF = Kind("no-csrf-token", HTTPStatus.FORBIDDEN, "This did not come from our pages")
NO_STORE = problems.NO_STORE
#: Seconds after which a page that found no store looks again.
AGAIN_S = 3

_CONFLICTS = (InvalidRunStateError, InvalidStepStateError, InvalidTaskStateError)


def told(error: Exception) -> Problem | None:
    """What is wrong; None for what nobody expects."""
    if isinstance(error, NotFound) and not isinstance(error, TurnNotFound):
        return Problem(NOT_FOUND, str(error))
    if isinstance(error, _CONFLICTS):
        return Problem(NOT_NOW, str(error))
    found = problem_of(error)
    if found is not None and found.kind is NO_STORE and not isinstance(error, Problem):
        return Problem(NO_STORE, "the store cannot be reached; try again", {}, AGAIN_S)
    return found


async def answered(work: Callable[[], Awaitable[Response]]) -> Response | Problem:
    try:
        return await work()
    except Exception as error:
        problem = told(error)
        if problem is None:
            _log.exception("dashboard_failed")
            problem = Problem(problems.INTERNAL, "this was not expected; the log has more")
        return problem
