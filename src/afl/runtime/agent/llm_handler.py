"""A handler that lets Claude do the task, for any worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.budget import Budget
from afl.agents.model import AsyncModelAdapter, ModelAdapter
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.runtime.agent.briefing import Account, Briefing, LLMHandlerConfig
from afl.runtime.agent.definitions import ToolDefinition
from afl.runtime.agent.registry import ToolRegistry
from afl.runtime.agent.talks import Helper, hold, hold_async
from afl.runtime.dispatch import HandlerContext
from afl.telemetry import TELEMETRY, Telemetry


class BothWays(ModelAdapter, AsyncModelAdapter, Protocol):
    """An adapter for threads and for coroutines."""


A = TypeVar("A", bound=ModelAdapter)


class LLMHandler:
    """Register its `handle`, or its `handle_async`: with that, thousands may wait for answers.

    The model answers with one of `tool_definitions`: the one of the task's facet, if there is one
    of that. Those that `tool_registry` has a handler for are helpers instead, which the model may
    use on the way. Without definitions the result is `{"text": …}`, the words of the answer.
    """

    def __init__(
        self,
        client: Any = None,
        config: LLMHandlerConfig | None = None,
        *,
        tool_definitions: Iterable[ToolDefinition] | None = None,
        tool_registry: ToolRegistry | None = None,
        prompt_template: str | None = None,
        adapter: BothWays | None = None,
        budget: Budget | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._adapter: BothWays = chosen_adapter(client, adapter, budget, clock)
        self._clock = clock
        definitions = list(tool_definitions or ())
        registry = tool_registry or ToolRegistry()
        helping = [each for each in definitions if registry.has_handler(each.facet or each.name)]
        self._briefing = Briefing(
            config or LLMHandlerConfig(),
            [each for each in definitions if each not in helping],
            [_helper(each, registry) for each in helping],
            prompt_template,
        )

    def handle(
        self, payload: Mapping[str, Any], context: HandlerContext | None = None
    ) -> dict[str, Any]:
        talk = self._briefing.talk(payload, context, self._clock)
        account = Account.of(talk, context)
        try:
            return hold(talk, self._adapter, account.tally)
        finally:
            _tell(account, context)

    async def handle_async(
        self, payload: Mapping[str, Any], context: HandlerContext | None = None
    ) -> dict[str, Any]:
        talk = self._briefing.talk(payload, context, self._clock)
        account = Account.of(talk, context)
        try:
            return await hold_async(talk, self._adapter, account.tally)
        finally:
            _tell(account, context)


def chosen_adapter(
    client: Any,
    adapter: A | None,
    budget: Budget | None,
    clock: Clock,
    telemetry: Telemetry = TELEMETRY,
) -> A | AnthropicAdapter:
    """The adapter that was given, or one for the client."""
    if adapter is None:
        return AnthropicAdapter(client, budget=budget, clock=clock, telemetry=telemetry)
    if client is not None or budget is not None:
        raise UsageError("an adapter has its own client and budget; give them to it, not beside it")
    return adapter


def _helper(definition: ToolDefinition, registry: ToolRegistry) -> Helper:
    return Helper(definition.spec, partial(registry.handle, definition.facet or definition.name))


def _tell(account: Account, context: HandlerContext | None) -> None:
    if context is not None:
        context.log(account.message)
