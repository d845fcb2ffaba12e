"""Debug bundles: one zip for each turn, whole or not at all, without secrets."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zipfile
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.loops.agents import Agent
from tests.loops.office import Office

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.model import Usage
from afl.clock import FakeClock
from afl.loops import (
    AgentLoopConfig,
    AgentLoopRequest,
    BundleConfig,
    BundleRetention,
    Prompt,
    ResourceSection,
    Session,
)

Events = Callable[[str], list[dict[str, object]]]


def files_of(path: str | Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as bundle:
        assert bundle.testzip() is None
        return {name.removeprefix("debug_bundle/"): bundle.read(name) for name in bundle.namelist()}


def lines_of(content: bytes) -> list[Any]:
    return [json.loads(each) for each in content.splitlines()]


def bundled(office: Office, script: list[Any], folder: Path, **options: Any) -> Agent:
    config = AgentLoopConfig(debug_bundle=BundleConfig(str(folder), **options))
    return Agent(ScriptedAdapter(script), office, config=config)


def test_a_bundle_has_all_that_is_known_about_a_turn(office: Office, tmp_path: Path) -> None:
    usage = Usage(input_tokens=7, output_tokens=3)
    script = [calls("shout", {"text": "hi"}, usage=usage), says("done", usage)]
    agent = bundled(office, script, tmp_path)
    (asked,) = office.ask("hi")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = office.answers(1)
    assert answer.bundle_path is not None
    files = files_of(answer.bundle_path)
    assert json.loads(files["request/input.json"])["request_id"] == asked
    assert json.loads(files["request/output.json"])["output"] == "done"
    assert files["session/before.jsonl"] == b""
    kinds = [each["type"] for each in lines_of(files["session/after.jsonl"])]
    assert kinds[:3] == ["LoopRequestState", "ModelAnswered", "ToolUsed"]
    metrics = json.loads(files["metrics.json"])
    assert (metrics["model_calls"], metrics["tool_uses"]) == (2, 1)
    assert metrics["usage"]["input_tokens"] == 14
    assert json.loads(files["run_context.json"])["attempt"] == 1
    assert "python" in json.loads(files["environment.json"])
    assert "error.json" not in files
    manifest = json.loads(files["manifest.json"])
    assert manifest["request_id"] == asked
    for name, facts in manifest["files"].items():
        assert facts["size"] == len(files[name])
        assert facts["sha256"] == hashlib.sha256(files[name]).hexdigest()


def test_a_failure_is_in_the_bundle_and_the_reply_says_where(
    office: Office, tmp_path: Path
) -> None:
    agent = bundled(office, [ValueError("the model is broken")], tmp_path)
    office.ask("hi")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = office.answers(1)
    assert answer.bundle_path is not None
    error = json.loads(files_of(answer.bundle_path)["error.json"])
    assert (error["type"], error["message"]) == ("ValueError", "the model is broken")
    assert "Traceback" in error["traceback"]


def test_a_bundle_has_no_secrets(
    memory_office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2")
    monkeypatch.setenv("SHOP_COLOUR", "green")
    script = [calls("shout", {"text": "x", "password": "hunter2"}), ValueError("password=hunter2")]
    agent = bundled(memory_office, script, tmp_path)
    memory_office.ask("log in at https://bob:hunter2@shop.example/")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert answer.bundle_path is not None
    files = files_of(answer.bundle_path)
    assert b"green" in files["environment.json"]
    assert [name for name, content in files.items() if b"hunter2" in content] == []


def test_only_what_the_turn_logs_is_in_its_bundle(memory_office: Office, tmp_path: Path) -> None:
    log = logging.getLogger("shop")

    class Logging(Agent):
        def finalize(self, prompt: Any, session: Any, output: Any) -> Any:
            log.warning("sold %s", output)
            return output

    agent = Logging(ScriptedAdapter([says("a hat")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        log.warning("somebody else")
    assert turn.bundle_path is not None
    lines = lines_of(files_of(turn.bundle_path)["logs/app.jsonl"])
    assert [each["message"] for each in lines] == ["sold a hat"]


def test_what_sections_made_is_captured_before_they_are_cleaned_up(
    memory_office: Office, tmp_path: Path
) -> None:
    order: list[str] = []

    @contextmanager
    def folder() -> Any:
        order.append("open")
        yield {"note.txt": b"bought milk", "../escape.txt": b"out"}
        order.append("close")

    class Making(Agent):
        def prepare(self, request: str, *, experiment: Any = None) -> Any:
            def artifacts(files: dict[str, bytes]) -> dict[str, bytes]:
                order.append("capture")
                return files

            return Prompt(request, ResourceSection("F", folder(), artifacts=artifacts)), Session()

    agent = Making(ScriptedAdapter([says("x")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        turn.write_metadata("eval", {"score": 0.5})
        assert turn.bundle_path is None
        assert turn.latency_ms >= 0
    assert order == ["open", "capture", "close"]
    assert turn.bundle_path is not None
    files = files_of(turn.bundle_path)
    assert files["files/1/note.txt"] == b"bought milk"
    assert files["files/escape.txt"] == b"out"
    assert json.loads(files["eval.json"]) == {"score": 0.5}


def test_a_bundle_that_cannot_be_written_is_an_event_and_no_failure(
    memory_office: Office, tmp_path: Path, events: Events
) -> None:
    (tmp_path / "file").write_text("no folder")
    agent = bundled(memory_office, [says("fine")], tmp_path / "file")
    (asked,) = memory_office.ask("x")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert (answer.output, answer.bundle_path) == ("fine", None)
    assert [each["request"] for each in events("bundle_not_written")] == [asked]


# What cannot be written as it is


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Talkative(Agent):
    """Logs what it is given, at the end."""

    def __init__(self, office: Office, *arguments: Any, **options: Any) -> None:
        super().__init__(ScriptedAdapter([says("fine")]), office, **options)
        self._arguments = arguments

    def finalize(self, prompt: Any, session: Any, output: Any) -> Any:
        logging.getLogger("shop").warning(*self._arguments)
        return output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["%s of %s", 1], "%s of %s (TypeError: not enough arguments for format string)"),
        (["%s", Odd()], "%s (RuntimeError: no text)"),
        ([Odd()], "Odd (RuntimeError: no text)"),
        (["file %s", "\udcff.txt"], "file \\udcff.txt"),
    ],
    ids=["wrong arguments", "odd argument", "odd message", "no Unicode"],
)
def test_whatever_is_logged_disturbs_no_turn_and_is_in_its_bundle(
    memory_office: Office,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[Any],
    message: str,
) -> None:
    # Only the bundle hears it: other handlers report such a thing.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    agent = Talkative(memory_office, *arguments)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        assert turn.response.output == "fine"
    assert turn.bundle_path is not None
    lines = lines_of(files_of(turn.bundle_path)["logs/app.jsonl"])
    assert [each["message"] for each in lines] == [message]


def test_an_environment_that_is_no_unicode_is_in_the_bundle(
    memory_office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_NAME", os.fsdecode(b"caf\xe9"))
    agent = Agent(ScriptedAdapter([says("fine")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        pass
    assert turn.bundle_path is not None
    variables = json.loads(files_of(turn.bundle_path)["environment.json"])["variables"]
    assert variables["SHOP_NAME"] == "caf\\udce9"


def test_a_file_that_cannot_be_written_is_left_out_and_named(
    memory_office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: Events
) -> None:
    def unknown() -> str:
        raise OSError("no such platform")

    circle: dict[str, Any] = {}
    circle["again"] = circle
    monkeypatch.setattr("platform.platform", unknown)
    agent = Agent(ScriptedAdapter([says("fine")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        turn.write_metadata("circle", circle)
        turn.write_metadata("eval", {"score": 0.5, "odd": Odd()})
    assert turn.bundle_path is not None
    files = files_of(turn.bundle_path)
    assert json.loads(files["eval.json"])["odd"] == "<Odd that cannot be printed>"
    left_out = ["circle.json", "environment.json"]
    assert json.loads(files["manifest.json"])["omitted"] == left_out
    assert not set(left_out) & set(files)
    reasons = [str(each["reason"]) for each in events("bundle_not_written")]
    assert [each.partition(": ")[0] for each in reasons] == left_out


def test_a_file_with_an_odd_name_or_content_costs_no_other(
    memory_office: Office, tmp_path: Path
) -> None:
    class Making(Agent):
        def prepare(self, request: str, *, experiment: Any = None) -> Any:
            files: Any = {"text": "no bytes", "\udcff.txt": b"odd", "note.txt": b"bought milk"}
            section = ResourceSection("F", nullcontext(files), artifacts=lambda made: made)
            return Prompt(request, section), Session()

    agent = Making(ScriptedAdapter([says("x")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        pass
    assert turn.bundle_path is not None
    files = files_of(turn.bundle_path)
    assert files["files/1/note.txt"] == b"bought milk"
    assert files["files/1/\\udcff.txt"] == b"odd"
    assert json.loads(files["manifest.json"])["omitted"] == ["files/1/text"]


def test_an_error_that_says_nothing_is_in_the_bundle(memory_office: Office, tmp_path: Path) -> None:
    class Mute(Exception):  # noqa: N818 - it says nothing
        def __str__(self) -> str:
            raise RuntimeError("no text")

    agent = bundled(memory_office, [Mute()], tmp_path)
    memory_office.ask("hi")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert answer.error == "Mute"
    assert answer.bundle_path is not None
    assert "Mute" in json.loads(files_of(answer.bundle_path)["error.json"])["type"]


def test_a_bundle_appears_as_a_whole_or_not_at_all(
    memory_office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    agent = Agent(ScriptedAdapter([says("fine")]), memory_office)
    with agent.execute_with_bundle("x", bundle_target=str(tmp_path)) as turn:
        pass
    assert turn.bundle_path is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_large_is_left_out_and_named(memory_office: Office, tmp_path: Path) -> None:
    agent = bundled(memory_office, [says("x" * 5000)], tmp_path, max_file_size=4000)
    memory_office.ask("x")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert answer.bundle_path is not None
    files = files_of(answer.bundle_path)
    assert "request/output.json" not in files
    assert "request/output.json" in json.loads(files["manifest.json"])["omitted"]


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        (BundleRetention(max_bundles=2), 2),
        (BundleRetention(max_total_bytes=1), 1),
        (BundleRetention(max_bundles=9), 4),
    ],
    ids=str,
)
def test_old_bundles_are_removed(
    memory_office: Office, tmp_path: Path, retention: BundleRetention, left: int
) -> None:
    clock = FakeClock()
    config = AgentLoopConfig(debug_bundle=BundleConfig(str(tmp_path), retention=retention))
    agent = Agent(ScriptedAdapter(default=says("x")), memory_office, config=config, clock=clock)
    paths: list[str] = []
    for each in range(4):
        clock.advance(60)
        memory_office.ask(str(each))
        agent.run(max_iterations=1, wait_time_seconds=0)
        (answer,) = memory_office.answers(1)
        paths.append(str(answer.bundle_path))
    assert sorted(map(str, tmp_path.iterdir())) == sorted(paths)[-left:]


def test_a_request_names_no_folders_but_those_below_the_loops_own(
    memory_office: Office, tmp_path: Path
) -> None:
    inner, outer = tmp_path / "bundles" / "mine", tmp_path / "elsewhere"
    agent = bundled(memory_office, [says("a"), says("b")], tmp_path / "bundles")
    for target in (inner, outer):
        request = AgentLoopRequest("x", debug_bundle=BundleConfig(str(target)))
        memory_office.requests.send(request, reply_to=memory_office.replies)
        agent.run(max_iterations=1, wait_time_seconds=0)
    allowed, refused = memory_office.answers(2)
    assert Path(str(allowed.bundle_path)).parent == inner
    assert "keeps bundles below" in str(refused.error)
    assert not outer.exists()


def test_a_loop_without_bundles_writes_none(memory_office: Office, tmp_path: Path) -> None:
    agent = Agent(ScriptedAdapter([says("a")]), memory_office)
    request = AgentLoopRequest("x", debug_bundle=BundleConfig(str(tmp_path / "there")))
    memory_office.requests.send(request, reply_to=memory_office.replies)
    agent.run(max_iterations=1, wait_time_seconds=0)
    assert memory_office.answers(1)[0].bundle_path is None
    assert list(tmp_path.iterdir()) == []
