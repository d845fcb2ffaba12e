"""A deploy in the middle of a turn: SIGTERM, a checkpoint within the deadline, exit 0, and another
process that goes on; or SIGKILL, and another process that goes on all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from tests.contracts.remote_turns import SERVERS, emptied
from tests.engine.profile import IS_STORM
from tests.loops.office import PATIENCE_S, eventually
from tests.turns.agent import PLAN
from tests.turns.world import World

from afl.ids import new_id
from afl.loops import AgentLoopRequest, AgentLoopResult, TurnStatus
from afl.mailbox import Mailbox, open_mailbox
from afl.turns import Kind, Tokens, TurnRecord, TurnState, TurnStore, checkpoint, open_turns

_ROOT = Path(__file__).parents[2]


class Process:
    """Runs from the beginning of a `with`; is killed at its end, if it still runs."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.turns.shop_process", *map(str, arguments)]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_for(self, line: str) -> None:
        assert self._process.stdout is not None
        for said in self._process.stdout:
            if said.strip() == line:
                return
        raise AssertionError(f"it never said {line!r}")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, list[str]]:
        """Its exit code, and what it said last."""
        said, _ = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, said.splitlines()


class Shopping:
    """One request to the shop, and the processes that may do it."""

    def __init__(
        self, url: str, place: str, model_port: int, tools_port: int, opened: ExitStack
    ) -> None:
        self.url = url
        self._place = place
        self.turn = new_id()
        self._ports = (model_port, tools_port)
        requests = self._open(opened, "requests", AgentLoopRequest[str])
        self.replies = self._open(opened, "replies", AgentLoopResult[Any])
        self.store: TurnStore = opened.enter_context(closing(open_turns(place)))
        self.tools = opened.enter_context(closing(World(tools_port)))
        self.model = opened.enter_context(closing(World(model_port)))
        request = AgentLoopRequest("sell the lamp", request_id=self.turn)
        requests.send(request, reply_to=self.replies)

    def _open(self, opened: ExitStack, name: str, kind: Any) -> Mailbox[Any, Any]:
        return opened.enter_context(closing(open_mailbox(self.url, name, body_type=kind)))

    def process(self, manner: str) -> Process:
        return Process(self.url, self._place, self.turn, *self._ports, manner)

    @property
    def record(self) -> TurnRecord:
        (record,) = self.store.list()
        return record

    def reply(self) -> AgentLoopResult[Any]:
        (message,) = self.replies.receive(wait_time_seconds=PATIENCE_S)
        message.acknowledge()
        body: AgentLoopResult[Any] = message.body
        return body

    def finish_elsewhere(self) -> None:
        with self.process("quick") as successor:
            end = self.reply()
            successor.signal(signal.SIGTERM)
            assert successor.end()[0] == 0
        assert (end.status, end.request_id) == (TurnStatus.DONE, self.turn)
        self.check_end()

    def check_end(self) -> None:
        assert self.record.state is TurnState.DONE
        ledger = [tuple(each) for each in self.tools.ask("ledger", turn=self.turn)]
        assert ledger == PLAN
        assert self.model.ask("calls", turn=self.turn) == len(PLAN) + 1


@pytest.fixture(params=["sqlite", *SERVERS] if IS_STORM else ["sqlite"])
def shopping(
    folder: Path, model_port: int, tools_port: int, request: pytest.FixtureRequest
) -> Iterator[Shopping]:
    """Mailboxes in a file; and turns there too, or on a server."""
    url = place = f"sqlite:///{folder}/afl.db"
    if request.param in SERVERS:
        place = emptied(request)
    with ExitStack() as opened:
        yield Shopping(url, place, model_port, tools_port, opened)


@pytest.mark.parametrize(("manner", "moment"), [("slow", "did charge"), ("hangs", "did ship")])
def test_a_long_turn_is_checkpointed_within_the_deadline_and_goes_on_elsewhere(
    shopping: Shopping, manner: str, moment: str
) -> None:
    """At a boundary; and in the middle of a tool that never comes back."""
    with shopping.process(manner) as process:
        process.wait_for(moment)
        process.signal(signal.SIGTERM)
        code, said = process.end()
    record = shopping.record
    status = shopping.reply()
    assert code == 0
    assert said[-2:] == [f"checkpointed {record.id}", "down"]
    assert (record.state, status.status) == (TurnState.SUSPENDED, TurnStatus.SUSPENDED)
    tokens = Tokens([shopping.store.secret()])
    assert tokens.turn_id(status.resume_token or "") == record.id
    shopping.finish_elsewhere()


def test_a_checkpoint_has_what_a_person_wants_to_know(shopping: Shopping) -> None:
    with shopping.process("hangs") as process:
        process.wait_for("did ship")
        process.signal(signal.SIGTERM)
        process.end()
    assert shopping.reply().status is TurnStatus.SUSPENDED
    shown = checkpoint(shopping.store, shopping.record.id)
    assert shown["request"]["request"] == "sell the lamp"
    assert [each["name"] for each in shown["tool_results"]] == [name for name, _ in PLAN[:-1]]
    (pending,) = shown["pending"]
    assert (pending["name"], pending["arguments"]) == PLAN[-1]
    receipt = shopping.tools.ask("find", key=pending["idempotency_key"])
    assert receipt is not None, "the server knows it under this key"
    assert shown["trace"][-1]["kind"] == Kind.SEAL
    shopping.finish_elsewhere()


@pytest.mark.parametrize("shopping", ["sqlite", *SERVERS], indirect=True)
def test_a_turn_is_handed_over_to_a_process_that_is_ready(shopping: Shopping) -> None:
    """Long before the deadline, and without a word to whoever waits."""
    with shopping.process("patient") as process:
        process.wait_for("did charge")
        with shopping.process("quick") as successor:
            eventually(lambda: len(shopping.store.takers("shop")) == 2)
            process.signal(signal.SIGTERM)
            end = shopping.reply()
            code, said = process.end()
            successor.signal(signal.SIGTERM)
            assert successor.end()[0] == 0
    assert (code, said[-2:]) == (0, [f"handed_over {shopping.record.id}", "down"])
    assert (end.status, end.request_id) == (TurnStatus.DONE, shopping.turn)
    shopping.check_end()
    assert shopping.replies.approximate_count() == 0
    entries = shopping.store.read(shopping.record.id)
    assert [each.kind for each in entries].count(Kind.HANDED_OVER) == 1
    assert Kind.SEAL not in [each.kind for each in entries]


def test_a_turn_of_a_killed_process_goes_on_elsewhere(shopping: Shopping) -> None:
    with shopping.process("hangs") as process:
        process.wait_for("did ship")
        process.signal(signal.SIGKILL)
        assert process.end()[0] == -signal.SIGKILL
    shopping.finish_elsewhere()
