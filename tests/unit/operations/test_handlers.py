"""Handlers are registered as workers need them, and what no worker could use is refused."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import ConfigurationError, UsageError
from afl.operations import handlers
from afl.operations.handlers import HandlerNotFound, NewHandler


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_handler_is_registered_listed_and_removed(stage: Stage) -> None:
    added = handlers.add(stage.store, NewHandler("t.Tell", "mine.handlers", "tell"))
    handlers.add(stage.store, NewHandler("t.Ask", "mine.handlers"))
    assert (added.module_uri, added.entrypoint, added.timeout_ms) == (
        "mine.handlers",
        "tell",
        30_000,
    )
    assert [each.facet_name for each in handlers.list_handlers(stage.store)] == ["t.Ask", "t.Tell"]
    handlers.remove(stage.store, "t.Ask")
    assert [each.facet_name for each in handlers.list_handlers(stage.store)] == ["t.Tell"]


def test_a_facet_has_one_handler(stage: Stage) -> None:
    handlers.add(stage.store, NewHandler("t.Ask", "old"))
    handlers.enable(stage.store, "t.Ask", is_enabled=False)
    handlers.add(stage.store, NewHandler("t.Ask", "new"))
    [only] = handlers.list_handlers(stage.store)
    assert (only.module_uri, only.is_enabled) == ("new", True)


def test_a_handler_is_disabled_and_enabled(stage: Stage) -> None:
    handlers.add(stage.store, NewHandler("t.Ask", "mine"))
    for is_enabled in (False, True):
        handlers.enable(stage.store, "t.Ask", is_enabled=is_enabled)
        assert handlers.find(stage.store, "t.Ask").is_enabled is is_enabled


def test_a_facet_without_a_handler_is_said_with_what_was_meant(stage: Stage) -> None:
    handlers.add(stage.store, NewHandler("shop.Charge", "mine"))
    with pytest.raises(HandlerNotFound, match=r"for shop\.Chrage; did you mean 'shop\.Charge'"):
        handlers.find(stage.store, "shop.Chrage")
    with pytest.raises(HandlerNotFound, match="`afl handlers list`"):
        handlers.remove(stage.store, "zzz")


def test_retries_are_said_in_the_metadata(stage: Stage) -> None:
    new = NewHandler(
        "t.Ask", "mine", retry_max=3, retry_backoff="90s", metadata={"region": "eu", "retry": 1}
    )
    assert handlers.add(stage.store, new).metadata == {
        "region": "eu",
        "retry": {"max": 3, "backoff": "1m30s"},
    }
    said = NewHandler("t.Ask", "mine", metadata={"retry": {"max": 5}})
    assert handlers.add(stage.store, said).metadata == {"retry": {"max": 5}}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"facet": "t Ask"}, "'t Ask' is no name of a facet"),
        ({"facet": ""}, "'' is no name of a facet"),
        ({"module": "mine handlers"}, "'mine handlers' is no name of a module"),
        ({"module": "mine:ask"}, "give them apart: mine and --entrypoint ask"),
        ({"module": "./my.py:ask"}, r"give them apart: \./my\.py and --entrypoint ask"),
        ({"module": "gone.py"}, r"there is no handler file gone\.py"),
        ({"entrypoint": "1st"}, "'1st' is no name of an entrypoint"),
        ({"isolation": "vm"}, "isolation 'vm' is unknown; use one of thread, process"),
        ({"on_lost": "cry"}, "on-lost 'cry' is unknown; use one of redeliver, unknown"),
        ({"timeout_ms": -1}, "a timeout cannot be negative"),
        ({"retry_max": 0}, "tried at least once"),
        ({"retry_backoff": "2s"}, "say how often: --retry-max"),
    ],
)
def test_what_no_worker_could_use_is_refused(
    stage: Stage, folder: Path, wrong: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"facet": "t.Ask", "module": "mine", **wrong}
    with pytest.raises(UsageError, match=message):
        handlers.add(stage.store, NewHandler(**given))
    assert handlers.list_handlers(stage.store) == []


def test_a_backoff_is_a_duration(stage: Stage) -> None:
    with pytest.raises(ConfigurationError, match="'soon' is not a duration"):
        handlers.add(stage.store, NewHandler("t.Ask", "mine", retry_max=2, retry_backoff="soon"))


def test_the_path_of_a_file_becomes_its_uri(stage: Stage, folder: Path) -> None:
    (folder / "my handlers.py").write_text("")
    added = handlers.add(stage.store, NewHandler("t.Ask", "my handlers.py"))
    assert added.module_uri == f"file://{folder}/my%20handlers.py"
    assert handlers.module_uri("file:///x.py") == "file:///x.py"


def test_a_checksum_is_computed_from_the_file(stage: Stage, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine/__init__.py").write_text("a = 1\n")
    (folder / "mine/pay.py").write_text("b = 2\n")
    (folder / "lib").mkdir()
    (folder / "lib/other.py").write_text("c = 3\n")
    for module, text in (("mine", "a = 1\n"), ("mine.pay", "b = 2\n"), ("other", "c = 3\n")):
        new = NewHandler("t.Ask", module, checksum="auto")
        added = handlers.add(stage.store, new, [folder / "lib"])
        assert added.checksum == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_a_checksum_of_nothing_is_refused(stage: Stage, folder: Path) -> None:
    with pytest.raises(UsageError, match=f"there is no module gone in {folder}"):
        handlers.add(stage.store, NewHandler("t.Ask", "gone", checksum="auto"))
    outside = NewHandler("t.Ask", Path(json.__file__).as_uri(), checksum="auto")
    with pytest.raises(UsageError, match="outside of the places"):
        handlers.add(stage.store, outside)


# Whether it loads


def verdict(stage: Stage, **given: Any) -> handlers.Verdict:
    return handlers.verify(stage.store.register_handler("t.Ask", **given))


def test_a_handler_that_loads_leaves_nothing_here(stage: Stage, folder: Path) -> None:
    (folder / "fine.py").write_text("print('hello')\ndef handle(payload): return {}\n")
    found = verdict(stage, module_uri="fine")
    assert (found.ok, found.problem) == (True, None)
    assert "fine" not in sys.modules


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"module_uri": "gone"}, "there is no module gone"),
        ({"module_uri": "broken"}, "SyntaxError"),
        ({"module_uri": "leaves"}, "t.Ask"),
        ({"module_uri": "fine", "entrypoint": "hondle"}, "it has no 'hondle'"),
        ({"module_uri": "fine", "checksum": f"sha256:{'0' * 64}"}, "has the checksum sha256:"),
        ({"module_uri": "json.tool"}, "outside of the places"),
        ({"module_uri": "fine", "isolation": "vm"}, "its isolation is 'vm'"),
        ({"module_uri": "fine", "metadata": {"retry": 3}}, "the retry of its metadata is 3"),
    ],
)
def test_a_handler_that_does_not_load_says_why(
    stage: Stage, folder: Path, given: dict[str, Any], problem: str
) -> None:
    (folder / "fine.py").write_text("def handle(payload): return {}\n")
    (folder / "broken.py").write_text("def handle(\n")
    (folder / "leaves.py").write_text("import os\nos._exit(3)\n")
    found = verdict(stage, **given)
    assert found.ok is False
    assert found.problem is not None
    assert problem in found.problem
