"""Scripts run in a process of their own, with little in reach."""

from __future__ import annotations

from typing import Any

import pytest

from afl.runtime.script_executor import ScriptError, ScriptExecutor, execute_script

RUN = ScriptExecutor(timeout=20.0)


def error_of(code: str, params: dict[str, Any] | None = None) -> str:
    outcome = RUN.execute(code, params)
    assert not outcome.success
    assert outcome.result == {}
    assert outcome.error is not None
    return outcome.error


def test_a_script_reads_params_and_fills_result() -> None:
    outcome = RUN.execute("result['sum'] = sum(params['n'])", {"n": [1, 2, 3]})
    assert outcome.success
    assert outcome.result == {"sum": 6}
    assert outcome.error is None


def test_functions_loops_and_comprehensions_see_the_names_of_the_script() -> None:
    code = """
def twice(text):
    return [each * 2 for each in text if each in params["keep"]]
result["out"] = sorted(map(str.upper, twice("abc")))
"""
    assert execute_script(code, {"keep": "ab"}) == {"out": ["AA", "BB"]}


def test_changed_params_come_back_and_leave_those_of_the_caller_alone() -> None:
    params = {"title": " x ", "deep": {"n": 1}}
    outcome = RUN.execute("params['title'] = 'x'; params['deep']['n'] = 2", params)
    assert outcome.params == {"title": "x", "deep": {"n": 2}}
    assert params == {"title": " x ", "deep": {"n": 1}}


def test_text_of_any_script_passes_unharmed() -> None:
    assert execute_script("result['t'] = params['t'] + 'é'", {"t": "漢 \ud800"}) == {
        "t": "漢 \ud800é"
    }


def test_what_is_printed_is_kept_apart_from_the_result() -> None:
    outcome = RUN.execute("print('a', 1, sep='-'); print({'error': 1}, end='')")
    assert outcome.success
    assert outcome.output == "a-1\n{'error': 1}"


def test_printing_stops_at_the_limit() -> None:
    outcome = ScriptExecutor(max_output=10).execute("for i in range(100): print('abc')")
    assert outcome.success
    assert outcome.output == "abc\nabc\nab"


def test_a_result_beyond_the_limit_is_an_error() -> None:
    outcome = ScriptExecutor(max_output=10).execute("result['x'] = 'abc' * 100")
    assert outcome.error == "the script leaves 302 bytes, more than the 10 that it may"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("result['x'] = (", "Syntax error: '(' was never closed (line 1)"),
        ("x = 1\nresult['x'] = params['missing']", "KeyError: 'missing' (line 2)"),
        ("1 / 0", "ZeroDivisionError: division by zero (line 1)"),
        ("open('/etc/passwd')", "NameError: name 'open' is not defined (line 1)"),
        ("eval('1')", "NameError: name 'eval' is not defined (line 1)"),
        ("raise ValueError('too dear')", "ValueError: too dear (line 1)"),
        ("import os", "import is not available in scripts (line 1)"),
        ("result = 5", "'result' must stay a dict; the script made it int"),
    ],
)
def test_an_error_says_what_and_where(code: str, error: str) -> None:
    assert error_of(code) == error


@pytest.mark.parametrize("value", ["{1, 2}", "float('nan')", "{(1, 2): 3}", "len"])
def test_a_result_that_is_no_json_is_an_error(value: str) -> None:
    assert "result['x'] is not serializable" in error_of(f"result['x'] = {value}")


@pytest.mark.parametrize(
    "code",
    [
        "().__class__.__base__.__subclasses__()",
        "(each for each in ()).gi_frame",
        "result['x'] = __builtins__",
        "match []:\n    case list(__class__=found): pass",
        "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame",
    ],
)
def test_the_insides_of_objects_are_out_of_reach(code: str) -> None:
    assert "is not available in scripts" in error_of(code)


@pytest.mark.parametrize("name", ["getattr", "setattr", "type", "vars", "globals", "__import__"])
def test_doors_to_them_are_not_there(name: str) -> None:
    assert name in error_of(f"{name}('x')")


def test_a_script_that_does_not_end_times_out() -> None:
    outcome = ScriptExecutor(timeout=0.5).execute("while True: pass")
    assert outcome.error == "the script timed out after 500ms"


def test_a_script_that_takes_all_memory_ends_in_error() -> None:
    assert error_of("x = 'x' * (4 * 1024 ** 3)").startswith("MemoryError")


def test_another_language_is_refused() -> None:
    outcome = RUN.execute("1", language="perl")
    assert outcome.error is not None
    assert outcome.error.startswith("Unsupported script language 'perl'")


def test_params_that_are_no_json_are_an_error() -> None:
    outcome = RUN.execute("1", {"x": object()})
    assert outcome.error is not None
    assert "parameters of the script are not serializable" in outcome.error


def test_execute_script_raises_what_went_wrong() -> None:
    with pytest.raises(ScriptError, match="ZeroDivisionError"):
        execute_script("1 / 0")


def test_nothing_of_the_environment_reaches_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    # Hash randomisation is what a variable could change and a script could see.
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    seen = {execute_script("result['h'] = hash('text')")["h"] for _ in range(4)}
    assert len(seen) > 1
