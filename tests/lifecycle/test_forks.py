"""Neither the runtime nor the tests of it fork: a fork copies locks, and not who holds them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.lifecycle.loops import is_caught

import afl

FOLDERS = [Path(afl.__file__).parent, Path(__file__).parent]
FORKS = {"fork", "forkpty"}


def forks_in(text: str) -> list[str]:
    """What forks this process; code for processes of their own is only a string."""
    return [ast.unparse(each) for each in ast.walk(ast.parse(text)) if _is_fork(each)]


def _is_fork(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.alias(name=name):
            return name in FORKS
        case ast.Call(func=ast.Attribute(attr="get_context" | "set_start_method"), args=args):
            return any(isinstance(each, ast.Constant) and each.value == "fork" for each in args)
    return False


def look_for_forks(text: str) -> None:
    assert forks_in(text) == []


def test_nothing_here_forks_a_process_that_has_threads() -> None:
    """Signals are tried in processes that a subprocess starts from nothing."""
    texts = [each.read_text() for folder in FOLDERS for each in folder.rglob("*.py")]
    assert texts
    for text in texts:
        look_for_forks(text)


@pytest.mark.parametrize(
    "mistake",
    [
        "import os\npid = os.fork()",
        "from os import fork",
        "import pty\npid, fd = pty.fork()",
        "import multiprocessing\nmultiprocessing.get_context('fork').Process()",
    ],
)
def test_a_fork_is_found(mistake: str) -> None:
    is_caught(lambda: look_for_forks(mistake))
