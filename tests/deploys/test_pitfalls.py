"""What goes wrong in deploys of agents, each under the name of the mistake."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.deploys.fleet import PATIENCE_S, RELEASE, ROOT, Fleet, Process, eventually
from tests.deploys.visits import RawStream, effects, submitted

from afl.operations.turns import submit_turn
from afl.turns import Kind, TurnState, open_turns

#: Processes start slowly where many of them do.
pytestmark = pytest.mark.timeout(180)


def test_warmup_is_not_ready(fleet: Fleet, tmp_path: Path) -> None:
    """Traffic that comes before it is warm would meet tools that are not there."""
    fleet.open_shop()
    warm = tmp_path / "warm"
    with closing(open_turns(fleet.store)) as turns:
        waiting = submit_turn(turns, "support", {"order": 1}, key="early")
        instance = fleet.start(WARM_FILE=str(warm))
        eventually(lambda: "warmup: warm: the check says no" in instance.reasons(), "in warmup")
        with pytest.raises(httpx.ConnectError):
            submitted(instance, 2)
        assert turns.get(waiting.id).state is TurnState.ACCEPTED
        warm.touch()
        instance.wait_until_ready()
        assert submitted(instance, 2).status_code == 202
        eventually(lambda: turns.get(waiting.id).state is TurnState.DONE, "done")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_drain_is_in_the_signal_handler_and_not_in_a_hook_of_the_platform(
    fleet: Fleet, signum: signal.Signals
) -> None:
    """No hook was called: the signal alone, also that of a keyboard, lets turns end."""
    fleet.open_shop()
    instance = fleet.start(PACE_S="0.06").wait_until_ready()
    stream = RawStream(instance, submitted(instance, 7).json()["id"])
    assert stream.has_begun.wait(PATIENCE_S)
    assert instance.end(signum) == 0
    assert stream.wait()[-1].name == "done"
    assert effects(fleet) == {("refund", 7): 1, ("mail", 7): 1}


def refusal(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "afl", "serve", RELEASE, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_no_drain_deadline_is_refused_with_values_that_make_sense() -> None:
    """A turn that is stuck would keep the process until it is killed."""
    done = refusal("--store", "memory:")
    assert done.returncode == 2
    assert "a service needs a drain deadline" in done.stderr
    assert "1m to 2m for agents that chat" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_turn_that_is_stuck_keeps_no_process_beyond_its_deadline(fleet: Fleet) -> None:
    """Its tool has acted, and never returns. The platform need not kill: there is a checkpoint, and
    the next process gets the answer of the shop under the same key."""
    fleet.open_shop()
    first = fleet.start("first", drain="3s", HANGS="yes").wait_until_ready()
    stream = RawStream(first, submitted(first, 7).json()["id"])
    eventually(lambda: effects(fleet)["refund", 7] == 1, "the shop has acted")
    assert first.end() == 0
    last = stream.wait()[-1]
    assert (last.name, bool(last.data["resume_token"])) == ("suspended", True)
    second = fleet.start("second").wait_until_ready()
    eventually(lambda: effects(fleet)["mail", 7] == 1, "it went on")
    assert effects(fleet) == {("refund", 7): 1, ("mail", 7): 1}
    assert second.end() == 0


def test_the_default_grace_of_30_seconds_is_warned_about(fleet: Fleet) -> None:
    """The platform would kill a process that still saves its turns."""
    fleet.open_shop()
    instance = fleet.start(drain="2m", AFL_LIFECYCLE_TERMINATION_GRACE="30s").wait_until_ready()
    assert "termination_grace_seconds (30 s) must be longer than 130 s" in instance.log
    assert instance.end() == 0


def test_signal_handlers_of_a_framework_do_not_swallow_sigterm(fleet: Fleet) -> None:
    fleet.open_shop()
    instance = fleet.start(app="tests/deploys/swallower.py", PACE_S="0.06").wait_until_ready()
    stream = RawStream(instance, submitted(instance, 7).json()["id"])
    assert stream.has_begun.wait(PATIENCE_S)
    assert instance.end() == 0
    assert stream.wait()[-1].name == "done"


def with_keys(fleet: Fleet) -> Process:
    return fleet.open_shop()


def without_keys(fleet: Fleet) -> Process:
    return fleet.open_shop(script="tests/deploys/bare_shop.py")


@pytest.mark.parametrize(("opened", "refunds"), [(with_keys, 1), (without_keys, 2)])
def test_idempotency_is_at_the_tool_server_too(
    fleet: Fleet, opened: Callable[[Fleet], Process], refunds: int
) -> None:
    """The agent dies when the shop has acted and before it knows. The next one sends the same key;
    a shop that does not look at it acts again."""
    opened(fleet)
    first = fleet.start("first", HANGS="yes").wait_until_ready()
    turn_id = submitted(first, 7).json()["id"]
    eventually(lambda: effects(fleet)["refund", 7] == 1, "the shop has acted")
    first.end(signal.SIGKILL)
    second = fleet.start("second").wait_until_ready()
    assert fleet.client(second).turn(turn_id).result(PATIENCE_S)
    assert effects(fleet) == {("refund", 7): refunds, ("mail", 7): 1}
    with closing(open_turns(fleet.store)) as turns:
        kinds = [each.kind for each in turns.read(turn_id)]
    assert kinds.count(Kind.TOOL_INTENT) == kinds.count(Kind.TOOL_DONE) == 2
