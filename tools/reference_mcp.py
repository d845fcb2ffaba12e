"""The reference page of the MCP server, made from its tools and resources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from afl.mcp.arguments import schema_of
from afl.mcp.following import LONGEST_S, WAIT_S
from afl.mcp.resources import RESOURCES
from afl.mcp.tool import Tool
from afl.mcp.tools import TOOLS

_HEAD = f"""\
# MCP server

Generated from the tools and resources of `afl.mcp`; do not edit.

[`afl mcp`](cli.md#afl-mcp) serves the Model Context Protocol on standard input and output, or over
streamable HTTP at `/mcp`. [How to use it](../how-to/use-afl-from-an-llm.md).

- The result of each tool is an object, as text and as structured content. `success` says whether it
  was done; if not, `error` says why and what to do, and the result is an error of the tool.
- A tool *acts* if it changes something. Over HTTP that needs the operator's token; with
  `--read-only` nobody may. Who may not act sees of turns what their callers do: no arguments or
  results of tools, no memory, no notes.
- What starts or asks for a run waits for its end, {WAIT_S:g} s unless `wait_seconds` says otherwise
  (at most {LONGEST_S:g}), and reports progress. It ends sooner if nobody is there who could do
  anything for the run: `unserved` names the facets, `note` says what would help. The run goes on.

## Workflows

Each workflow of the given programs, and of the newest programs of the store, is a tool that acts.

| part | is |
| --- | --- |
| name | the short name, such as `Checkout`; with its namespace, such as `shop_Checkout`, if \
another workflow has it |
| description | its doc comment |
| arguments | its parameters, with types, defaults and what `@param` says |
| `wait_seconds`, `idempotency_key` | as of `afl_execute_workflow`; called `afl_…` if the workflow \
has parameters of these names |
| result | as of `afl_execute_workflow`; `outputs` has what it yields |

Of several programs with the same workflow, a given one counts, and else the one that was run last.
"""


#: Of every result; told at the top.
_OF_ALL = ("success", "error")


def mcp_markdown() -> str:
    return "\n".join([_HEAD, "## Tools", "", *_tools(), *_resources()])


def _tools() -> Iterator[str]:
    for tool in TOOLS.values():
        yield from (f"### {tool.name}", "", tool.description, "", _hints(tool), "")
        yield from _table("argument", schema_of(tool.arguments))
        yield from _table("result", schema_of(tool.result))


def _hints(tool: Tool) -> str:
    if tool.hints.is_read_only:
        return "Only looks."
    words = ["Acts" + (", unless the action only looks." if tool.looks_too else ".")]
    if tool.hints.is_destructive:
        words.append("May end or replace something.")
    if tool.hints.is_idempotent:
        words.append("The same call again changes nothing more.")
    return " ".join(words)


def _table(head: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"| {head} | type | |", "| --- | --- | --- |")
    required = schema.get("required", [])
    for name, each in schema["properties"].items():
        if head == "result" and name in _OF_ALL:
            continue
        facts = [each.get("description", "")]
        if head == "argument":
            facts.append("Required." if name in required else _default(each))
        text = " ".join(fact for fact in facts if fact).replace("|", "\\|")
        yield f"| `{name}` | {_type(each)} | {text} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each)
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", "any"))


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return f"Default: `{json.dumps(default)}`." if default not in (None, "", [], {}) else ""


def _resources() -> Iterator[str]:
    yield from ("## Resources", "", "All are JSON; times are milliseconds since 1970. An address")
    yield from ("that names nothing is an error of the protocol.", "")
    yield from ("| address | has |", "| --- | --- |")
    for each in RESOURCES:
        yield f"| `{each.uri}` | {each.description} |"
