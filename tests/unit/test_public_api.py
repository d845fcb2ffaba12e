"""What `import afl` offers, and what it costs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.language import generated_program

import afl
from afl import runtime


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after running `code`."""
    report = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", afl.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(afl, name) is not None
    assert name in dir(afl)


@pytest.mark.parametrize("name", runtime.__all__)
def test_every_public_name_of_the_runtime_can_be_imported(name: str) -> None:
    assert getattr(runtime, name) is not None
    assert name in dir(runtime)


def test_type_checkers_see_the_same_names_of_the_runtime() -> None:
    text = Path(str(runtime.__file__)).read_text("utf-8")
    seen = re.findall(r"^    from (\S+) import (\w+) as \2$", text, re.MULTILINE)
    assert {name: module for module, name in seen} == runtime._EXPORTS


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'praser'"):
        afl.praser  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("afl.ast", "Program"),
        ("afl.parser", "AFLParser"),
        ("afl.parser", "ParseError"),
        ("afl.emitter", "JSONEmitter"),
        ("afl.source", "FileOrigin"),
        ("afl.validator", "validate"),
    ],
)
def test_the_known_module_paths_lead_to_the_same_things(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    assert found.__module__.startswith("afl.lang.")


def test_importing_afl_loads_no_compiler() -> None:
    assert not loaded_by("import afl") & {"lark", "msgspec", "typer", "structlog", "asyncio"}


def test_help_loads_neither_compiler_nor_logging() -> None:
    code = "from afl.cli import main\nassert main(['--help']) == 0"
    assert not loaded_by(code) & {"lark", "msgspec", "structlog", "asyncio"}


def test_the_benchmark_program_is_valid_and_as_long_as_it_says() -> None:
    text = generated_program(400)
    assert abs(text.count("\n") - 400) < 50
    assert afl.compile_source(text, strict=True).workflows
