"""Agents as loops: each request becomes a prompt and a session, a model answers, the answer is
the reply."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from afl import telemetry
from afl.agents.calling import AnyAdapter, Blocking, Calling, Waiting, run_blocking
from afl.agents.deadline import Deadline, earliest
from afl.agents.evaluation import PromptResponse, Terms, evaluate
from afl.agents.experiment import Experiment
from afl.agents.listening import Listener, quick, together
from afl.agents.model import AsyncModelAdapter, ModelAdapter
from afl.agents.prompt import Prompt
from afl.agents.recording import PLAIN_RECORDER, TurnRecorder, TurnSuspended
from afl.agents.session import Session
from afl.agents.turn_budget import TurnBudget
from afl.clock import SYSTEM_CLOCK, Clock
from afl.error_text import text_of
from afl.errors import UsageError
from afl.log import redact
from afl.loops.bundle_config import BundleConfig, chosen_bundle
from afl.loops.durable import Durability
from afl.loops.durable_front import DurableFront, LoopFacts
from afl.loops.durable_recorder import JournalRecorder
from afl.loops.execution import BundleContext, Execution, Order, TurnFacts
from afl.loops.loop import MailboxLoop
from afl.loops.mailbox_source import LEASE_S
from afl.loops.requests import (
    AgentLoopConfig,
    AgentLoopRequest,
    AgentLoopResult,
    RunContext,
    TurnStatus,
    context_of,
    request_of,
)
from afl.loops.turn import Turn, inner_turn
from afl.mailbox.api import Mailbox, Message
from afl.mailbox.failure import DLQPolicy
from afl.turns.api import TurnStore

Request = TypeVar("Request")
Output = TypeVar("Output")

#: So many turns may block a thread each; more of them wait on the event loop, if they can.
_MOST_THREADS = 64


class Beats(Protocol):
    """A `Heartbeat`, or a `Turn`."""

    def beat(self) -> None: ...


class AgentLoop(
    MailboxLoop[AgentLoopRequest[Request], AgentLoopResult[Output]], Generic[Request, Output]
):
    """Say in `prepare` what the model is told about a request. `from_function` needs no prompt.

    `adapter` answers prompts. Turns block a thread each; they wait on the event loop that all
    share if the adapter is only asynchronous, or if more than 64 may go on at once.
    """

    def __init__(
        self,
        *,
        adapter: AnyAdapter | None,
        requests: Mailbox[AgentLoopRequest[Request], AgentLoopResult[Output]],
        responses: Mailbox[AgentLoopResult[Output], Any] | None = None,
        config: AgentLoopConfig | None = None,
        worker_id: str | None = None,
        dlq: DLQPolicy[AgentLoopRequest[Request]] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        concurrency: int = 1,
        name: str | None = None,
        lease_s: float = LEASE_S,
        turns: TurnStore | Durability | None = None,
    ) -> None:
        super().__init__(
            requests=requests,
            responses=responses,
            dlq=dlq,
            worker_id=worker_id,
            concurrency=concurrency,
            name=name,
            lease_s=lease_s,
            clock=clock,
        )
        if adapter is not None and not isinstance(adapter, ModelAdapter | AsyncModelAdapter):
            raise UsageError(f"{adapter!r} is no adapter: it has neither answer nor answer_async")
        self.config = config or AgentLoopConfig()
        self._adapter = adapter
        self._durable = None if turns is None else self._durable_turns(turns)

    def _durable_turns(self, turns: TurnStore | Durability) -> DurableFront:
        options = turns if isinstance(turns, Durability) else Durability(turns)
        loop = LoopFacts(
            self.name,
            self.worker_id,
            self._requests,
            self._responses,
            self._lease_s,
            self._clock,
            self.failure,
        )
        return DurableFront(options, loop)

    @staticmethod
    def from_function(
        function: Callable[..., Any],
        *,
        requests: Mailbox[Any, Any],
        responses: Mailbox[Any, Any] | None = None,
        config: AgentLoopConfig | None = None,
        worker_id: str | None = None,
        dlq: DLQPolicy[Any] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        concurrency: int = 1,
        name: str | None = None,
        lease_s: float = LEASE_S,
        turns: TurnStore | Durability | None = None,
    ) -> AgentLoop[Any, Any]:
        """A loop that calls a function with each request; what it returns is the output.

        A second parameter gets the `Turn`. A coroutine function waits on the shared event loop.
        """
        from afl.loops.function_loop import FunctionLoop

        return FunctionLoop(
            function,
            requests=requests,
            responses=responses,
            config=config,
            worker_id=worker_id,
            dlq=dlq,
            clock=clock,
            concurrency=concurrency,
            name=name,
            lease_s=lease_s,
            turns=turns,
        )

    # What subclasses say

    @abstractmethod
    def prepare(
        self, request: Request, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[Output], Session]:
        """What the model is told, and where is kept what happens."""

    def finalize(
        self,
        prompt: Prompt[Output],  # noqa: ARG002 - for subclasses
        session: Session,  # noqa: ARG002 - for subclasses
        output: Output | None,
    ) -> Output | None:
        """The output to reply with; the prompt still has its resources."""
        return output

    def recorder_for(self, context: RunContext) -> TurnRecorder:  # noqa: ARG002 - for subclasses
        """Through whom models and tools are called in a turn."""
        return PLAIN_RECORDER

    def listener_for(self, context: RunContext) -> Listener | None:  # noqa: ARG002 - for subclasses
        """Who hears the words of the model as they come, if the adapter can stream. A plain
        function cannot take words back: once it has heard some, an answer that breaks off fails.
        A `QuickListener` can, and the answer is asked for again."""
        return None

    async def respond(
        self,
        order: Order[Request],
        prompt: Prompt[Output],
        session: Session,
        calling: Calling,
    ) -> PromptResponse[Output]:
        """Let the adapter answer a prompt."""
        turn = order.turn
        terms = Terms(
            self.config.model,
            order.budget,
            turn.deadline,
            self._recorder(order, prompt),
            self._listener(order),
            self.config.max_tool_rounds,
            is_cancelled=turn.cancellation.is_set,
            on_progress=turn.beat,
            clock=self._clock,
        )
        return await evaluate(prompt, session, calling, terms)

    def _recorder(self, order: Order[Request], prompt: Prompt[Output]) -> TurnRecorder:
        journal = order.turn.journal
        if journal is None:
            return self.recorder_for(order.context)
        return JournalRecorder(journal, prompt, order.budget)

    def _listener(self, order: Order[Request]) -> Listener | None:
        given, journal = self.listener_for(order.context), order.turn.journal
        if journal is None or self._durable is None or not self._durable.is_streaming:
            return given
        return together(given, quick(journal.hear, journal.hear_again))

    # Without a mailbox

    def execute(
        self,
        request: Request,
        *,
        budget: TurnBudget | None = None,
        deadline: Deadline | None = None,
        resources: Mapping[str, Any] | None = None,
        heartbeat: Beats | None = None,
        experiment: Experiment | None = None,
    ) -> tuple[PromptResponse[Output], Session]:
        """One turn on this thread. Any number of them may go on at once, also beside `run`.

        Raises what `prepare`, the adapter and `finalize` raise, BudgetExceeded, DeadlineExceeded.
        """
        order = self._order(request, budget, deadline, resources, heartbeat, experiment)
        execution = Execution(self, order, self._blocking, self._clock)
        response = run_blocking(execution.perform())
        assert execution.session is not None, "it has one if nothing was raised"
        return response, execution.session

    @contextmanager
    def execute_with_bundle(
        self,
        request: Request,
        *,
        bundle_target: str,
        bundle_config: BundleConfig | None = None,
        budget: TurnBudget | None = None,
        deadline: Deadline | None = None,
        resources: Mapping[str, Any] | None = None,
        heartbeat: Beats | None = None,
        experiment: Experiment | None = None,
    ) -> Iterator[BundleContext[Output]]:
        """Like `execute`, with a bundle in the folder `bundle_target`, written at the end of the
        block. The prompt keeps its resources as long."""
        bundle = replace(bundle_config or BundleConfig(), target=str(bundle_target))
        order = self._order(request, budget, deadline, resources, heartbeat, experiment, bundle)
        execution = Execution(self, order, self._blocking, self._clock)
        error: BaseException | None = None
        try:
            run_blocking(execution.run())
            yield BundleContext(execution)
        except BaseException as problem:
            error = problem
            raise
        finally:
            run_blocking(execution.close(error))

    def _order(
        self,
        request: Request,
        budget: TurnBudget | None,
        deadline: Deadline | None,
        resources: Mapping[str, Any] | None,
        heartbeat: Beats | None,
        experiment: Experiment | None,
        bundle: BundleConfig | None = None,
    ) -> Order[Request]:
        asked = AgentLoopRequest(request, budget, deadline, resources, experiment=experiment)
        beat = (lambda: None) if heartbeat is None else heartbeat.beat
        turn = inner_turn(self._deadline(asked), self._resources(asked), beat)
        context = RunContext(
            request_id=asked.request_id, attempt=turn.attempt, worker_id=self.worker_id
        )
        return Order(asked, context, turn, self._budget(asked).opened(self.config.prices), bundle)

    # Messages

    @property
    def is_async(self) -> bool:
        if isinstance(self._adapter, ModelAdapter) and self._concurrency <= _MOST_THREADS:
            return False
        return isinstance(self._adapter, AsyncModelAdapter)

    def deadline_of(
        self, message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]]
    ) -> Deadline | None:
        return self._deadline(request_of(message))

    def incoming(self) -> Mailbox[AgentLoopRequest[Request], AgentLoopResult[Output]]:
        return self._requests if self._durable is None else self._durable.mailbox

    def work(self, stop: threading.Event, **options: Any) -> None:
        with ExitStack() as around:
            if self._durable is not None:
                around.enter_context(self._durable.watching(self.look))
                # Who makes some polls only is nobody to rely on.
                if options.get("max_iterations") is None:
                    around.enter_context(self._durable.handing_over(stop))
            super().work(stop, **options)

    @property
    def unready_reason(self) -> str | None:
        # Turns of the store may come all the same, so the consumer does not know of it.
        outage = None if self._durable is None else self._durable.mailbox.outage
        return super().unready_reason or outage

    def look(self) -> None:
        """Look for work now. From any thread."""
        if self._consumer is not None:
            self._consumer.notify()

    def checkpoint(self) -> None:
        """The time of a drain is over: leave each turn at its next boundary if that comes soon,
        and take it from whoever does it if not; give back the rest, and let the run end."""
        if self._durable is not None:
            # First: what is given back now is for others.
            self._stop_claiming()
            self._durable.suspend_all()
        super().checkpoint()

    def handle(
        self, message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]], turn: Turn
    ) -> AgentLoopResult[Output] | None:
        return run_blocking(self._answer(message, turn, self._blocking))

    async def handle_async(
        self, message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]], turn: Turn
    ) -> AgentLoopResult[Output] | None:
        from afl.loops.aside import on_thread  # asyncio is large, and many do without it

        return await self._answer(message, turn, Waiting(self._adapter, on_thread))

    async def _answer(
        self,
        message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]],
        turn: Turn,
        calling: Calling,
    ) -> AgentLoopResult[Output] | None:
        if self._durable is None:
            return await self._perform(message, calling, turn)
        self._durable.remember(message)
        perform = partial(self._perform, message, calling)
        return await self._durable.turns.answer(message, turn, calling, perform)

    async def _perform(
        self,
        message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]],
        calling: Calling,
        turn: Turn,
    ) -> AgentLoopResult[Output]:
        request = request_of(message)
        context = context_of(message, self.worker_id)
        order = Order(
            request,
            context,
            replace(turn, resources=self._resources(request)),
            self._budget(request).opened(self.config.prices),
            chosen_bundle(request.debug_bundle, self.config.debug_bundle),
        )
        execution = Execution(self, order, calling, self._clock)
        try:
            response = await execution.perform()
        except BaseException as error:
            self._tell(execution, context, error)
            raise
        self._tell(execution, context)
        facts = execution.facts
        return AgentLoopResult(
            context.request_id,
            response.output,
            session_id=facts.session_id,
            run_context=replace(context, session_id=facts.session_id),
            completed_at=self._clock.now(),
            bundle_path=facts.bundle_path,
        )

    def failure(
        self,
        message: Message[AgentLoopRequest[Request], AgentLoopResult[Output]],
        error: BaseException,
        reason: str,
    ) -> AgentLoopResult[Output]:
        if self._durable is not None:
            self._durable.turns.failed(message, error, redact(reason))
        context, facts = context_of(message, self.worker_id), TurnFacts.of(error)
        return AgentLoopResult(
            context.request_id,
            error=redact(reason),
            session_id=facts.session_id,
            run_context=replace(context, session_id=facts.session_id),
            completed_at=self._clock.now(),
            bundle_path=facts.bundle_path,
            status=_status_of(error),
            resume_token=error.resume_token if isinstance(error, TurnSuspended) else None,
        )

    def _tell(
        self,
        execution: Execution[Request, Output],
        context: RunContext,
        error: BaseException | None = None,
    ) -> None:
        telemetry.emit(
            telemetry.TurnEnded(
                at=self._clock.now(),
                loop=self.name,
                request=context.request_id,
                attempt=context.attempt,
                status=_status_of(error),
                error=None if error is None else text_of(error),
                duration_s=execution.duration_s,
            )
        )

    # What holds for a request

    @property
    def _blocking(self) -> Calling:
        return Blocking(self._adapter, run_shared)

    def _budget(self, request: AgentLoopRequest[Request]) -> TurnBudget:
        return request.budget or self.config.budget or TurnBudget()

    def _deadline(self, request: AgentLoopRequest[Request]) -> Deadline | None:
        seconds = self._budget(request).max_seconds
        limit = None if seconds is None else Deadline.after(seconds, clock=self._clock)
        return earliest(request.deadline, limit)

    def _resources(self, request: AgentLoopRequest[Request]) -> dict[str, Any]:
        return {**(self.config.resources or {}), **(request.resources or {})}


def run_shared(awaitable: Awaitable[Any]) -> Any:
    """Await it on the event loop that all share, and wait for it on this thread."""
    from afl.work.event_loop import shared_loop  # asyncio is large, and many do without it

    context = copy_context()

    async def within() -> Any:
        # It is part of the same turn there.
        for variable, value in context.items():
            variable.set(value)
        return await awaitable

    return shared_loop().run(within())


def _status_of(error: BaseException | None) -> TurnStatus:
    if error is None:
        return TurnStatus.DONE
    return TurnStatus.SUSPENDED if isinstance(error, TurnSuspended) else TurnStatus.FAILED


#: As it was called before.
MainLoop = AgentLoop
