"""One turn of an agent, from its request to the end of its prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from afl.agents.budget import Budget
from afl.agents.calling import Calling
from afl.agents.evaluation import PromptResponse
from afl.agents.experiment import Experiment
from afl.agents.prompt import Prompt
from afl.agents.session import Session
from afl.clock import Clock
from afl.log import get_logger
from afl.loops.bundle import BundleWriter
from afl.loops.bundle_config import BundleConfig
from afl.loops.requests import AgentLoopRequest, RunContext
from afl.loops.turn import Turn, is_current, taking

T = TypeVar("T")
Out = TypeVar("Out")

_log = get_logger(__name__)


# What a session says about its turn


@dataclass(frozen=True)
class LoopRequestState:
    """What was asked."""

    request: AgentLoopRequest[Any]


@dataclass(frozen=True)
class LoopRawResponse:
    """What the model answered."""

    response: PromptResponse[Any]


@dataclass(frozen=True)
class LoopFinalResponse:
    """What `finalize` made of that."""

    response: PromptResponse[Any]


@dataclass(frozen=True)
class TurnFacts:
    """What is known about a turn that failed; its error carries them to the reply."""

    session_id: str | None = None
    bundle_path: str | None = None

    def put_on(self, error: BaseException) -> None:
        with suppress(AttributeError):  # of classes that allow no attributes
            error.afl_turn_facts = self  # type: ignore[attr-defined]

    @staticmethod
    def of(error: BaseException) -> TurnFacts:
        facts = getattr(error, "afl_turn_facts", None)
        return facts if isinstance(facts, TurnFacts) else TurnFacts()


@dataclass(frozen=True)
class Order(Generic[T]):
    """What is to be done, and how."""

    request: AgentLoopRequest[T]
    context: RunContext
    turn: Turn
    budget: Budget
    bundle: BundleConfig | None = None


class Agent(Protocol[T, Out]):
    """Who does it: what an agent loop says about its turns."""

    def prepare(
        self, request: T, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[Out], Session]: ...

    async def respond(
        self, order: Order[T], prompt: Prompt[Out], session: Session, calling: Calling
    ) -> PromptResponse[Out]: ...

    def finalize(self, prompt: Prompt[Out], session: Session, output: Out | None) -> Out | None: ...


class Execution(Generic[T, Out]):
    """`perform` does all of it; `run` and `close` are its halves, and `close` is never left out.

    The prompt is cleaned up exactly once, whatever happens, and after the bundle has what its
    sections made.
    """

    def __init__(
        self, agent: Agent[T, Out], order: Order[T], calling: Calling, clock: Clock
    ) -> None:
        self._agent = agent
        self._order = order
        self._calling = calling
        self._clock = clock
        self._began = clock.monotonic()
        self._prompt: Prompt[Out] | None = None
        self.session: Session | None = None
        self.response: PromptResponse[Out] | None = None
        self.duration_s = 0.0
        context = order.context
        self.writer = (
            None
            if order.bundle is None
            else BundleWriter(order.bundle, context.run_id, context.request_id, clock)
        )

    async def perform(self) -> PromptResponse[Out]:
        try:
            response = await self.run()
        except BaseException as error:
            await self.close(error)
            self.facts.put_on(error)
            raise
        await self.close()
        return response

    async def run(self) -> PromptResponse[Out]:
        order = self._order
        with taking(order.turn), _named_in_logs(order.context), self._logging():
            try:
                return await self._run()
            finally:
                self.duration_s = self._clock.monotonic() - self._began

    async def _run(self) -> PromptResponse[Out]:
        agent, order, calling = self._agent, self._order, self._calling
        request = order.request
        prompt, session = await calling.function(self._prepare)
        self._note_beginning(session)
        session.append(LoopRequestState(request))
        response = await agent.respond(order, prompt, session, calling)
        session.append(LoopRawResponse(response))
        output = await calling.function(partial(agent.finalize, prompt, session, response.output))
        self.response = replace(response, output=output)
        session.append(LoopFinalResponse(self.response))
        return self.response

    def _prepare(self) -> tuple[Prompt[Out], Session]:
        request = self._order.request
        made = self._agent.prepare(request.request, experiment=request.experiment)
        # Here, and not where it is awaited: a turn that is cancelled meanwhile still has it.
        self._prompt, self.session = made
        return made

    async def close(self, error: BaseException | None = None) -> None:
        """Capture what is to be kept, then let the prompt go. Raises nothing."""
        await self._calling.function(partial(self._close, error))

    def _close(self, error: BaseException | None) -> None:
        # Taken away first: one that fails to clean up is not asked again.
        prompt, self._prompt = self._prompt, None
        self._note_end(prompt, error)
        if prompt is not None:
            try:
                prompt.cleanup()
            except Exception:
                _log.exception("prompt_not_cleaned_up", prompt=prompt.name)
        if self.writer is not None:
            self.writer.write()

    @property
    def facts(self) -> TurnFacts:
        session, writer = self.session, self.writer
        path = None if writer is None else writer.path
        return TurnFacts(
            None if session is None else session.session_id, None if path is None else str(path)
        )

    # Its bundle

    @contextmanager
    def _logging(self) -> Iterator[None]:
        if self.writer is None:
            yield
        else:
            with self.writer.logging(partial(is_current, self._order.turn)):
                yield

    def _note_beginning(self, session: Session) -> None:
        if self.writer is not None:
            self.writer.add_json("request/input.json", self._order.request)
            self.writer.add_session("session/before.jsonl", session)

    def _note_end(self, prompt: Prompt[Out] | None, error: BaseException | None) -> None:
        writer = self.writer
        if writer is None:
            return
        if self.session is None:  # it failed before there was one
            writer.add_json("request/input.json", self._order.request)
        else:
            writer.add_session("session/after.jsonl", self.session)
        if self.response is not None:
            writer.add_json("request/output.json", self.response)
        if error is not None:
            writer.add_error(error)
        writer.add_json("run_context.json", self._order.context)
        writer.add_json("metrics.json", self._metrics())
        if prompt is not None:
            writer.add_files(prompt.artifacts)

    def _metrics(self) -> dict[str, Any]:
        spent = self._order.budget.spent
        return {
            "duration_s": self.duration_s,
            "model_calls": spent.calls,
            "usage": spent.usage,
            "cost": spent.cost,
            "tool_uses": 0 if self.session is None else len(self.session.tool_uses),
        }


def _named_in_logs(context: RunContext) -> AbstractContextManager[object]:
    """Let whatever is logged meanwhile, by whomever, say which turn it belongs to."""
    if "structlog" not in sys.modules:  # it is large, and without it nobody would read that
        return nullcontext()
    from structlog.contextvars import bound_contextvars

    return bound_contextvars(**context.to_log_context())


class BundleContext(Generic[Out]):
    """A turn that is over, and its bundle, which is not written yet."""

    def __init__(self, execution: Execution[Any, Out]) -> None:
        assert execution.response is not None, "it is over"
        assert execution.session is not None, "it has one"
        self.response: PromptResponse[Out] = execution.response
        self.session: Session = execution.session
        self.latency_ms = round(execution.duration_s * 1000)
        self._writer = execution.writer

    def write_metadata(self, name: str, data: Mapping[str, Any]) -> None:
        """Add `<name>.json` to the bundle."""
        if self._writer is not None:
            self._writer.add_json(f"{name}.json", dict(data))

    @property
    def bundle_path(self) -> str | None:
        """Where the bundle is; None before the block is left, and if it could not be written."""
        path = None if self._writer is None else self._writer.path
        return None if path is None else str(path)
