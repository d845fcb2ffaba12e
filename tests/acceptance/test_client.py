"""`afl.Client` as programs use it, on a store that workers share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import afl
from afl.errors import ConfigurationError, UsageError
from afl.runtime.errors import RunNotFoundError
from afl.runtime.evaluator import Evaluator

TEXT = """
namespace t

event facet Ask(question: String) => (answer: String)

workflow Greet(name: String) => (text: String) andThen {
    yield Greet(text = "Hello " ++ $.name)
}

workflow Wait() => (text: String) andThen {
    asked = Ask(question = "?")
    yield Wait(text = asked.answer)
}
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/afl.db"


@pytest.fixture
def client(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[afl.Client]:
    monkeypatch.chdir(tmp_path)
    with afl.Client(url) as client:
        yield client


def answer(url: str, result: dict[str, Any] | str) -> None:
    """A worker in little: one task, then it goes."""
    store = afl.open_store(url)
    evaluator = Evaluator(store)
    assert store.wait_for_work(["t.Ask"], 20)
    [task] = store.claim_tasks(["t.Ask"], 1)
    if isinstance(result, str):
        evaluator.fail_task(task, result)
    else:
        evaluator.complete_task(task, result)
    store.close()


@pytest.fixture(params=["text", "path", "name", "program", "dict"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "program.afl"
    path.write_text(TEXT, encoding="utf-8")
    forms = {
        "text": TEXT,
        "path": path,
        "name": str(path),
        "program": afl.compile_source(TEXT),
        "dict": afl.compile_source(TEXT).to_dict(),
    }
    return forms[request.param]


def test_a_program_is_taken_in_any_form(client: afl.Client, program: Any) -> None:
    run = client.submit(program, "Greet", {"name": "Ada"})
    assert run.result(timeout=20) == {"text": "Hello Ada"}
    assert run.status() == "completed"


def test_a_text_needs_no_line_end(client: afl.Client) -> None:
    run = client.submit("workflow W() => (n: Long) andThen { yield W(n = 1) }", "W")
    assert run.result(timeout=20) == {"n": 1}
    assert client.submit("workflow W(n: Long = 1)", "W").result(timeout=20) == {}


def test_a_file_of_any_name_is_taken_as_a_path(client: afl.Client, tmp_path: Path) -> None:
    path = tmp_path / "copy (1) {new}.afl"
    path.write_text(TEXT, encoding="utf-8")
    run = client.submit(path, "Greet", {"name": "Ada"})
    assert run.result(timeout=20) == {"text": "Hello Ada"}
    with pytest.raises(afl.ParseError):
        client.submit(str(path), "Greet", {"name": "Ada"})


def test_a_result_comes_as_soon_as_a_worker_has_it(client: afl.Client, url: str) -> None:
    run = client.submit(TEXT, "t.Wait")
    assert run.status() == "running"
    worker = threading.Thread(target=answer, args=(url, {"answer": "42"}))
    worker.start()
    assert run.result(timeout=20) == {"text": "42"}
    worker.join()


def test_a_failed_run_raises_the_original_message(client: afl.Client, url: str) -> None:
    run = client.submit(TEXT, "Wait")
    answer(url, "nobody knows")
    with pytest.raises(afl.RunFailed, match="nobody knows"):
        run.result(timeout=20)
    assert run.status() == "failed"


def test_a_run_can_be_paused_and_cancelled(client: afl.Client) -> None:
    run = client.submit(TEXT, "Wait")
    run.pause()
    assert run.status() == "paused"
    run.unpause()
    assert run.status() == "running"
    with pytest.raises(TimeoutError):
        run.result(timeout=0)
    run.cancel()
    with pytest.raises(afl.RunCancelled):
        run.result(timeout=20)


def test_a_run_is_found_again_by_another_client(client: afl.Client, url: str) -> None:
    run = client.submit(TEXT, "Greet", {"name": "Ada"}, key="k")
    with afl.Client(url) as other:
        assert other.run(run.id).result() == {"text": "Hello Ada"}
        assert other.submit(TEXT, "Greet", {"name": "Ada"}, "k").id == run.id
        with pytest.raises(RunNotFoundError):
            other.run("nowhere")


def test_what_is_wrong_is_raised_and_nothing_starts(client: afl.Client) -> None:
    with pytest.raises(afl.InvalidInputs, match="name: is missing"):
        client.submit(TEXT, "Greet")
    with pytest.raises(afl.ParseError):
        client.submit("workflow W( {\n", "W")
    with pytest.raises(UsageError, match=r"nowhere\.afl"):
        client.submit("nowhere.afl", "W")
    with pytest.raises(ConfigurationError):
        afl.Client("redis://x")
    with pytest.raises(ConfigurationError) as refused:
        afl.Client("plain.db")
    assert "(argument url)" in str(refused.value)
    assert "did you mean sqlite:///plain.db?" in str(refused.value)
    assert client.store.get_all_runners() == []


def test_without_a_url_the_settings_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFL_STORE_URL", "sqlite:///./other.db")
    with afl.Client() as client:
        client.submit(TEXT, "Greet", {"name": "Ada"})
    assert (tmp_path / "other.db").exists()
