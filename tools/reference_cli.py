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
_WRONG_SETTING = "A setting or an option cannot be used."
_NO_SUCH_RUN = "There is no such run, or several begin like that."
_NO_SUCH_TASK = "There is no such task, or several begin like that."
_NO_SUCH_SERVER = "There is no such server, or several begin like that."
_NO_SUCH_HANDLER = "The facet has no registered handler."
_NO_SUCH_TURN = "There is no such turn."
_NO_SUCH_PLACE = "The URL names no place for mailboxes, or it cannot be reached."
_HELP = {0: "Help was printed.", 2: "No such command or option."}

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
    "afl submit": {
        0: "The run was started; with `--wait`, it is completed and its outputs were printed.",
        1: "The program has errors and nothing was started; with `--wait`, the run failed or was "
        "cancelled.",
        2: f"{_WRONG_REQUEST} Or a name or an input is missing or wrong. Nothing was started.",
        130: "With `--wait`: interrupted, or not over after `--timeout`. The run goes on.",
    },
    "afl mcp": {
        0: "The client closed its end, or a signal stopped the server. Runs go on.",
        1: "The program has errors; nothing was served.",
        2: f"{_WRONG_REQUEST} Or the address cannot be used, or would be open without a token.",
    },
    "afl dashboard": {
        0: "Stopped by a signal.",
        1: "The program has errors, or the dashboard failed.",
        2: f"{_WRONG_SETTING} Or the port is taken, or it would be open without a token.",
    },
    "afl worker": {
        0: "Stopped by a signal: all tasks ended, or were given back.",
        1: "The worker failed.",
        2: f"{_WRONG_SETTING} Or there is no drain deadline, or a module has no handlers.",
    },
    "afl serve": {
        0: "Stopped by a signal: all turns ended, were handed over, or are checkpointed.",
        1: "A part of the service failed.",
        2: "There is no such app, its code fails, there is no drain deadline, a port is taken, or "
        "a setting cannot be used.",
    },
    "afl runs": _HELP,
    "afl runs list": {0: "The runs were printed.", 2: _WRONG_SETTING},
    "afl runs show": {0: "The run was printed.", 2: _NO_SUCH_RUN},
    "afl runs check": {
        0: "Nothing waits for ever.",
        1: "Something waits for what nobody will do.",
        2: _NO_SUCH_RUN,
    },
    "afl runs logs": {
        0: "The log was printed; with `--follow`, until the end of the run.",
        2: _NO_SUCH_RUN,
        130: "With `--follow`: interrupted.",
    },
    "afl runs cancel": {0: "The run is over, now or before.", 2: _NO_SUCH_RUN},
    "afl runs pause": {0: "The run is paused, or over.", 2: _NO_SUCH_RUN},
    "afl runs resume": {0: "The run is not paused.", 2: _NO_SUCH_RUN},
    "afl runs retry": {
        0: "Steps will be tried again.",
        1: "None of the failed steps can be tried again; the reasons were printed.",
        2: f"{_NO_SUCH_RUN} Or nothing of it has failed.",
    },
    "afl tasks": _HELP,
    "afl tasks list": {0: "The tasks were printed.", 2: _WRONG_SETTING},
    "afl tasks queues": {0: "The queues were printed.", 2: _WRONG_SETTING},
    "afl tasks show": {0: "The task was printed.", 2: _NO_SUCH_TASK},
    "afl tasks retry": {
        0: "The task will be tried again.",
        2: f"{_NO_SUCH_TASK} Or it cannot be tried again.",
    },
    "afl tasks discard": {
        0: "The task is given up, now or before.",
        2: f"{_NO_SUCH_TASK} Or somebody works on it.",
    },
    "afl handlers": _HELP,
    "afl handlers add": {
        0: "The handler is registered.",
        2: f"{_WRONG_SETTING} Or no worker could use what was given.",
    },
    "afl handlers list": {0: "The handlers were printed.", 2: _WRONG_SETTING},
    "afl handlers show": {0: "The handler was printed.", 2: _NO_SUCH_HANDLER},
    "afl handlers remove": {0: "The handler is removed.", 2: _NO_SUCH_HANDLER},
    "afl handlers enable": {0: "The handler is enabled.", 2: _NO_SUCH_HANDLER},
    "afl handlers disable": {0: "The handler is disabled.", 2: _NO_SUCH_HANDLER},
    "afl handlers verify": {
        0: "All can be loaded here.",
        1: "Some cannot; the reasons were printed.",
        2: _NO_SUCH_HANDLER,
    },
    "afl servers": {0: "The servers were printed.", 2: _WRONG_SETTING},
    "afl servers list": {0: "The servers were printed.", 2: _WRONG_SETTING},
    "afl servers drain": {0: "The server was asked.", 2: f"{_NO_SUCH_SERVER} Or it is not alive."},
    "afl servers undrain": {0: "The server was asked.", 2: _NO_SUCH_SERVER},
    "afl eval": {
        0: "All samples have results; with `--min-pass-rate`, enough of them passed.",
        1: "Fewer samples passed than `--min-pass-rate` asks for.",
        2: "The dataset has wrong lines, or a name or an option cannot be used. Nothing was done.",
        130: "Interrupted by SIGINT or SIGTERM. What has a result is kept.",
    },
    "afl mailbox": _HELP,
    "afl mailbox list": {0: "The mailboxes were printed.", 2: _NO_SUCH_PLACE},
    "afl mailbox depth": {0: "The counts were printed.", 2: _NO_SUCH_PLACE},
    "afl mailbox peek": {0: "The messages were printed.", 2: _NO_SUCH_PLACE},
    "afl mailbox dead-letters": {0: "The dead letters were printed.", 2: _NO_SUCH_PLACE},
    "afl mailbox redrive": {
        0: "The dead letters, if there were any, will be tried again.",
        2: f"{_NO_SUCH_PLACE} Or none of the messages that were named is a dead letter.",
    },
    "afl turns": _HELP,
    "afl turns list": {0: "The turns were printed.", 2: _WRONG_SETTING},
    "afl turns show": {0: "The checkpoint was printed.", 2: _NO_SUCH_TURN},
    "afl turns resume": {0: "The turn goes on.", 2: f"{_NO_SUCH_TURN} Or it goes on, or is over."},
    "afl turns answer": {
        0: "The turn has this answer.",
        2: f"{_NO_SUCH_TURN} Or it asks nothing, or has another answer.",
    },
    "afl turns effects": {0: "The effects were printed.", 2: _WRONG_SETTING},
    "afl turns settle": {
        0: "The effect is settled in this way.",
        2: f"{_NO_SUCH_TURN} Or it has no such effect, or that was settled in another way.",
    },
    "afl turns cancel": {0: "The turn is cancelled.", 2: f"{_NO_SUCH_TURN} Or it is over."},
    "afl migrate": {
        0: "Everything is up to date now; with `--check`, it was already.",
        1: "With `--check`: something is behind.",
        2: "A newer afl has changed the tables, or the user may not. "
        "Or there is no such database, or it cannot be reached.",
    },
    "afl store": _HELP,
    "afl store copy": {
        0: "Everything is at the destination, and the same as at the source.",
        1: "Something differs; the message names it.",
        2: "One of the places is in use, or cannot be reached, or they are the same. "
        "Or the destination has anything of its own, or has taken a complete copy before.",
        130: "Interrupted; the same command goes on with it.",
    },
    "afl prune": {
        0: "The runs were removed; with `--dry-run`, counted.",
        2: "A setting cannot be used.",
    },
    "afl deploy": {
        0: "The files were printed or written.",
        2: f"{_WRONG_SETTING} Or the drain does not fit on the platform, or a file says something "
        "else. Nothing was written.",
    },
    "afl doctor": {
        0: "Nothing will go wrong as far as can be seen; there may be warnings.",
        1: "Something will; what to do was printed.",
        2: _WRONG_SETTING,
    },
    "afl config": _HELP,
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


def option_names() -> frozenset[str]:
    """Of all commands, with their dashes."""
    options = (each for _, command, _ in commands() for each in command.params)
    return frozenset(name for each in options for name in (*each.opts, *each.secondary_opts))


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
