"""The reference page of the settings, made from their table."""

from __future__ import annotations

from collections.abc import Set

from tools.reference_cli import option_names

from afl.config import FILE_NAME, FILE_VARIABLE, SETTINGS, Setting

_HEAD = f"""\
# Settings

Generated from the table in `afl.config`; do not edit.

A value is taken from the first of these that gives one:

1. a flag of the command, if it has one,
2. an environment variable `AFL_…`,
3. `{FILE_NAME}`: the file given to the command, or named by `{FILE_VARIABLE}`, or the one in the
   working directory,
4. the default.

`afl config show` prints every value and where it came from. In `{FILE_NAME}` a setting `group.key`
is `key` in the table `[group]`. Everything that is wrong is reported together, before anything
starts. Lists are separated in variables as in `PATH`.

A setting marked *secret* can also be read from a file, which is named by its variable with `_FILE`
at the end. Passwords in it are hidden wherever settings are printed.
"""


def settings_markdown() -> str:
    """The full text of docs/reference/settings.md."""
    flags = option_names()
    overview = ["| setting | variable | default |", "| --- | --- | --- |"]
    overview += [f"| `{s.name}` | `{s.variable}` | {_default(s)} |" for s in SETTINGS]
    return "\n".join([_HEAD, *overview, "", *(_section(each, flags) for each in SETTINGS)])


def _section(setting: Setting, flags: Set[str]) -> str:
    flag = f"`{setting.flag}`, where a command has it" if setting.flag in flags else "none"
    lines = [
        f"## `{setting.name}`",
        "",
        setting.help,
        "",
        f"- Value: {setting.kind.expected}",
        f"- Default: {_default(setting)}",
        f"- Flag: {flag}",
        f"- Variable: `{setting.variable}`",
    ]
    if setting.secret:
        lines.append(f"- Secret: yes; file variable `{setting.variable}_FILE`")
    return "\n".join([*lines, ""])


def _default(setting: Setting) -> str:
    if setting.default == ():
        return "empty"
    is_bool = isinstance(setting.default, bool)
    return f"`{str(setting.default).lower() if is_bool else setting.default}`"
