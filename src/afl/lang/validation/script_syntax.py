"""A script can be compiled as Python. It is never run here."""

import warnings
from dataclasses import replace

from afl.lang import ast
from afl.lang.ast import SourceLocation
from afl.lang.codes import SCRIPT_SYNTAX
from afl.lang.validation.rule import Report, Rule


def check(report: Report, script: ast.ScriptBlock) -> None:
    if script.language != "python":
        return
    problem = _problem(script.code)
    if problem is None:
        return
    message = f"This script is no Python: {problem.msg}"
    place = _place(script, problem)
    if place is None:
        report(SCRIPT_SYNTAX, f"{message} (line {problem.lineno or 1} of the script)", script)
    else:
        report(SCRIPT_SYNTAX, message, replace(script, location=place))


def _problem(code: str) -> SyntaxError | None:
    """What the process that runs scripts would say before it begins with this one."""
    with warnings.catch_warnings():
        # Python's advice is no reason to refuse a script, also where warnings are errors.
        warnings.simplefilter("ignore")
        try:
            compile(code, "<script>", "exec", dont_inherit=True)
        except SyntaxError as problem:
            return problem
        except ValueError as problem:  # a NUL
            return SyntaxError(str(problem))
        except (RecursionError, MemoryError):
            return None  # too deep for this stack, perhaps not for that of the script
    return None


def _place(script: ast.ScriptBlock, problem: SyntaxError) -> SourceLocation | None:
    """Where the text has it; None if nobody knows which line of the text that is."""
    if not script.places or problem.lineno is None or script.location is None:
        return None
    # What is missing at the end is missing on the last line.
    number = min(problem.lineno, len(script.places))
    line, start = script.places[number - 1]
    column = max(start + (problem.offset or 1) - 1, 1)
    length = 1
    if problem.end_lineno == problem.lineno and problem.offset and problem.end_offset:
        length = max(problem.end_offset - problem.offset, 1)
    return SourceLocation(line, column, line, column + length, script.location.source_id)


RULE = Rule("script syntax", (SCRIPT_SYNTAX,), script=check)
