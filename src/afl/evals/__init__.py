"""Evaluations: how good an agent is, measured on samples.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(("Dataset", "DatasetError", "Sample"), "afl.evals.dataset"),
    "Score": "afl.evals.score",
    **dict.fromkeys(
        (
            "Evaluator",
            "SessionEvaluator",
            "adapt",
            "all_of",
            "any_of",
            "contains",
            "exact_match",
            "is_session_aware",
            "matches",
        ),
        "afl.evals.evaluators",
    ),
    **dict.fromkeys(
        (
            "all_tools_succeeded",
            "slice_contains",
            "token_usage_under",
            "tool_call_count",
            "tool_called",
            "tool_not_called",
        ),
        "afl.evals.session_evaluators",
    ),
    "llm_judge": "afl.evals.judge",
    **dict.fromkeys(("EvalRequest", "EvalResult"), "afl.evals.requests"),
    **dict.fromkeys(("MemoryResults", "ResultStore", "open_results"), "afl.evals.results"),
    **dict.fromkeys(("EvalLoop", "EvalLoopConfig"), "afl.evals.loop"),
    **dict.fromkeys(
        ("collect_results", "requests_for", "submit_dataset", "submit_experiments", "unfinished"),
        "afl.evals.submitting",
    ),
    **dict.fromkeys(("EvalReport", "ExperimentComparison", "compare"), "afl.evals.report"),
    **dict.fromkeys(("Interval", "wilson"), "afl.evals.significance"),
    **dict.fromkeys(("BASELINE", "CONTROL", "Experiment"), "afl.agents.experiment"),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.agents.experiment import BASELINE as BASELINE
    from afl.agents.experiment import CONTROL as CONTROL
    from afl.agents.experiment import Experiment as Experiment
    from afl.evals.dataset import Dataset as Dataset
    from afl.evals.dataset import DatasetError as DatasetError
    from afl.evals.dataset import Sample as Sample
    from afl.evals.evaluators import Evaluator as Evaluator
    from afl.evals.evaluators import SessionEvaluator as SessionEvaluator
    from afl.evals.evaluators import adapt as adapt
    from afl.evals.evaluators import all_of as all_of
    from afl.evals.evaluators import any_of as any_of
    from afl.evals.evaluators import contains as contains
    from afl.evals.evaluators import exact_match as exact_match
    from afl.evals.evaluators import is_session_aware as is_session_aware
    from afl.evals.evaluators import matches as matches
    from afl.evals.judge import llm_judge as llm_judge
    from afl.evals.loop import EvalLoop as EvalLoop
    from afl.evals.loop import EvalLoopConfig as EvalLoopConfig
    from afl.evals.report import EvalReport as EvalReport
    from afl.evals.report import ExperimentComparison as ExperimentComparison
    from afl.evals.report import compare as compare
    from afl.evals.requests import EvalRequest as EvalRequest
    from afl.evals.requests import EvalResult as EvalResult
    from afl.evals.results import MemoryResults as MemoryResults
    from afl.evals.results import ResultStore as ResultStore
    from afl.evals.results import open_results as open_results
    from afl.evals.score import Score as Score
    from afl.evals.session_evaluators import all_tools_succeeded as all_tools_succeeded
    from afl.evals.session_evaluators import slice_contains as slice_contains
    from afl.evals.session_evaluators import token_usage_under as token_usage_under
    from afl.evals.session_evaluators import tool_call_count as tool_call_count
    from afl.evals.session_evaluators import tool_called as tool_called
    from afl.evals.session_evaluators import tool_not_called as tool_not_called
    from afl.evals.significance import Interval as Interval
    from afl.evals.significance import wilson as wilson
    from afl.evals.submitting import collect_results as collect_results
    from afl.evals.submitting import requests_for as requests_for
    from afl.evals.submitting import submit_dataset as submit_dataset
    from afl.evals.submitting import submit_experiments as submit_experiments
    from afl.evals.submitting import unfinished as unfinished


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
