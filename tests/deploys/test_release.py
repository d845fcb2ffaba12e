"""The two tests that every release of an agent must pass, and what they mean to its users."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.deploys.fleet import PATIENCE_S, Fleet, Instance, eventually
from tests.deploys.visits import AUTH, RawStream, effects, submitted

from afl.clock import SYSTEM_CLOCK
from afl.mailbox import open_mailbox
from afl.operations.turns import submit_turn
from afl.runtime.timings import GRACE_BUFFER_S
from afl.turns import Kind, TurnState, open_turns

#: Processes start slowly where many of them do.
pytestmark = pytest.mark.timeout(180)
#: So slow that a turn is far from its end when the reserve of the drain comes.
SLOW = "0.5"
DRAIN_S = 4.0


def test_a_long_turn_is_checkpointed_within_the_deadline_and_goes_on_in_the_next_process(
    fleet: Fleet,
) -> None:
    fleet.open_shop()
    first = fleet.start("first", drain=f"{DRAIN_S}s", PACE_S=SLOW).wait_until_ready()
    turn_id = submitted(first, 7).json()["id"]
    stream = RawStream(first, turn_id)
    assert stream.has_begun.wait(PATIENCE_S)

    began_at = SYSTEM_CLOCK.monotonic()
    assert first.end() == 0
    platform_kills_after_s = DRAIN_S + GRACE_BUFFER_S
    assert SYSTEM_CLOCK.monotonic() - began_at < platform_kills_after_s
    assert f'"turn": "{turn_id}"' in first.log
    assert "turn_checkpointed" in first.log

    # The user was told, by the very stream, with the right to go on.
    last = stream.wait()[-1]
    assert last.name == "suspended"
    assert last.data["is_recoverable"]
    assert last.data["resume_token"]

    second = fleet.start("second").wait_until_ready()
    token = {"token": last.data["resume_token"]}
    resumed = httpx.post(f"{second.url}/turns/resume", json=token, headers=AUTH, timeout=PATIENCE_S)
    assert resumed.status_code == 200, resumed.text
    assert resumed.json()["id"] == turn_id
    assert fleet.client(second).turn(turn_id).result(PATIENCE_S)
    assert effects(fleet) == {("refund", 7): 1, ("mail", 7): 1}
    assert second.end() == 0


def test_a_turn_that_can_end_within_the_deadline_does(fleet: Fleet) -> None:
    fleet.open_shop()
    instance = fleet.start(drain="20s", PACE_S="0.06").wait_until_ready()
    turn_id = submitted(instance, 7).json()["id"]
    stream = RawStream(instance, turn_id)
    assert stream.has_begun.wait(PATIENCE_S)
    instance.send(signal.SIGTERM)

    # From now on it takes nothing, and says when to come back; what it has begun can be followed.
    refused = eventually(lambda: _refused(instance), "refused")
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    ready = instance.probe("ready")
    assert ready is not None
    assert ready.status_code == 503

    assert [each.name for each in stream.wait()][-1] == "done"
    assert instance.wait() == 0
    with closing(open_turns(fleet.store)) as turns:
        assert turns.get(turn_id).attempt == 1


def _refused(instance: Instance) -> httpx.Response | None:
    answer = submitted(instance, 8)
    return None if answer.status_code == 202 else answer


def test_a_turn_is_handed_over_to_a_process_that_is_ready(fleet: Fleet, tmp_path: Path) -> None:
    """Nobody waits for the deadline, which is far away, and nobody is told to come again."""
    fleet.open_shop()
    gate = tmp_path / "gate"
    first = fleet.start("first", drain="10m", PACE_S="0.3", GATE_FILE=str(gate)).wait_until_ready()
    turn_id = submitted(first, 7).json()["id"]
    stream = RawStream(first, turn_id)
    assert stream.has_begun.wait(PATIENCE_S)
    second = fleet.start("second", RELEASE="2").wait_until_ready()
    first.send(signal.SIGTERM)
    eventually(lambda: "drain: SIGTERM" in first.reasons(), "it drains")
    gate.touch()
    assert first.wait() == 0

    seen = stream.wait()
    rest = list(fleet.client(second).turn(turn_id).stream(after=seen[-1].id))
    assert rest[-1].name == "done"
    assert not {"suspended", "superseded"} & {each.name for each in [*seen, *rest]}
    assert effects(fleet) == {("refund", 7): 1, ("mail", 7): 1}
    with closing(open_turns(fleet.store)) as turns:
        kinds = [each.kind for each in turns.read(turn_id)]
        assert turns.get(turn_id).attempt == 2
    assert Kind.HANDED_OVER in kinds
    assert fleet.model_calls(7) == kinds.count(Kind.MODEL), "no answer was paid for twice"


def test_without_its_dependency_a_process_is_not_ready_gets_no_traffic_and_takes_nothing(
    fleet: Fleet,
) -> None:
    with (
        closing(open_turns(fleet.store)) as turns,
        open_mailbox(fleet.store, "support") as requests,
    ):
        by_http = submit_turn(turns, "support", {"order": 1}, key="waits")
        requests.send({"request": {"order": 2}, "request_id": "mail"})
        instance = fleet.start()
        eventually(lambda: "shop: " in instance.reasons(), "it says what is missing")
        live = instance.probe("live")
        assert live is not None
        assert live.status_code == 200, "a restart would not help"
        startup = instance.probe("startup")
        assert startup is not None
        assert startup.status_code == 503
        try:
            submitted(instance, 3)
        except httpx.ConnectError:
            pass
        else:
            raise AssertionError("nobody may listen there")
        assert turns.get(by_http.id).state is TurnState.ACCEPTED
        assert requests.approximate_count() == 1

        # The same process takes all of it as soon as it can.
        fleet.open_shop()
        instance.wait_until_ready()
        eventually(lambda: effects(fleet).total() == 4, "all was done")
        eventually(lambda: turns.get(by_http.id).state is TurnState.DONE, "done")
    assert instance.end() == 0
