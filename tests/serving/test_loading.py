"""From a word of the command line to an app, and what is said when that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.errors import UsageError
from afl.serving import load_app

APP = """
import afl
from neighbour import GREETING

app = afl.App()
other = afl.App()
nothing = 3

@other.agent("hello")
def hello(request: str) -> str:
    return GREETING + request
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "neighbour.py").write_text("GREETING = 'hello '\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["shop", "shop:app", "shop.py", "shop.py:app", "./shop.py"])
def test_an_app_is_called_app_unless_somebody_says_otherwise(folder: Path, target: str) -> None:
    assert not load_app(target).agents


@pytest.mark.parametrize("target", ["shop:other", "shop.py:other"])
def test_an_app_is_found_by_its_name(folder: Path, target: str) -> None:
    assert [each.name for each in load_app(target).agents] == ["hello"]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("shop:othr", "shop has no 'othr'; did you mean other?"),
        ("shop.py:nothing", "'nothing' is of type int, and no afl.App; did you mean app?"),
        ("neighbour", r"neighbour has no 'app'; make one there: app = afl.App\(\)"),
        ("nowhere", "there is no module nowhere here; give module:name or file.py:name"),
        ("nowhere.py:app", "there is no file nowhere.py; give module:name or file.py:name"),
        ("shop:a b", "'shop:a b' names no app"),
        (":app", "':app' names no app"),
    ],
)
def test_what_is_not_there_is_said(folder: Path, target: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_app(target)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import afl\n\napp = alf.App()\n", r"broken\.py, line 3: NameError: name 'alf'"),
        ("import afl\napp = (\n", r"broken\.py, line 2: SyntaxError"),
        ("\nimport no_such_thing\n", r"broken\.py, line 2: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit()\n", r"broken\.py, line 2: SystemExit"),
        # In a library, but by a line of the user's.
        ("import json\n\n\njson.loads('{')\n", r"broken\.py, line 4: JSONDecodeError"),
        (
            "import afl\nafl.App().agent_loop('', 3)\n",
            r"broken\.py, line 2: UsageError: '' is no name",
        ),
    ],
)
def test_code_that_fails_is_shown_with_its_line(folder: Path, text: str, problem: str) -> None:
    (folder / "broken.py").write_text(text)
    with pytest.raises(UsageError, match=problem):
        load_app("broken.py")


def test_a_file_does_not_become_a_module_that_others_import(folder: Path) -> None:
    (folder / "json.py").write_text(APP)
    load_app("json.py")
    import json

    assert json.loads("[]") == []
