"""The routes, as one table: what is served, documented and tested follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from afl.gateway import headers, problems
from afl.gateway.access import Visitor
from afl.gateway.bodies import InputBody, NewTurnBody, ResumeBody, TurnBody, TurnsBody
from afl.gateway.desk import LARGEST_LIST, Desk
from afl.gateway.places import PATTERN
from afl.gateway.problems import Kind, Problem
from afl.gateway.requests import converted
from afl.ids import new_id
from afl.turns.api import TurnState

#: Letters that headers can carry.
_Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Limit = Annotated[int, Meta(ge=1, le=LARGEST_LIST)]
#: Numbers with more digits are too large for anything here, and with thousands for Python as well.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Asked:
    """A request, read."""

    visitor: Visitor
    turn_id: str = ""
    body: Any = None
    #: Query and headers that the route knows; those that were not given are not here.
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    name: str
    place: str
    kind: Any
    meaning: str
    #: What it looks like, if that is more than its type says.
    pattern: str | None = None

    def read(self, text: str) -> Any:
        """Raises Problem."""
        is_number = self.kind is _Limit and text.isdecimal()
        value: Any = int(text[:_MOST_DIGITS]) if is_number else text
        return converted(value, self.kind, self.name)


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    name: str
    meaning: str
    do: Callable[[Desk, Asked], Any]
    problems: Sequence[Kind]
    answer: type = TurnBody
    status: int = 200
    body: type | None = None
    parameters: Sequence[Parameter] = ()

    def require_known(self, query: Iterable[str]) -> None:
        """Raises Problem: a filter with a typing error would find everything."""
        known = sorted(each.name for each in self.parameters if each.place == "query")
        unknown = sorted(set(query).difference(known))
        if unknown:
            text = f"there is no parameter {unknown[0]!r} here; there are: {', '.join(known)}"
            raise Problem(problems.INVALID, text.removesuffix("; there are: "))

    @property
    def all_problems(self) -> list[Kind]:
        known = [*self.problems, *_BODY] if self.body is not None else self.problems
        return [*known, *_ALWAYS]


_ALWAYS = (
    problems.UNAUTHORIZED,
    problems.FORBIDDEN,
    problems.WRONG_HOST,
    problems.INVALID,
    problems.LONG_HEADERS,
    problems.INTERNAL,
    problems.NO_STORE,
)
_BODY = (
    problems.BAD_JSON,
    problems.TOO_SLOW,
    problems.TOO_LARGE,
    problems.NOT_A_TYPE,
)


def _submit(desk: Desk, asked: Asked) -> Any:
    return desk.submit(asked.visitor, asked.body, asked.given.get(headers.KEY) or new_id())


def _list(desk: Desk, asked: Asked) -> Any:
    loop, state, before = map(asked.given.get, ("loop", "state", "before"))
    return desk.list(asked.visitor, loop, state, asked.given.get("limit", 100), before)


def _follow(desk: Desk, asked: Asked) -> Any:
    # What the client's own code says goes before what its library remembers.
    after = asked.given.get("after") or asked.given.get(headers.PLACE) or ""
    return desk.follow(asked.visitor, asked.turn_id, after)


_AFTER = "the id of the last event that was seen; without it, the stream begins at its beginning"

SUBMIT = Route(
    "POST",
    "/turns",
    "submit_turn",
    "Submit a turn. It is kept when this answers; any loop of that name does it. With the same "
    "idempotency key and the same request it is the same turn.",
    _submit,
    [problems.NO_SUCH_LOOP, problems.KEY_REUSED, problems.NOT_READY],
    status=202,
    body=NewTurnBody,
    parameters=[
        Parameter(headers.KEY, "header", _Key, "so that it can be sent again; one for each turn")
    ],
)
LIST = Route(
    "GET",
    "/turns",
    "list_turns",
    "Turns, the newest first, without their results. For operators and readers.",
    _list,
    [problems.NO_SUCH_TURN],
    answer=TurnsBody,
    parameters=[
        Parameter("loop", "query", _Name, "of this loop"),
        Parameter("state", "query", TurnState, "in this state"),
        Parameter("limit", "query", _Limit, "at most so many; 100 if it is not given"),
        Parameter("before", "query", _Name, "older ones than the turn of this id: the next page"),
    ],
)
SHOW = Route(
    "GET",
    "/turns/{turn_id}",
    "show_turn",
    "A turn: its state, its result, the question that it waits for.",
    lambda desk, asked: desk.show(asked.visitor, asked.turn_id),
    [problems.NO_SUCH_TURN],
)
FOLLOW = Route(
    "GET",
    "/turns/{turn_id}/events",
    "follow_turn",
    "What happens in a turn, as server-sent events, until it is over. Goes on at any server of "
    "the same store without a gap or a repeat. 204 if the last event was seen.",
    _follow,
    [problems.BAD_PLACE, problems.NO_SUCH_TURN, problems.AHEAD, problems.TOO_MANY],
    parameters=[
        Parameter(headers.PLACE, "header", str, _AFTER, PATTERN),
        Parameter("after", "query", str, "the same, for who cannot set headers", PATTERN),
    ],
)
INPUT = Route(
    "POST",
    "/turns/{turn_id}/input",
    "give_input",
    "Answer the question that a turn waits for. The same answer again is fine.",
    lambda desk, asked: desk.give_input(asked.visitor, asked.turn_id, asked.body),
    [problems.NO_SUCH_TURN, problems.ENDED, problems.NOTHING_ASKED, problems.ANSWERED],
    body=InputBody,
)
RESUME = Route(
    "POST",
    "/turns/resume",
    "resume_turn",
    "Let a suspended turn go on, with the token that came with the suspension. One that goes on "
    "already is left alone.",
    lambda desk, asked: desk.resume(asked.visitor, asked.body),
    [problems.BAD_TOKEN, problems.NO_SUCH_TURN, problems.ENDED, problems.BUSY],
    body=ResumeBody,
)
CANCEL = Route(
    "DELETE",
    "/turns/{turn_id}",
    "cancel_turn",
    "End a turn, whoever does it. Again is fine; a turn that came to another end is a conflict.",
    lambda desk, asked: desk.cancel(asked.visitor, asked.turn_id),
    [problems.NO_SUCH_TURN, problems.ENDED],
)

ROUTES = (SUBMIT, LIST, SHOW, FOLLOW, INPUT, RESUME, CANCEL)
