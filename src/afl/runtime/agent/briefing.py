"""How a model is asked to do steps: with which words, tools and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from afl.agents.model import DEFAULT_MODEL
from afl.agents.tools import Tool
from afl.clock import Clock
from afl.lang import ast
from afl.runtime.agent.definitions import ToolDefinition
from afl.runtime.agent.prompts import fill, parameters_of, usual_prompt, usual_system, with_task
from afl.runtime.agent.talks import Helper, Talk, Tally
from afl.runtime.dispatch import HandlerContext

_NO_PROMPT = ast.PromptBlock()


@dataclass(frozen=True)
class LLMHandlerConfig:
    model: str = DEFAULT_MODEL
    #: What the model is told about its role, unless the prompt of a facet says it.
    system_prompt: str | None = None
    #: Of one answer.
    max_tokens: int = 4096
    #: How often the model may use helpers before it answers.
    max_turns: int = 10
    #: How often it is told that an answer is no good, before the step fails.
    max_retries: int = 2


@dataclass(frozen=True)
class Briefing:
    config: LLMHandlerConfig
    #: Tools whose arguments are the result of a step.
    definitions: Sequence[ToolDefinition] = ()
    helpers: Sequence[Helper] = ()
    #: In place of what facets say.
    prompt_template: str | None = None
    workflow: str = ""
    task: str | None = None

    def talk(
        self, payload: Mapping[str, Any], context: HandlerContext | None, clock: Clock
    ) -> Talk:
        """The talk about one step."""
        facet, values = str(payload.get("_facet_name", "")), parameters_of(payload)
        answers = self._answers(facet)
        prompt = (answers[0].prompt_block if len(answers) == 1 else None) or _NO_PROMPT
        template = self.prompt_template or prompt.template
        system = prompt.system and fill(prompt.system, values)
        return Talk(
            model=prompt.model or self.config.model,
            system=with_task(
                system or self.config.system_prompt or usual_system(self.workflow), self.task
            ),
            prompt=fill(template, values) if template else usual_prompt(facet, values),
            answers={each.name: each for each in answers},
            helpers={each.spec.name: each for each in self.helpers},
            max_tokens=self.config.max_tokens,
            max_turns=self.config.max_turns,
            max_retries=self.config.max_retries,
            time_left=partial(_time_left, context, clock),
            is_cancelled=lambda: context is not None and context.cancelled,
        )

    def _answers(self, facet: str) -> Sequence[ToolDefinition]:
        own = [each for each in self.definitions if facet and each.facet == facet]
        return own or self.definitions


def helper_of(tool: Tool) -> Helper:
    return Helper(tool.spec, tool.call)


def _time_left(context: HandlerContext | None, clock: Clock) -> float | None:
    if context is None or context.deadline is None:
        return None
    return (context.deadline - clock.now()).total_seconds()


@dataclass(frozen=True)
class Account:
    """What a talk used, as people and programs read it."""

    model: str
    tally: Tally

    @classmethod
    def of(cls, talk: Talk, context: HandlerContext | None) -> Account:
        """Of a talk that begins."""
        return cls(talk.model, Tally() if context is None else Tally(on_answer=context.heartbeat))

    @property
    def message(self) -> str:
        usage, calls = self.tally.usage, self.tally.calls
        return (
            f"{self.model}: {calls} {'call' if calls == 1 else 'calls'}, "
            f"{usage.total - usage.output_tokens} tokens in, {usage.output_tokens} out"
        )

    @property
    def details(self) -> dict[str, Any]:
        usage = self.tally.usage
        return {
            "model": self.model,
            "calls": self.tally.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        }
