"""The tools of the server, by subject. Each is a row: what it takes, gives and does."""

from __future__ import annotations

from afl.mcp.tool import Tool
from afl.mcp.tools import handlers, operating, programs, runs, turns

TOOLS: dict[str, Tool] = {
    each.name: each
    for each in (*programs.TOOLS, *runs.TOOLS, *operating.TOOLS, *handlers.TOOLS, *turns.TOOLS)
}
