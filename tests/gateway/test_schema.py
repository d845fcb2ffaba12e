"""Whatever is sent, what is answered is what the OpenAPI document says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import cycle
from typing import Any, TypeAlias

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection
from tests.engine.profile import IS_STORM
from tests.gateway.scene import LOOPS, PATIENCE_S, TOKENS, Agent, Scene, running

from afl.gateway import TurnApi
from afl.gateway.openapi import document
from afl.turns import MemoryTurns, TurnSuspended

Case: TypeAlias = schemathesis.Case[Any]

HEADERS = {"authorization": f"Bearer {TOKENS['admin'].secret}"}


@pytest.fixture(scope="module")
def served() -> Iterator[Scene]:
    """With turns in many states."""
    with closing(MemoryTurns()) as store:
        api = TurnApi(store, loops=LOOPS, tokens=list(TOKENS.values()))
        with running(api), closing(Scene(api, store)) as scene:
            yield scene


@pytest.fixture(scope="module")
def ended(served: Scene) -> Iterator[str]:
    """Turns that are over, so that their streams end."""
    done, failed = served.submit(), served.submit()
    agent = Agent(served.store, done)
    agent.says("some ", "words")
    agent.uses("charge", amount=3)
    agent.finishes({"ok": True})
    Agent(served.store, failed).fails("it broke")
    return cycle([done, failed])


@pytest.fixture(scope="module")
def others(served: Scene) -> Iterator[str]:
    waiting, suspended, fresh = (served.submit() for _ in range(3))
    with pytest.raises(TurnSuspended):
        Agent(served.store, waiting).turn.wait_for_input("which?")
    Agent(served.store, suspended).seals()
    return cycle([waiting, suspended, fresh])


schema = schemathesis.openapi.from_dict(document(needs_token=True))


def test_the_document_is_what_is_served(served: Scene) -> None:
    assert served.http().get("/openapi.json").json() == schema.raw_schema


@schema.parametrize()
@settings(
    max_examples=200 if IS_STORM else 6,
    deadline=None,
    derandomize=not IS_STORM,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(
    case: Case, served: Scene, ended: Iterator[str], others: Iterator[str]
) -> None:
    """Half of the turns that are asked for exist."""
    path = case.path_parameters
    if "turn_id" in path and len(str(path["turn_id"])) % 2:
        path["turn_id"] = next(ended if case.path.endswith("/events") else others)
    answer = case.call(served.url, headers=HEADERS, timeout=PATIENCE_S)
    # All of these requests have a good token, whatever the case says, and some another turn.
    case.validate_response(answer, excluded_checks=[ignored_auth, negative_data_rejection])
