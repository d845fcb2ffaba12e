"""The reference page of the command line, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from afl.cli.app import app

_HEAD = """\
# Command line

Generated from the commands of `afl.cli`; do not edit.

`afl` and `python -m afl` are the same. Results go to standard output; problems, warnings and
progress go to standard error.

| exit code | meaning |
| --- | --- |
| 0 | All is well; there may have been warnings. |
| 1 | The AFL program has problems, a file is not in the form that was asked for, or a run failed. |
| 2 | The request was wrong: a missing file, an unknown option, a setting that cannot be used. |
| 130 | Interrupted from the keyboard; a run can go on. |

Options that stand before the command's name belong to `afl` itself and hold for every command.
Many of them are [settings](settings.md), which variables and `afl.toml` can give as well.
"""

_WRONG_REQUEST = "A path does not exist or has no AFL, or a setting cannot be used."

#: What the exit codes of each command say. A command that is not here cannot be documented.
EXIT_CODES: dict[str, dict[int, str]] = {
    "afl": {0: "Help or the version was printed.", 2: "No such command or option."},
    "afl check": {
        0: "No errors. Without `--strict` there may be warnings.",
        1: "There are errors; under `--strict`, errors or warnings.",
        2: _WRONG_REQUEST,
    },
    "afl compile": {
        0: "The JSON was written.",
        1: "There are errors; nothing was written.",
        2: f"{_WRONG_REQUEST} Or the output cannot be written.",
    },
    "afl fmt": {
        0: "Every file is formatted now; with `--check`, it was already.",
        1: "A file cannot be parsed (it is left as it is); with `--check`, a file would change.",
        2: "A path does not exist or has no AFL, or a file cannot be written.",
    },
    "afl graph": {
        0: "The drawing was written.",
        1: "There are errors; nothing was written.",
        2: f"{_WRONG_REQUEST} Or there is no such workflow or format, or no single workflow.",
    },
    "afl run": {
        0: "The run is completed; its outputs were printed.",
        1: "The program has errors and nothing was started, or the run failed or was cancelled.",
        2: f"{_WRONG_REQUEST} Or a name, an input or a handler is missing or wrong, or there is "
        "no such run. Nothing was started.",
        130: "Interrupted by SIGINT or SIGTERM. The command that goes on was printed.",
    },
    "afl prune": {
        0: "The runs were removed; with `--dry-run`, counted.",
        2: "A setting cannot be used.",
    },
    "afl config": {0: "Help was printed.", 2: "No such command or option."},
    "afl config show": {0: "The settings were printed.", 2: "A setting cannot be used."},
}


def cli_markdown() -> str:
    """The full text of docs/reference/cli.md."""
    found = list(commands())
    overview = ["| command | does |", "| --- | --- |"]
    overview += [f"| [`{path}`](#{anchor(path)}) | {summary(each)} |" for path, each, _ in found]
    sections = [_section(path, each, context) for path, each, context in found]
    return "\n".join([_HEAD, *overview, "", *sections])


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Every command with its full name and its context, outer ones first."""
    pending: list[tuple[str, Any, Any]] = [("afl", typer.main.get_command(app), None)]
    while pending:
        name, command, parent = pending.pop(0)
        context = command.make_context(name, [], parent=parent, resilient_parsing=True)
        yield context.command_path, command, context
        inner = getattr(command, "commands", {})
        pending = [(each, inner[each], context) for each in inner] + pending


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return " ".join((command.help or "").split()).partition(". ")[0].rstrip(".") + "."


def anchor(path: str) -> str:
    """The anchor of a command's section on the page."""
    return path.replace(" ", "-")


def _section(path: str, command: Any, context: Any) -> str:
    lines = [f"## `{path}`", "", " ".join((command.help or "").split()), ""]
    lines += ["```text", _usage(path, command, context), "```", ""]
    params = command.get_params(context)
    arguments = [each for each in params if each.param_type_name == "argument"]
    options = [each for each in params if each.param_type_name == "option"]
    if arguments:
        lines += ["| argument | |", "| --- | --- |"]
        lines += [f"| {_code(_argument_name(each))} | {_help(each)} |" for each in arguments]
        lines.append("")
    lines += ["| option | |", "| --- | --- |"]
    lines += [f"| {_spelling(each)} | {_help(each)} |" for each in options]
    lines += ["", "| exit code | when |", "| --- | --- |"]
    lines += [f"| {code} | {when} |" for code, when in EXIT_CODES[path].items()]
    return "\n".join([*lines, ""])


def _usage(path: str, command: Any, context: Any) -> str:
    """As people write it; the library's own usage line repeats the dots of a list."""
    params = command.get_params(context)
    names = [_argument_name(each) for each in params if each.param_type_name == "argument"]
    after = ["COMMAND", "..."] if getattr(command, "commands", None) else names
    return " ".join([path, "[OPTIONS]", *after])


def _argument_name(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _spelling(option: Any) -> str:
    spellings = sorted([*option.opts, *option.secondary_opts], key=len)
    value = "" if option.is_flag or option.count else f" {option.metavar or 'TEXT'}"
    return ", ".join(_code(f"{each}{value}") for each in spellings)


def _code(text: str) -> str:
    """Code in a cell of a table, where a bar would end the cell."""
    return f"`{text}`".replace("|", "\\|")


def _help(param: Any) -> str:
    text = str(param.help or "")
    is_shown = param.param_type_name == "option" and isinstance(param.default, str)
    notes = [f"Default: `{param.default}`."] if is_shown else []
    notes += ["May be given several times."] if getattr(param, "multiple", False) else []
    return " ".join([text, *notes])
