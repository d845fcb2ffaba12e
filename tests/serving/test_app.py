"""What a service does is said in a file, and nothing is opened by that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

import afl
from afl.agents.adapters.scripted import ScriptedAdapter
from afl.errors import ConfigurationError, UsageError
from afl.loops import AgentLoop, Experiment, Prompt, Session, Turn
from afl.serving import App

T = TypeVar("T")


@dataclass
class Question:
    text: str


class Opaque:
    """Nothing that JSON could be."""


class Clerk(AgentLoop[Question, str]):
    def prepare(
        self, request: Question, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        return Prompt(request.text), Session()


class LateClerk(Clerk):
    """Says nothing about its requests itself."""


class AnyClerk(AgentLoop[T, str]):
    def prepare(
        self, request: T, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        return Prompt(str(request)), Session()


def typed(request: Question, turn: Turn) -> str:
    return request.text


def untyped(request):  # type: ignore[no-untyped-def]
    return request


def opaque(request: Opaque) -> None:
    """Its annotation is of no use."""


def test_app_is_a_name_of_the_package() -> None:
    assert afl.App is App


def test_a_decorated_function_stays_as_it_is() -> None:
    app = App()
    assert app.agent("support")(typed) is typed
    assert app.warmup(test_app_is_a_name_of_the_package) is test_app_is_a_name_of_the_package


def test_an_agent_is_called_like_its_function_unless_it_has_a_name() -> None:
    app = App()
    app.agent()(typed)
    app.agent("other")(typed)
    assert [each.name for each in app.agents] == ["typed", "other"]


@pytest.mark.parametrize(
    ("function", "kind"), [(typed, Question), (untyped, Any), (opaque, Any), (lambda: None, Any)]
)
def test_what_requests_are_is_read_from_the_function(function: Any, kind: Any) -> None:
    app = App()
    app.agent("agent")(function)
    assert app.agents[0].request_type is kind


@pytest.mark.parametrize(
    ("loop", "kind"), [(Clerk, Question), (LateClerk, Question), (AnyClerk, Any)]
)
def test_what_requests_are_is_read_from_the_class(loop: Any, kind: Any) -> None:
    app = App()
    app.agent_loop("agent", loop, adapter=ScriptedAdapter())
    assert app.agents[0].request_type is kind


def test_who_says_what_requests_are_is_believed() -> None:
    app = App()
    app.agent("agent", request_type=int)(typed)
    app.agent_loop("made", lambda **parts: Clerk(**parts), request_type=Question)
    assert [each.request_type for each in app.agents] == [int, Question]


def test_requests_that_cannot_be_json_are_refused() -> None:
    with pytest.raises(UsageError, match=r"requests of agent cannot be .*Opaque"):
        App().agent("agent", request_type=Opaque)(typed)


def test_who_forgets_the_parentheses_is_told_so() -> None:
    with pytest.raises(UsageError, match="with parentheses"):
        App().agent(lambda request: request)  # type: ignore[arg-type]


def test_two_agents_of_one_name_are_refused() -> None:
    app = App()
    app.agent("support")(typed)
    with pytest.raises(UsageError, match="two agents of the app are called 'support'"):
        app.agent_loop("support", Clerk)


def test_an_agent_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="is no name of an agent"):
        App().agent_loop(" ", Clerk)


def test_a_worker_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="concurrency is 0; expected 1 or more"):
        App().worker(concurrency=0)


def test_an_option_that_there_is_not_is_named() -> None:
    options: Any = {"concurency": 3}
    with pytest.raises(UsageError, match="no concurency; it has concurrency"):
        App().agent("support", **options)(typed)


def test_two_dependencies_of_one_name_are_refused() -> None:
    app = App()
    app.dependency("shop", lambda: True)
    with pytest.raises(UsageError, match="two dependencies of the app are called 'shop'"):
        app.dependency("shop", "http://127.0.0.1:1/")


def test_a_dependency_may_be_an_address() -> None:
    app = App()
    app.dependency("shop", "http://127.0.0.1:1/", timeout=0.5)
    (shop,) = app.dependencies
    assert (shop.name, shop.timeout) == ("shop", 0.5)
    with pytest.raises(OSError, match="refused"):
        shop.check()
    with pytest.raises(ConfigurationError, match="is no address to check"):
        app.dependency("other", "shop:8100")
