"""Whatever is sent to the API, what is answered is what its OpenAPI document says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)
from tests.dashboard.conftest import (
    OPERATOR,
    PATIENCE_S,
    Site,
    dead_letter,
    opened,
    waiting_turns,
)
from tests.engine.profile import IS_STORM

from afl.dashboard.api import document
from afl.dashboard.routes import ACTS, LOOKS
from afl.operations.handlers import NewHandler, add
from afl.runtime.entities import ServerDefinition, ServerState
from afl.runtime.types import StepId, WorkflowId

Case: TypeAlias = schemathesis.Case[Any]

HEADERS = {"authorization": f"Bearer {OPERATOR}"}


class Rich:
    """A store with something of everything."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._number = 0

    def known(self, name: str, operation: str) -> str:
        """Something that exists, and with which the operation can be done."""
        self._number += 1
        if name in ("run", "step", "task"):
            return self._run(name, operation)
        if name == "facet":
            module = self.site.folder / "greet.py"
            module.write_text("def handle(payload): ...")
            add(self.site.store, NewHandler("t.Greet", str(module)))
            return "t.Greet"
        if name == "turn":
            asks, doubts = waiting_turns(self.site.mailboxes, f"number {self._number}")
            return doubts if operation == "settle_effect" else asks
        if name == "mailbox":
            dead_letter(self.site.mailboxes, "orders", "lost")
            return "orders"
        return self._server()

    def _run(self, name: str, operation: str) -> str:
        run = self.site.submit()
        (task,) = self.site.store.get_tasks_by_runner(run)
        if operation.startswith("retry"):
            self.site.evaluator.fail_step(StepId(task.step_id), "no luck")
        if operation == "unpause_run":
            self.site.evaluator.pause(WorkflowId(run))
        return {"run": run, "step": task.step_id, "task": task.uuid}[name]

    def _server(self) -> str:
        store, now = self.site.store, self.site.store.now_ms()
        store.save_server(
            ServerDefinition(
                uuid="a-server",
                server_group="g",
                service_name="s",
                server_name="n",
                state=ServerState.RUNNING,
                start_time=now,
                ping_time=now,
            )
        )
        return "a-server"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rich]:
    folder: Path = tmp_path_factory.mktemp("rich")
    with opened(folder) as site:
        yield Rich(site)


schema = schemathesis.openapi.from_dict(document())


def test_the_document_is_what_is_served(rich: Rich) -> None:
    with closing(rich.site.api()) as client:
        served = client.get("/api/openapi.json").json()
    assert served.pop("servers") == [{"url": "/api"}]
    assert served == msgspec.json.decode(msgspec.json.encode(document()))


@schema.parametrize()
@settings(
    max_examples=100 if IS_STORM else 3,
    deadline=None,
    derandomize=not IS_STORM,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case: Case, rich: Rich) -> None:
    answer = case.call(f"{rich.site.url}/api", headers=HEADERS, timeout=PATIENCE_S)
    # All of these requests have a good token, and what they name need not be there.
    left_out = [ignored_auth, negative_data_rejection, positive_data_acceptance]
    case.validate_response(answer, excluded_checks=left_out)


#: What a change needs to be possible.
_BODIES: dict[str, Any] = {
    "submit_run": {"workflow": "t.Hello", "inputs": {"name": "Ada"}},
    "add_handler": {"facet": "t.Greet", "module": "greet"},
    "answer_turn": {"answer": "red"},
    "settle_effect": {"outcome": "done"},
}


def test_everything_can_be_done(rich: Rich) -> None:
    """With what exists, every operation answers with 200, in the form of the document."""
    operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    assert len(operations) == len(LOOKS) + len(ACTS)
    for each in operations:
        name = each.definition.raw["operationId"]
        parts = [part.name for part in each.path_parameters]
        known = {part: rich.known(part, name) for part in parts}
        if name == "retry_step":
            task = rich.site.store.get_task(rich.known("task", name))
            assert task is not None
            known = {"run": task.workflow_id, "step": task.step_id}
        case = each.Case(path_parameters=known)
        if case.method == "POST":
            case.body, case.media_type = _BODIES.get(name, {}), "application/json"
        answer = case.call_and_validate(
            f"{rich.site.url}/api",
            headers=HEADERS,
            timeout=PATIENCE_S,
            excluded_checks=[ignored_auth],
        )
        assert answer.status_code == 200, (name, answer.text)
