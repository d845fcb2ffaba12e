"""Workflows whose steps Claude does, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afl.agents.budget import Budget
from afl.agents.model import DEFAULT_MODEL, ModelAdapter
from afl.agents.tools import Tool, tool_of
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.lang.program import Program
from afl.runtime import starting
from afl.runtime.agent.briefing import Briefing, LLMHandlerConfig, helper_of
from afl.runtime.agent.definitions import tool_definitions
from afl.runtime.agent.llm_handler import chosen_adapter
from afl.runtime.agent.registry import ToolRegistry
from afl.runtime.agent.session import Desk, Session
from afl.runtime.context import require_run
from afl.runtime.entities import RunnerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.own_lists import OWN_LIST, own_task_list
from afl.runtime.persistence import DEFAULT_LEASE_MS, PersistenceAPI
from afl.runtime.results import ExecutionResult
from afl.runtime.types import WorkflowId


class ClaudeAgentRunner:
    """Runs workflows from start to end: one task at a time, each by its handler in
    `tool_registry`, or by Claude where it has none.

    Its runs have a task list of their own, so no worker takes their tasks. All is durable at every
    moment: `resume` goes on with what was stopped, killed, or ran out of its budget. Claude may
    use `tools`, functions with types, on its way to an answer.

    Without `anthropic_client` one is made when it is first needed, as its package does: the key is
    in ANTHROPIC_API_KEY. `adapter` takes any other model.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        persistence: PersistenceAPI,
        *,
        anthropic_client: Any = None,
        model: str = DEFAULT_MODEL,
        system_prompt: str | None = None,
        tool_registry: ToolRegistry | None = None,
        max_dispatches: int = 100,
        max_turns: int = 10,
        max_retries: int = 2,
        max_tokens: int = 4096,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        budget: Budget | None = None,
        adapter: ModelAdapter | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._desk = Desk(
            evaluator,
            persistence,
            chosen_adapter(anthropic_client, adapter, budget, clock, evaluator.telemetry),
            tool_registry or ToolRegistry(),
            max_dispatches,
            lease_ms,
            clock,
        )
        self._config = LLMHandlerConfig(model, system_prompt, max_tokens, max_turns, max_retries)
        made = [each if isinstance(each, Tool) else tool_of(each) for each in tools]
        self._helpers = [helper_of(each) for each in made]
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()

    def run(
        self,
        workflow_ast: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        program_ast: Mapping[str, Any] | Program | None = None,
        *,
        task_description: str | None = None,
        key: str | None = None,
    ) -> ExecutionResult:
        """Start a run and do it until it is over. The same `key` again goes on with the same run.

        A spent budget ends it before that: the result has the error, `success` is False and
        `status` PAUSED. Raises UsageError if Claude is needed and cannot be asked: no package, no
        key; both kinds of run can be resumed.
        """
        program, name = starting.program_of(workflow_ast, program_ast)
        run_id = self._desk.evaluator.submit(
            program, name, inputs, key=key, task_list=own_task_list()
        )
        return self.resume(run_id, task_description=task_description)

    def resume(
        self, workflow_id: WorkflowId, *, task_description: str | None = None
    ) -> ExecutionResult:
        """Go on with a run that was started by `run`, here or elsewhere."""
        run = require_run(self._desk.store, workflow_id)
        if not run.task_list.startswith(OWN_LIST):
            raise UsageError(
                f"the tasks of run {workflow_id} are for the workers of the task list "
                f"'{run.task_list}'; start some, or wait for them"
            )
        if run.is_over:
            return self._desk.evaluator.result(workflow_id)
        session = self._session(run, task_description)
        with self._lock:
            self._sessions.add(session)
        try:
            return session.work()
        finally:
            with self._lock:
                self._sessions.discard(session)

    def request_stop(self) -> None:
        """Let what runs now come to rest: each `run` returns with the status PAUSED once its
        current step has ended. Waits for nothing; safe from any thread."""
        with self._lock:
            sessions = list(self._sessions)
        for each in sessions:
            each.request_stop()

    def _session(self, run: RunnerDefinition, task_description: str | None) -> Session:
        program = self._program_of(run)
        briefing = Briefing(
            self._config,
            list(tool_definitions(program).values()),
            self._helpers,
            workflow=run.workflow.name,
            task=task_description,
        )
        return Session(self._desk, run, program, briefing)

    def _program_of(self, run: RunnerDefinition) -> Program:
        flow = self._desk.store.get_flow(run.workflow.flow_id)
        if flow is None or not flow.program:
            raise UsageError(f"run {run.workflow_id} has no stored program; start it again")
        return Program.from_json(flow.program)
