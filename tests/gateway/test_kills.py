"""The process that does a turn and serves it is killed in the middle of a word, and replaced. What
the client saw, without what was superseded, is what it sees of a turn that nobody disturbs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import pytest
from tests.engine.profile import IS_STORM
from tests.gateway.agent_process import ANSWERS, WORDS
from tests.gateway.scene import in_thread

import afl
from afl.gateway import StreamEvent, TurnClient
from afl.gateway.places import read_place
from afl.testing.servers import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
NEVER = 0
LAST = ANSWERS * WORDS
_SINGLE = [(place,) for place in range(1, LAST + 1)]
_PAIRS = list(combinations_with_replacement(range(1, LAST + 1), 2))
#: At which words processes die, one after the other.
DEATHS: list[tuple[int, ...]] = [*_SINGLE, *_PAIRS] if IS_STORM else [(2,), (LAST, LAST)]


class Process:
    """Prepared at once; it does nothing before `go`."""

    def __init__(self, path: Path, hangs_at: int) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.gateway.agent_process"),
                path,
                str(port),
                str(hangs_at),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{Path(afl.__file__).parents[1]}:{ROOT}"},
        )

    def go(self) -> None:
        assert self._process.stdin is not None
        self._expect("up")
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def die(self) -> None:
        """In the middle of a word."""
        self._expect("hangs")
        self.kill()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{word}\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def processes(path: Path, deaths: Sequence[int]) -> Iterator[list[Process]]:
    with ExitStack() as stack:
        found = [Process(path, place) for place in (*deaths, NEVER)]
        for each in found:
            stack.callback(each.kill)
        yield found


def disturbed(folder: Path, deaths: Sequence[int]) -> list[StreamEvent]:
    """What one client sees of one turn; and it is what anybody sees who comes later."""
    with processes(folder / "afl.db", deaths) as found:
        urls = [each.url for each in found]
        with TurnClient(urls, patience_s=PATIENCE_S) as client:
            found[0].go()
            handle = client.submit("support", "hello")
            seen: list[StreamEvent] = []
            following = in_thread(lambda: seen.extend(handle.stream()))
            for doomed, successor in pairwise(found):
                doomed.die()
                successor.go()
            following.join(PATIENCE_S)
            assert not following.is_alive()
            assert seen == list(client.turn(handle.id).stream())
    return seen


def kept(events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Without what was superseded."""
    found: list[StreamEvent] = []
    for event in events:
        if event.name == "superseded":
            places = [
                each.id for each in found if each.data.get("call_id") == event.data["call_id"]
            ]
            assert places[0] == event.data["from"]
            found = [each for each in found if each.id not in places]
        else:
            found.append(event)
    return found


def story(events: Sequence[StreamEvent]) -> list[tuple[str, str]]:
    """What happened, whatever the words were. Pieces are parts of their answers, in order."""
    said: dict[str, str] = {}
    found = []
    for event in events:
        call = event.data.get("call_id", "")
        if event.name == "delta":
            said[call] = said.get(call, "") + event.data["text"]
            continue
        if event.name == "model":
            assert event.data["text"].startswith(said.pop(call, ""))
            assert len(event.data["text"].split()) == WORDS
            found.append(("model", call))
        else:
            found.append((event.name, event.data.get("tool", "")))
    assert said == {}
    return found


UNDISTURBED = [
    *[
        each
        for number in range(1, ANSWERS)
        for each in (
            ("model", "model" if number == 1 else f"model#{number}"),
            ("tool_started", "look"),
            ("tool_finished", "look"),
        )
    ],
    ("model", f"model#{ANSWERS}"),
    ("done", ""),
]


def require_in_order(events: Sequence[StreamEvent]) -> None:
    places = [read_place(each.id) for each in events[:-1]]
    assert events[-1].id == "end"
    assert all(before < after for before, after in pairwise(places))  # type: ignore[operator]


@pytest.mark.timeout(150)
def test_an_undisturbed_turn_tells_its_story(folder: Path) -> None:
    events = disturbed(folder, ())
    require_in_order(events)
    assert story(kept(events)) == UNDISTURBED
    assert events[-1].data["result"] == events[-2].data["text"]


@pytest.mark.timeout(150)
@pytest.mark.parametrize("deaths", DEATHS, ids=str)
def test_a_stream_survives_its_process(folder: Path, deaths: Sequence[int]) -> None:
    events = disturbed(folder, deaths)
    require_in_order(events)
    assert sum(each.name == "superseded" for each in events) >= len(deaths)
    assert story(kept(events)) == UNDISTURBED
    assert events[-1].data["result"] == kept(events)[-2].data["text"]
