"""What a command line names: agents, evaluators, datasets and experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from afl.agents.experiment import BASELINE, Experiment
from afl.error_text import with_article
from afl.errors import UsageError
from afl.evals import evaluators
from afl.evals.dataset import Dataset
from afl.evals.evaluators import Evaluator
from afl.loops.agent_loop import AgentLoop
from afl.loops.function_loop import FunctionLoop
from afl.mailbox.memory import InMemoryMailbox
from afl.runtime.loading import make_importable

_NAMED = {
    each.__name__: each
    for each in (evaluators.exact_match, evaluators.contains, evaluators.matches)
}


def named_object(text: str, what: str) -> Any:
    """What `module:name` names, with the working directory to import from. Raises UsageError."""
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"{text!r} names no {what}; expected module:name, such as agent:loop")
    make_importable(Path.cwd())
    try:
        found = import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as problem:
        raise UsageError(
            f"the {what} {text} cannot be loaded: {type(problem).__name__}: {problem}"
        ) from problem
    return found


def load_agent(text: str) -> AgentLoop[Any, Any]:
    """The agent that `module:name` names: an AgentLoop, a class or function without parameters
    that makes one, or a function that answers requests. Raises UsageError."""
    found = named_object(text, "agent")
    if isinstance(found, AgentLoop):
        return found
    if not callable(found):
        raise UsageError(f"{text} is no agent but {_kind(found)}; name an AgentLoop")
    if isinstance(found, type) or not signature(found).parameters:
        found = _made(found, text)
        if isinstance(found, AgentLoop):
            return found
        raise UsageError(f"{text} makes no agent but {_kind(found)}")
    return AgentLoop.from_function(found, requests=InMemoryMailbox(text))


def _kind(found: object) -> str:
    return with_article(type(found).__name__)


def _made(make: Callable[[], Any], text: str) -> Any:
    try:
        return make()
    except Exception as problem:
        raise UsageError(f"{text} cannot make an agent: {problem}") from problem


def load_evaluator(text: str) -> Evaluator:
    """One of the evaluators by its name, or what `module:name` names. Raises UsageError."""
    if ":" not in text:
        if text not in _NAMED:
            known = ", ".join(_NAMED)
            raise UsageError(f"there is no evaluator {text!r}; give {known} or module:name")
        return _NAMED[text]
    found = named_object(text, "evaluator")
    if not callable(found):
        raise UsageError(f"{text} is no evaluator but {_kind(found)}")
    evaluator: Evaluator = found
    return evaluator


def load_dataset(path: str, agent: AgentLoop[Any, Any]) -> Dataset[Any, Any]:
    """The samples of a file, with inputs of the type that the agent says it takes. Raises
    DatasetError, and UsageError if there are none."""
    dataset = Dataset.load(path, _input_type(agent))
    if not len(dataset):
        raise UsageError(f"{path} has no samples")
    return dataset


def _input_type(agent: AgentLoop[Any, Any]) -> Any:
    asked = agent.function if isinstance(agent, FunctionLoop) else agent.prepare
    first = next(iter(signature(asked).parameters), "")
    try:
        found = get_type_hints(asked).get(first, Any)
        msgspec.json.Decoder(found)
    except (NameError, TypeError):  # names only for type checkers, types that JSON cannot hold
        return Any
    return Any if isinstance(found, TypeVar) else found


def experiment_of(text: str) -> Experiment:
    """`NAME`, `NAME@TAG` or either with flags: `terse,max_words=50`. A value is JSON, or else
    text. Raises UsageError."""
    head, *flags = text.split(",")
    name, _, tag = head.partition("@")
    if not name:
        raise UsageError(f"{text!r} is no experiment; expected NAME, NAME@TAG or NAME,FLAG=VALUE")
    experiment = Experiment(name, tag) if tag else Experiment(name)
    for each in flags:
        flag, equals, value = each.partition("=")
        if not (flag and equals):
            raise UsageError(f"{each!r} in {text!r} is no flag; expected FLAG=VALUE")
        experiment = experiment.with_flag(flag, _value(value))
    return experiment


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def load_experiments(texts: Sequence[str], agent: AgentLoop[Any, Any]) -> list[Experiment]:
    """The experiments of a command line; the baseline if it names none. Raises UsageError for
    what cannot make a difference to the agent."""
    experiments = [experiment_of(each) for each in texts] or [BASELINE]
    is_plain = experiments == [Experiment(experiments[0].name)]
    if isinstance(agent, FunctionLoop) and not is_plain:
        raise UsageError(
            f"{agent.name} is a function and sees no experiments; name an AgentLoop whose prepare "
            "looks at them"
        )
    return experiments
