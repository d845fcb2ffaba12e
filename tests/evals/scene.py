"""An eval loop with its mailboxes, as tests of this folder want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.loops.office import PATIENCE_S, Running

from afl.agents.experiment import BASELINE, Experiment
from afl.agents.prompt import Prompt
from afl.agents.session import Session
from afl.evals import (
    Dataset,
    EvalLoop,
    EvalReport,
    EvalRequest,
    EvalResult,
    MemoryResults,
    Sample,
    collect_results,
    exact_match,
    submit_dataset,
)
from afl.loops import AgentLoop
from afl.mailbox import InMemoryMailbox, Mailbox


def agent_of(function: Callable[..., Any]) -> AgentLoop[Any, Any]:
    return AgentLoop.from_function(function, requests=InMemoryMailbox())


def dataset_of(*inputs: Any) -> Dataset[Any, Any]:
    """Samples that ask for their inputs, and expect them in capitals."""
    return Dataset([Sample(str(each), each, str(each).upper()) for each in inputs])


class Counted:
    """An agent that writes in capitals, fails when told, and counts."""

    def __init__(self, failures: Sequence[Exception] = ()) -> None:
        self.asked: list[Any] = []
        self._failures = list(failures)

    def __call__(self, request: Any) -> Any:
        self.asked.append(request)
        if self._failures:
            raise self._failures.pop(0)
        return str(request).upper()


class Preparing(AgentLoop[str, str]):
    """An agent with prompts, which notes the experiments that it is asked under."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"requests": InMemoryMailbox(), **options})
        self.experiments: list[Experiment | None] = []
        self.sessions: list[Session] = []

    def prepare(
        self, request: str, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        self.experiments.append(experiment)
        self.sessions.append(Session())
        return Prompt(request), self.sessions[-1]


class Scene:
    """`ask` runs an eval loop until a dataset has its results."""

    def __init__(
        self,
        agent: AgentLoop[Any, Any] | Callable[..., Any],
        evaluator: Callable[..., Any] = exact_match,
        *,
        requests: Mailbox[EvalRequest[Any, Any], EvalResult] | None = None,
        replies: Mailbox[EvalResult, Any] | None = None,
        **options: Any,
    ) -> None:
        self.agent = agent if isinstance(agent, AgentLoop) else agent_of(agent)
        self.requests = requests or InMemoryMailbox("requests")
        self.replies = replies or InMemoryMailbox("replies")
        self.results = MemoryResults()
        self.loop = EvalLoop(
            **{
                "loop": self.agent,
                "evaluator": evaluator,
                "requests": self.requests,
                "results": self.results,
                **options,
            }
        )

    def submit(
        self,
        dataset: Dataset[Any, Any],
        experiment: Experiment = BASELINE,
        evaluation_id: str | None = None,
        **options: Any,
    ) -> list[EvalRequest[Any, Any]]:
        return submit_dataset(
            dataset,
            experiment,
            self.requests,
            reply_to=self.replies,
            evaluation_id=evaluation_id,
            **options,
        )

    def ask(self, dataset: Dataset[Any, Any], *arguments: Any, **options: Any) -> EvalReport:
        wanted = self.submit(dataset, *arguments, **options)
        with Running(self.loop):
            return self.collect(len(wanted))

    def collect(self, count: int) -> EvalReport:
        report = collect_results(self.replies, count, timeout_seconds=PATIENCE_S)
        assert not report.missing, f"{report.missing} of {count} results did not come"
        return report
