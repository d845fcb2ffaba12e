"""What can be asked of the turn API, without any HTTP: rights, operations, what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.gateway import problems
from afl.gateway.access import Access, Right, Visitor, key_prefix
from afl.gateway.bodies import (
    InputBody,
    NewTurnBody,
    ResumeBody,
    TurnBody,
    TurnsBody,
    given_key,
    turn_body,
)
from afl.gateway.places import START, Place, read_place
from afl.gateway.problems import Problem
from afl.gateway.requests import Limits, converted
from afl.operations import turns as operations
from afl.runtime.health import Report
from afl.turns.api import TurnRecord, TurnState, TurnStore
from afl.turns.errors import KeyReused, TurnNotFound
from afl.turns.tokens import Tokens

#: Clients that cannot be served now come back after this time.
_RETRY_S = 1.0
LARGEST_LIST = 1000


@dataclass(frozen=True)
class LoopInfo:
    """A loop that takes turns over HTTP; it may run anywhere on the same store."""

    name: str
    #: What its requests are; those that do not fit are refused at once.
    request_type: Any = Any


def loops_of(
    given: Sequence[LoopInfo | str] | Mapping[str, Any],
) -> dict[str, LoopInfo]:
    """Raises ConfigurationError."""
    if isinstance(given, Mapping):
        found = [LoopInfo(name, kind) for name, kind in given.items()]
    else:
        found = [each if isinstance(each, LoopInfo) else LoopInfo(each) for each in given]
    if not found:
        raise ConfigurationError("a turn API without loops takes no turns; name at least one")
    return {each.name: each for each in found}


def always_ready() -> Report:
    return Report(ok=True)


@dataclass
class Desk:
    """Blocks while the store works. Safe from any thread. Methods raise Problem, and what
    `problem_of` knows."""

    store: TurnStore
    loops: Mapping[str, LoopInfo]
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    ready: Callable[[], Report] = always_ready
    tokens: Tokens | None = None
    clock: Clock = SYSTEM_CLOCK

    def resume_tokens(self) -> Tokens:
        # Not before it is needed: the key may be in a store that is not there yet.
        if self.tokens is None:
            self.tokens = Tokens([self.store.secret()], clock=self.clock)
        return self.tokens

    # Turns

    def submit(self, visitor: Visitor, body: NewTurnBody, key: str) -> TurnBody:
        _require(visitor, Right.SUBMIT)
        self._require_ready()
        loop = self.loops.get(body.loop)
        if loop is None:
            known = sorted(self.loops)
            text = f"no loop here is called {body.loop!r}; there are: {', '.join(known)}"
            raise Problem(problems.NO_SUCH_LOOP, text, {"loops": known})
        converted(body.request, loop.request_type, f"the request for {loop.name}")
        owned = key_prefix(visitor.name) + key
        try:
            turn = operations.submit_turn(self.store, loop.name, body.request, key=owned)
        except KeyReused:
            raise KeyReused(key) from None  # as its caller knows it
        if turn.attempt == 0:  # else it came again, later
            telemetry.emit(
                telemetry.TurnAccepted(
                    at=self.clock.now(), turn=turn.id, loop=loop.name, caller=visitor.name
                )
            )
        return self._shown(visitor, turn)

    def show(self, visitor: Visitor, turn_id: str) -> TurnBody:
        return self._shown(visitor, self._found(visitor, turn_id, Right.LOOK))

    def list(
        self,
        visitor: Visitor,
        loop: str | None,
        state: TurnState | None,
        limit: int,
        before: str | None,
    ) -> TurnsBody:
        _require(visitor, Right.LOOK, Right.ALL)
        found = self.store.list(loop, state, limit, before)
        return TurnsBody([turn_body(each, key=given_key(each)) for each in found])

    def give_input(self, visitor: Visitor, turn_id: str, body: InputBody) -> TurnBody:
        self._found(visitor, turn_id, Right.ACT)
        turn = operations.answer_turn(self.store, turn_id, body.answer, question=body.call_id)
        return self._shown(visitor, turn)

    def resume(self, visitor: Visitor, body: ResumeBody) -> TurnBody:
        """The token is the right: whose turn it is does not matter."""
        _require(visitor, Right.ACT)
        turn = operations.resume_by_token(self.store, body.token, self.resume_tokens())
        return self._shown(visitor, turn)

    def cancel(self, visitor: Visitor, turn_id: str) -> TurnBody:
        self._found(visitor, turn_id, Right.ACT)
        reason = f"{visitor.name} cancelled it"
        return self._shown(visitor, operations.cancel_once(self.store, turn_id, reason))

    # Streams

    def follow(self, visitor: Visitor, turn_id: str, after: str) -> tuple[TurnRecord, Place | None]:
        """Where to go on; None: there is nothing more to be seen."""
        turn = self._found(visitor, turn_id, Right.LOOK)
        try:
            place = read_place(after) if after else START
        except Exception as error:
            raise Problem(problems.BAD_PLACE, str(error)) from None
        if place is None and turn.state.is_end:
            return turn, None
        if place is None or place.seq > turn.seq or place.number > turn.streamed:
            text = f"turn {turn.id} has not come to {after} yet; read it from its beginning"
            raise Problem(problems.AHEAD, text)
        return turn, place

    # Inside

    def _require_ready(self) -> None:
        report = self.ready()
        if not report.ok:
            reasons = "; ".join(report.reasons) or "not ready"
            text = f"no turns are taken here now: {reasons}"
            raise Problem(problems.NOT_READY, text, {}, _RETRY_S)

    def _found(self, visitor: Visitor, turn_id: str, right: Right) -> TurnRecord:
        _require(visitor, right)
        turn = self.store.get(turn_id)
        if not (visitor.may(Right.ALL) or visitor.owns(turn.key)):
            # Not "forbidden": that it exists is not for others either.
            raise TurnNotFound(turn_id)
        return turn

    def _shown(self, visitor: Visitor, turn: TurnRecord) -> TurnBody:
        may_resume = visitor.may(Right.ACT) and turn.state is TurnState.SUSPENDED
        return turn_body(
            turn,
            key=given_key(turn),
            result=None if turn.result is None else self.store.value(turn.result),
            waiting=operations.open_question(self.store, turn),
            resume_token=self.resume_tokens().issue(turn.id) if may_resume else None,
        )


def _require(visitor: Visitor, *rights: Right) -> None:
    if not visitor.may(*rights):
        text = f"the token {visitor.name} is for a {visitor.role}, who may not do that"
        raise Problem(problems.FORBIDDEN, text)
