"""A script has code, in Python."""

from afl.lang import ast
from afl.lang.codes import SCRIPT_EMPTY, SCRIPT_LANGUAGE
from afl.lang.validation.rule import Report, Rule


def check(report: Report, script: ast.ScriptBlock) -> None:
    if script.language != "python":
        message = f"Scripts are written in python, not in '{script.language}'"
        report(SCRIPT_LANGUAGE, message, script)
    if not script.code.strip():
        report(SCRIPT_EMPTY, "Script block must contain code", script)


RULE = Rule("scripts", (SCRIPT_EMPTY, SCRIPT_LANGUAGE), script=check)
