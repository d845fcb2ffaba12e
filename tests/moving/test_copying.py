"""`afl store copy`: everything comes over once, and goes on there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.profile import IS_STORM
from tests.moving.conftest import NewPlace
from tests.moving.killed import LEASE_MS
from tests.moving.warehouse import (
    check_messages,
    copied,
    fill,
    fill_messages,
    fill_turns,
    shop_at,
)

from afl.bootstrap import open_store
from afl.errors import Conflict, UsageError
from afl.mailbox import open_mailbox
from afl.mailbox.moving import messages_at
from afl.operations import runs
from afl.operations.copying import CopyReport, Differs
from afl.runtime.entities import (
    PublishedSource,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskState,
)
from afl.runtime.persistence import Claim
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import new_run, new_task
from afl.turns import NewTurn, open_idempotency, open_turns
from afl.turns.stored import StoredTurns

ROOT = Path(__file__).parent.parent.parent
#: Each kind comes to each other kind; by way of a third one unless there is time.
PAIRS = [("sqlite", "postgres"), ("postgres", "mongo"), ("mongo", "sqlite")]
if IS_STORM:
    PAIRS += [(target, source) for source, target in PAIRS]
_PATIENCE_S = 120


def digests(report: CopyReport) -> dict[str, str]:
    return {each.kind: each.digest for each in report.parts}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_runs_go_on_at_the_destination_with_the_same_keys(
    source: str, target: str, new_place: NewPlace
) -> None:
    here, there = new_place(source), new_place(target)
    made = fill(here)
    report = copied(here, there)
    assert {each.kind: each.records for each in report.parts if each.records} == {
        **dict.fromkeys(("flow", "workflow", "source", "handler", "event"), 1),
        **dict(zip(("run", "step", "task", "log line"), (5, 22, 7, 2), strict=True)),
    }
    with shop_at(here) as old, shop_at(there) as new:
        for run_id in map(WorkflowId, made.values()):
            found, wanted = (each.store.get_steps_by_workflow(run_id) for each in (new, old))
            assert [each.id for each in found] == [each.id for each in wanted]
        assert new.outputs(made["cup"]) == old.outputs(made["cup"])
        assert (
            runs.status(new.store, made["pot"]).error == runs.status(old.store, made["pot"]).error
        )
        # What waited longest is done first, and what a dead worker had is its again.
        keys = [new.do("shop.Pay"), new.do("shop.Pay"), *(new.do("shop.Ship") for _ in range(3))]
        assert keys[:2] == [old.do("shop.Pay"), old.do("shop.Pay")]
        for item in ("pan", "jug", "mug"):
            assert new.outputs(made[item]) == {"parcel": f"parcel of receipt of {item}"}
            assert runs.status(new.store, made[item]).state == RunnerState.COMPLETED


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_tasks_that_are_done_come_over_whatever_they_belong_to(
    source: str, target: str, new_place: NewPlace
) -> None:
    here, there = new_place(source), new_place(target)
    done = {
        "first": {"runner_id": "record 1", "workflow_id": "run"},
        "second": {"runner_id": "record 2", "workflow_id": "run"},
        "of none": {"runner_id": "", "workflow_id": ""},
        "of one that is gone": {"runner_id": "gone", "workflow_id": "gone"},
        "of another run": {"runner_id": "record 1", "workflow_id": "gone"},
    }
    with closing(open_store(here)) as store:
        for each in ("record 1", "record 2"):
            store.save_runner(new_run(uuid=each, workflow_id="run", state=RunnerState.COMPLETED))
        for name, ids in done.items():
            store.save_task(new_task(uuid=name, step_id="", state=TaskState.COMPLETED, **ids))
    parts = {each.kind: each.records for each in copied(here, there).parts}
    assert parts["task"] == len(done)
    with closing(open_store(there)) as store:
        assert {each.uuid for each in store.get_all_tasks()} == done.keys()


def test_a_claim_stays_behind_and_its_delivery_counts(new_place: NewPlace) -> None:
    here, there = new_place("sqlite"), new_place("sqlite")
    made = fill(here)
    copied(here, there)
    with shop_at(here) as old, shop_at(there) as new:
        [claimed] = old.store.get_tasks_by_state(TaskState.RUNNING)
        task = new.store.get_task(claimed.uuid)
        assert task is not None
        assert (task.workflow_id, task.state, task.owner) == (made["pan"], TaskState.PENDING, "")
        assert task.deliveries == 1
        assert task.fence > claimed.fence
        assert not new.store.release_task(Claim(claimed.uuid, claimed.fence))
        assert new.claim("shop.Pay").deliveries == 2


@pytest.mark.parametrize("target", ["postgres", "sqlite"] if IS_STORM else ["postgres"])
def test_messages_and_keys_come_over_where_they_can_be_kept(
    target: str, new_place: NewPlace
) -> None:
    here, there = new_place("sqlite"), new_place(target)
    fill_messages(here)
    report = copied(here, there)
    assert {each.kind: each.records for each in report.parts if each.records} == {
        "message": 2,
        "dead letter": 1,
        "idempotency key": 1,
    }
    check_messages(there)


def test_turns_come_over_with_journals_streams_and_the_secret(new_place: NewPlace) -> None:
    here, there = new_place("sqlite"), new_place("sqlite")
    made = fill_turns(here)
    copied(here, there)
    with closing(open_turns(here)) as old, closing(open_turns(there)) as new:
        assert isinstance(old, StoredTurns)
        assert isinstance(new, StoredTurns)
        assert new.secret() == old.secret()
        assert new.size() == old.size()
        for each in made:
            assert new.whole(each) == old.whole(each)
            assert new.read(each) == old.read(each)
        again = new.begin(made[1], "bob", 30_000)
        assert again.attempt == 2
        # Values go with the last turn that needs them.
        new.cancel(made[1], "enough")
        assert new.prune(new.now_ms() + 1) == 2
        assert new.size().values == 0


def kills() -> list[int]:
    return list(range(1, 60, 3)) if IS_STORM else [14]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", ["sqlite", "postgres", "mongo"] if IS_STORM else ["sqlite"])
def test_a_copy_that_is_killed_goes_on_and_doubles_nothing(
    target: str, new_place: NewPlace
) -> None:
    here, there = new_place("sqlite"), new_place(target)
    fill(here)
    fill_messages(here)
    fill_turns(here)
    killed = 0
    for steps in kills():
        command = [sys.executable, "-m", "tests.moving.killed", here, there, str(steps)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
        if done.returncode == -signal.SIGKILL:
            killed += 1
            continue
        assert done.returncode == 0, done.stderr
        break
    else:
        copied(here, there, lease_ms=LEASE_MS)
    assert killed
    with pytest.raises(UsageError, match="taken a complete copy"):
        copied(here, there)
    with shop_at(there) as shop:
        assert [shop.do("shop.Pay") for _ in range(2)]
        assert not shop.store.claim_tasks(["shop.Pay"], 1)


def test_a_copy_of_a_copy_is_the_same(new_place: NewPlace) -> None:
    first, second, third = (new_place("sqlite") for _ in range(3))
    fill(first)
    with shop_at(first) as shop:
        # What is in hand is not, in a copy.
        [task] = shop.store.claim_tasks(["shop.Pay"], 1, owner="ann")
        assert shop.store.release_task(Claim(task.uuid, task.fence))
    assert digests(copied(first, second)) == digests(copied(second, third))


# Refusals


@pytest.fixture
def pair(new_place: NewPlace) -> tuple[str, str]:
    here, there = new_place("sqlite"), new_place("sqlite")
    fill(here)
    return here, there


def test_a_place_is_not_copied_to_itself(pair: tuple[str, str]) -> None:
    here, _ = pair
    twisted = here.replace("/afl_", "/../" + here.split("/")[-2] + "/afl_")
    with pytest.raises(UsageError, match="the same place"):
        copied(here, twisted)


def test_what_dies_with_the_process_is_no_place(pair: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="dies with this process"):
        copied(pair[0], "memory:")


def test_a_destination_with_other_runs_is_left_alone(pair: tuple[str, str]) -> None:
    here, there = pair
    with shop_at(there) as shop:
        shop.order("vase")
    with pytest.raises(UsageError, match="runs of its own"):
        copied(here, there)
    with shop_at(there) as shop:
        assert len(shop.store.get_all_runners()) == 1


def _put_task(url: str) -> None:
    with closing(open_store(url)) as store:
        store.save_task(new_task(uuid="own", step_id="", workflow_id="", runner_id=""))


def _put_done_task(url: str) -> None:
    with closing(open_store(url)) as store:
        store.save_task(new_task(uuid="own", step_id="", state=TaskState.COMPLETED))


def _put_handler(url: str) -> None:
    with closing(open_store(url)) as store:
        store.register_handler("shop.Wrap", "file:///shop.py")


def _put_source(url: str) -> None:
    with closing(open_store(url)) as store:
        store.save_published_source(PublishedSource("v", "own", "namespace own", ["own"]))


def _put_message(url: str) -> None:
    with closing(open_mailbox(url, "requests")) as mailbox:
        mailbox.send("mine")


def _put_dead_letter(url: str) -> None:
    with closing(open_mailbox(url, "requests")) as mailbox:
        mailbox.send("mine")
        [letter] = mailbox.receive()
        mailbox.dead_letter(letter, "cannot be read")


def _put_turn(url: str) -> None:
    with closing(open_turns(url)) as turns:
        turns.accept(NewTurn("support", b"{}", "own"))


def _put_key(url: str) -> None:
    with closing(open_idempotency(url)) as keys:
        keys.begin("own", "request")


OWN: dict[str, Callable[[str], None]] = {
    "task": _put_task,
    "done task": _put_done_task,
    "handler": _put_handler,
    "source": _put_source,
    "message": _put_message,
    "dead letter": _put_dead_letter,
    "turn": _put_turn,
    "idempotency key": _put_key,
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_destination_with_anything_of_its_own_is_left_alone(
    what: str, is_begun: bool, pair: tuple[str, str]
) -> None:
    here, there = pair
    fill_messages(here)
    fill_turns(here)
    if is_begun:
        with pytest.raises(Conflict):
            copied(here, there, _Stops("tasks"))
    OWN[what](there)
    before = _size_of(there)
    kind = what.removeprefix("done ")
    with pytest.raises(UsageError, match=f"the destination has {kind}s of its own, such as "):
        copied(here, there)
    assert _size_of(there) == before


def _size_of(url: str) -> list[int]:
    with closing(open_store(url)) as store, messages_at(url) as messages:
        tasks, runs = len(store.get_all_tasks()), len(store.get_all_runners())
        return [tasks, runs, *(each.count() for each in messages)]


@pytest.mark.parametrize("target", ["postgres", "mongo"])
def test_a_server_with_something_of_its_own_is_left_alone(
    target: str, pair: tuple[str, str], new_place: NewPlace
) -> None:
    there = new_place(target)
    put, kind = (_put_message, "message") if target == "postgres" else (_put_turn, "turn")
    put(there)
    with pytest.raises(UsageError, match=f"the destination has {kind}s of its own"):
        copied(pair[0], there)


@pytest.mark.parametrize("which", ["source", "destination"])
def test_nobody_may_work_meanwhile(which: str, pair: tuple[str, str]) -> None:
    here, there = pair
    with closing(open_store(here if which == "source" else there)) as store:
        server = ServerDefinition("s", "g", "afl-worker", "host-1", state=ServerState.RUNNING)
        store.beat_server(server)
    with pytest.raises(UsageError, match=f"the {which} is in use by host-1"):
        copied(here, there)


def test_a_process_with_several_servers_is_named_once(pair: tuple[str, str]) -> None:
    here, there = pair
    with closing(open_store(here)) as store:
        for each in ("tasks", "turns"):
            server = ServerDefinition(each, "g", "afl-worker", "vm", state=ServerState.RUNNING)
            server.host, server.pid, server.beat_ms = "vm", 4711, 60_000
            store.beat_server(server)
    with pytest.raises(UsageError, match=r"in use by process 4711 on vm; .*stop all") as caught:
        copied(here, there)
    # If it was killed: three beats, of which nothing has gone by, and a second for the clocks.
    [seconds] = re.findall(r"killed .* that is in (\d+) s", str(caught.value))
    assert 170 < int(seconds) <= 181


def test_a_task_that_somebody_has_is_not_taken_away(pair: tuple[str, str]) -> None:
    here, there = pair
    with shop_at(here) as shop:
        task = shop.claim("shop.Pay", lease_ms=600_000)
    with pytest.raises(UsageError, match=f"somebody works on task {task.uuid}"):
        copied(here, there)


class _Meanwhile:
    """Does something when tasks are about to be copied."""

    def __init__(self, url: str) -> None:
        self._url = url

    def began(self, kind: str, total: int) -> None:
        if kind == "tasks":
            with shop_at(self._url) as shop:
                shop.order("vase")

    def went_on(self, records: int) -> None: ...


def test_a_source_that_goes_on_meanwhile_is_noticed(pair: tuple[str, str]) -> None:
    here, there = pair
    with pytest.raises(UsageError, match="have gone on while they were copied"):
        copied(here, there, _Meanwhile(here))


class _Stops:
    def __init__(self, kind: str = "turns") -> None:
        self._kind = kind

    def began(self, kind: str, total: int) -> None:
        if kind == self._kind:
            raise Conflict("stopped here")

    def went_on(self, records: int) -> None: ...


def test_what_differs_is_named_and_never_replaced(pair: tuple[str, str]) -> None:
    here, there = pair
    with pytest.raises(Conflict):
        copied(here, there, _Stops())
    with closing(open_store(there)) as store:
        [registration] = store.list_handler_registrations()
        store.save_handler_registration(replace(registration, version="3"))
    with pytest.raises(Differs, match=r"handler shop\.Pay is not the same at both ends") as caught:
        copied(here, there)
    assert (caught.value.kind, caught.value.key) == ("handler", "shop.Pay")
    assert caught.value.fields == ("version",)
    with closing(open_store(there)) as store:
        assert [each.version for each in store.list_handler_registrations()] == ["3"]


def test_a_run_that_has_gone_on_since_is_not_brought_back(pair: tuple[str, str]) -> None:
    here, there = pair
    with pytest.raises(Conflict):
        copied(here, there, _Stops())
    with closing(open_store(here)) as store:
        run = store.get_all_runners(limit=1)[0]
        store.update_runner_state(run.uuid, RunnerState.PAUSED)
    with pytest.raises(UsageError, match=f"run {run.workflow_id} has gone on"):
        copied(here, there)
