"""The other side of `script_executor`: a program that runs one script and says how it ended.

It is started as a file in a bare interpreter, so it imports nothing of this package. It reads one
JSON object from standard input and writes one to standard output; the script can reach neither.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import sys
from typing import Any

#: What a script can call. Nothing here leads to files, modules or the insides of objects.
BUILTINS = (
    *("bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str"),
    *("tuple", "abs", "all", "any", "ascii", "bin", "chr", "divmod", "enumerate", "filter"),
    *("format", "hash", "hex", "isinstance", "issubclass", "iter", "len", "map", "max", "min"),
    *("next", "oct", "ord", "pow", "range", "repr", "reversed", "round", "slice", "sorted"),
    *("sum", "zip", "Exception", "ArithmeticError", "AssertionError", "AttributeError"),
    *("IndexError", "KeyError", "LookupError", "NameError", "NotImplementedError"),
    *("OverflowError", "RecursionError", "RuntimeError", "StopIteration", "TypeError"),
    *("UnicodeError", "ValueError", "ZeroDivisionError"),
)

#: Attributes of frames, code and tracebacks: from any of them the whole interpreter is in reach.
_DOORS = ("_", "gi_", "cr_", "ag_", "f_", "tb_", "co_")

_FILE = "<script>"


class Refused(Exception):  # noqa: N818 - what happened
    """The script asks for what scripts may not have."""


def main() -> None:
    request = json.load(sys.stdin.buffer)
    limit(request["limits"])
    sys.stdout.buffer.write(json.dumps(answer(request)).encode("ascii"))


def limit(limits: dict[str, int]) -> None:
    """Give up what a script does not need, as far as this platform knows how."""
    try:
        import resource
    except ImportError:
        return
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):
            continue  # a platform, or a parent with a lower limit, may not allow this one


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What to tell the parent: `result`, `params` and `output`, or `error`."""
    printed = Printed(request["max_output"])
    names = {"params": request["params"], "result": {}}
    error = run(request["code"], names, printed)
    if error is None:
        error = problem_with(names, request["max_output"])
    if error is not None:
        return {"error": error, "output": printed.text()}
    return {"result": names["result"], "params": names["params"], "output": printed.text()}


class Printed:
    """What the script has printed, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = io.StringIO()

    def print(self, *values: object, sep: str = " ", end: str = "\n") -> None:
        room = self._limit - self._text.tell()
        self._text.write((sep.join(str(each) for each in values) + end)[:room])

    def text(self) -> str:
        return self._text.getvalue()


def run(code: str, names: dict[str, Any], printed: Printed) -> str | None:
    """Run the script on `names`; what went wrong, or None."""
    allowed = {name: getattr(builtins, name) for name in BUILTINS}
    names["__builtins__"] = {**allowed, "print": printed.print}
    try:
        tree = ast.parse(code, _FILE)
        check(tree)
        exec(compile(tree, _FILE, "exec"), names)  # noqa: S102 - that is the job
    except SyntaxError as error:
        return f"Syntax error: {error.msg} (line {error.lineno})"
    except Refused as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}{_place(error)}"
    return None


def check(tree: ast.AST) -> None:
    """Refuse what walks out of the script's own values. Raises Refused."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            raise Refused(f"import is not available in scripts (line {node.lineno})")
        for name in _attributes(node):
            if name.startswith(_DOORS):
                line = getattr(node, "lineno", 0)
                raise Refused(f"'{name}' is not available in scripts (line {line})")


def _attributes(node: ast.AST) -> list[str]:
    """The names by which a node reaches into an object, and dunder names."""
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.MatchClass):  # `case list(__class__=x)` reads an attribute as well
        return node.kwd_attrs
    return [node.id] if isinstance(node, ast.Name) and node.id.startswith("__") else []


def _place(error: BaseException) -> str:
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""


def problem_with(names: dict[str, Any], max_output: int) -> str | None:
    """Why what the script leaves behind cannot be handed over, or None."""
    size = 0
    for name in ("result", "params"):
        values = names.get(name)
        if not isinstance(values, dict):
            return f"'{name}' must stay a dict; the script made it {type(values).__name__}"
        for key, value in values.items():
            if not isinstance(key, str):
                return f"{name}[{key!r}] is not serializable: names must be strings"
            try:
                size += len(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as error:
                return f"{name}[{key!r}] is not serializable: {error}"
    if size > max_output:
        return f"the script leaves {size} bytes, more than the {max_output} that it may"
    return None


if __name__ == "__main__":
    main()
