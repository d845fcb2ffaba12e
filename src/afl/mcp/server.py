"""The server: rows of tools and resources as the SDK wants them, and who may call what.

Lists are made anew for each request, because workflows come and go. Who only looks is not offered
what acts, and is told so when trying all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from starlette.requests import Request

from afl import telemetry
from afl.clock import SYSTEM_CLOCK
from afl.errors import AflError, UsageError
from afl.log import get_logger
from afl.mcp.access import OPERATOR, Role
from afl.mcp.arguments import Result, as_plain, read, schema_of
from afl.mcp.backend import Backend
from afl.mcp.resources import RESOURCES, Resource
from afl.mcp.tool import Call, Tool, new_waiters
from afl.mcp.tools import TOOLS
from afl.mcp.workflows import WorkflowTool, workflow_tool, workflow_tools

_log = get_logger(__name__)

NAME = "afl-mcp"
_JSON = "application/json"

_INSTRUCTIONS = (
    "afl runs durable workflows, written in AFL, whose tasks are done by workers. Each known "
    "workflow is a tool: calling it starts a run that survives crashes, waits for its outputs, and "
    "answers with a workflow_id if it takes longer; afl_runs then waits for it or shows its steps. "
    "Give an idempotency_key to be able to repeat a call safely. If a result has `unserved`, "
    "nobody does such tasks yet: register a handler with afl_manage_handlers, give the result "
    "yourself with afl_continue_step, or have somebody start a worker."
)

Context = ServerRequestContext[dict[str, Any], Any]


def create_server(backend: Backend, default_role: Role = OPERATOR) -> Server[dict[str, Any]]:
    """A server on a backend. `default_role` is that of calls without a token, as on stdio."""
    face = _Face(backend, default_role)
    return Server(
        NAME,
        version=backend.options.version,
        title="afl",
        description="Durable workflows for AI agents.",
        instructions=_INSTRUCTIONS,
        # No tool takes arguments from headers, so nothing need be looked up before a call.
        get_tool_input_schema=lambda _name: None,
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
        on_list_resources=face.list_resources,
        on_list_resource_templates=face.list_templates,
        on_read_resource=face.read_resource,
    )


class _Face:
    def __init__(self, backend: Backend, default_role: Role) -> None:
        self._backend = backend
        self._default_role = default_role
        self._waiters = new_waiters()

    # Tools

    async def list_tools(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        role = self._role(context)
        found = [_described(each) for each in TOOLS.values() if role.may_act or _can_look(each)]
        if role.may_act:
            workflows = await anyio.to_thread.run_sync(workflow_tools, self._backend)
            found += [_described_workflow(each) for each in workflows.values()]
        return types.ListToolsResult(tools=found)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            with self._backend.in_hand():
                answer = as_plain(await self._called(context, params.name, params.arguments or {}))
        except AflError as error:
            answer = _failure(error)
        except Exception:
            _log.error("mcp_tool_broke", tool=params.name, exc_info=True)
            text = "afl failed to do this because of a defect; its log says more. Nothing was lost"
            answer = {"success": False, "error": text}
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=_as_json(answer))],
            structured_content=answer,
            is_error=not answer["success"],
        )

    async def _called(self, context: Context, name: str, given: dict[str, Any]) -> Result:
        role = self._role(context)

        async def report(progress: float, message: str) -> None:
            await context.session.report_progress(progress, None, message)

        call = Call(self._backend, role, report, self._waiters)
        tool = TOOLS.get(name)
        if tool is None:
            with _noted(role, name, ""):
                _require_operator(role, name)
                found = await anyio.to_thread.run_sync(workflow_tool, self._backend, name)
                return await found.run(call, given)
        arguments = read(tool.arguments, given)
        if not tool.acts(arguments):
            return await tool.run(call, arguments)
        with _noted(role, name, _subject(given)):
            _require_operator(role, name)
            return await tool.run(call, arguments)

    # Resources

    async def list_resources(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=each.uri, name=each.name, description=each.description, mime_type=_JSON
                )
                for each in RESOURCES
                if not each.is_template
            ]
        )

    async def list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=each.uri,
                    name=each.name,
                    description=each.description,
                    mime_type=_JSON,
                )
                for each in RESOURCES
                if each.is_template
            ]
        )

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        found, argument = _matching(uri)
        try:
            read = found.reader(self._role(context))
            value = await anyio.to_thread.run_sync(read, self._backend, argument)
        except AflError as error:
            # Whoever asked named something that is not there, or cannot be read now.
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
        content = types.TextResourceContents(uri=uri, text=_as_json(value), mime_type=_JSON)
        return types.ReadResourceResult(contents=[content])

    def _role(self, context: Context) -> Role:
        """Who sent this message, not who began the session."""
        request = context.request
        if isinstance(request, Request) and "user" in request.scope:
            return Role.of_scopes(request.user.scopes)
        return self._default_role


# Tools


def _described(tool: Tool) -> types.Tool:
    hints = tool.hints
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.arguments),
        output_schema=schema_of(tool.result),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=hints.is_read_only,
            destructive_hint=hints.is_destructive,
            idempotent_hint=hints.is_idempotent,
            open_world_hint=not hints.is_read_only,
        ),
    )


def _described_workflow(tool: WorkflowTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        # What its handlers do is not known here.
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=False,
            destructive_hint=True,
            idempotent_hint=False,
            open_world_hint=True,
        ),
    )


def _can_look(tool: Tool) -> bool:
    """Whether a tool is of use to who may not act: some only act, others do both."""
    return tool.hints.is_read_only or tool.looks_too


def _require_operator(role: Role, tool: str) -> None:
    if not role.may_act:
        raise UsageError(
            f"{tool} changes something, and that needs the operator's token; this connection may "
            "only look (afl_runs, afl_compile, afl_validate, and what lists and shows)"
        )


#: Arguments that say what a call is about; others may be long, or secret.
_TOLD = ("action", "runner_id", "workflow_id", "step_id", "facet_name", "turn_id", "workflow_name")


def _subject(given: Mapping[str, Any]) -> str:
    return " ".join(str(given[name]) for name in _TOLD if given.get(name))


@contextmanager
def _noted(role: Role, tool: str, subject: str) -> Iterator[None]:
    """What is done here is for the audit, as what is done by the dashboard."""
    outcome = "done"
    try:
        yield
    except AflError as error:
        outcome = f"refused: {error}"
        raise
    finally:
        telemetry.emit(
            telemetry.OperatorActed(
                at=SYSTEM_CLOCK.now(),
                caller=f"mcp {role.name}",
                action=tool,
                subject=subject,
                outcome=outcome,
            )
        )


def _failure(error: AflError) -> dict[str, Any]:
    answer: dict[str, Any] = {"success": False, "error": str(error)}
    diagnostics = getattr(error, "diagnostics", None)
    if diagnostics is not None:
        answer["errors"] = [str(each) for each in diagnostics]
    return answer


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# Resources


@dataclass(frozen=True)
class _Route:
    template: UriTemplate
    resource: Resource


_ROUTES = tuple(_Route(UriTemplate.parse(each.uri), each) for each in RESOURCES)


def _matching(uri: str) -> tuple[Resource, str]:
    for each in _ROUTES:
        found = each.template.match(uri)
        if found is not None:
            return each.resource, str(next(iter(found.values()), ""))
    known = ", ".join(each.uri for each in RESOURCES)
    raise MCPError(
        types.INVALID_PARAMS, f"Unknown resource: {uri}; there are {known}", {"uri": uri}
    )
