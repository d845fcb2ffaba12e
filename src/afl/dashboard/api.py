"""The same things as JSON, for programs: bearer tokens, problems as RFC 9457 has them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.acts import Done
from afl.dashboard.desk import Asked, Desk
from afl.dashboard.problems import NO_STORE, NOT_FOUND, NOT_NOW, told
from afl.dashboard.reading import query_of
from afl.dashboard.routes import ACTS, LOOKS, Act, Look
from afl.gateway import problems
from afl.gateway.access import Access, Right, Visitor
from afl.gateway.bodies import ProblemBody
from afl.gateway.problems import Kind, Problem
from afl.gateway.requests import body_of, decoded

#: Of the API, not of afl: grows when clients must change.
VERSION = "1"
_REF = "#/components/schemas/{name}"
_IN_PATH = re.compile(r"\{(\w+)\}")
#: What every request can meet, what one for a thing can, and what one with a body can.
_ALWAYS = (
    *(problems.UNAUTHORIZED, problems.FORBIDDEN, problems.INVALID),
    *(problems.NO_SUCH_PATH, problems.INTERNAL, NO_STORE),
)
_OF_THINGS = (NOT_FOUND, problems.NO_SUCH_TURN, NOT_NOW)
_OF_CHANGES = (
    *(problems.BAD_JSON, problems.TOO_SLOW, problems.TOO_LARGE, problems.NOT_A_TYPE),
    *(problems.ENDED, problems.BUSY, problems.NOTHING_ASKED, problems.ANSWERED, NOT_NOW),
    *(NOT_FOUND, problems.NO_SUCH_TURN),
)


class Api:
    """All that programs are answered. Methods raise Problem, and what `told` knows."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self._desk = desk
        self._access = access

    async def openapi(self, request: Request) -> Response:
        self._admitted(request)
        base = str(request.scope.get("root_path", ""))
        return _json({**document(), "servers": [{"url": f"{base}/api"}]})

    async def look(self, look: Look, request: Request) -> Response:
        visitor = self._admitted(request)
        query = query_of(request.query_params, look.query)
        asked = Asked(visitor, dict(request.path_params), query)
        return _json(await anyio.to_thread.run_sync(partial(look.do, self._desk, asked)))

    async def act(self, act: Act, request: Request) -> Response:
        visitor = self._admitted(request)
        query_of(request.query_params, {})
        subject = " ".join(request.path_params.values())
        if not visitor.may(Right.ACT):
            self._desk.note(visitor, act.name, subject, "refused: may only look")
            raise Problem(problems.FORBIDDEN, f"the token {visitor.name} may only look")
        limits = self._desk.limits
        body: Any = decoded(
            await body_of(request.receive, request.headers, limits), act.body, limits
        )
        asked = Asked(visitor, dict(request.path_params), {}, body)
        try:
            done = await anyio.to_thread.run_sync(partial(act.do, self._desk, asked))
        except Exception as error:
            problem = told(error)
            if problem is not None:
                self._desk.note(visitor, act.name, subject, f"refused: {problem.detail}")
            raise
        self._desk.note(visitor, act.name, done.subject)
        return _json(done)

    def refused(self, problem: Problem) -> Response:
        return Response(
            msgspec.json.encode(problem.body()),
            int(problem.kind.status),
            problem.all_headers(),
            media_type=problems.MEDIA_TYPE,
        )

    def _admitted(self, request: Request) -> Visitor:
        visitor = self._access.visitor(request.headers.get("authorization", ""))
        if visitor is None:
            text = "send a token of this server: Authorization: Bearer TOKEN"
            raise Problem(problems.UNAUTHORIZED, text, headers={"www-authenticate": "Bearer"})
        if not visitor.may(Right.LOOK, Right.ALL):
            text = f"the token {visitor.name} is for the turn API only"
            raise Problem(problems.FORBIDDEN, text)
        return visitor


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")


# The document


@cache
def document() -> dict[str, Any]:
    """OpenAPI, made from the tables."""
    types = [each.answer for each in LOOKS] + [each.body for each in ACTS] + [Done, ProblemBody]
    _, schemas = msgspec.json.schema_components(types, schema_hook=_any, ref_template=_REF)
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for look in LOOKS:
        paths[look.path]["get"] = _looking(look)
    for act in ACTS:
        paths[act.path]["post"] = _acting(act)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dashboard API",
            "version": VERSION,
            "description": "Look at runs, tasks, servers, handlers, turns and mailboxes; act.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _any(kind: type) -> dict[str, Any]:  # noqa: ARG001 - written as text
    return {}


def _looking(look: Look) -> dict[str, Any]:
    query = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _inline(kind),
        }
        for name, kind in look.query.items()
    ]
    found = _operation(look, _schema(look.answer), _OF_THINGS)
    parameters = [*_of_path(look.path), *query]
    return {**found, "parameters": parameters} if parameters else found


def _acting(act: Act) -> dict[str, Any]:
    content = {"application/json": {"schema": _schema(act.body)}}
    found = {
        **_operation(act, _schema(Done), _OF_CHANGES),
        "requestBody": {"required": True, "content": content},
    }
    parameters = _of_path(act.path)
    return {**found, "parameters": parameters} if parameters else found


def _operation(each: Look | Act, schema: Any, refusals: Sequence[Kind]) -> dict[str, Any]:
    by_status: defaultdict[str, list[Kind]] = defaultdict(list)
    for kind in (*_ALWAYS, *refusals):
        by_status[str(int(kind.status))].append(kind)
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    return {
        "operationId": each.name,
        "summary": each.meaning.partition(". ")[0].rstrip("."),
        "description": each.meaning,
        "responses": {
            "200": answer,
            **{status: _refusal(by_status[status]) for status in sorted(by_status)},
        },
    }


def _refusal(kinds: Sequence[Kind]) -> dict[str, Any]:
    return {
        "description": "; ".join(f"{each.title} (`{each.type}`)" for each in kinds) + ".",
        "content": {problems.MEDIA_TYPE: {"schema": _schema(ProblemBody)}},
    }


def _of_path(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in _IN_PATH.findall(path)
    ]


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], schema_hook=_any, ref_template=_REF)
    return dict(schema)


def _inline(kind: Any) -> dict[str, Any]:
    """Of a small type, written out."""
    schema = msgspec.json.schema(kind)
    if "$ref" in schema:
        (schema,) = schema["$defs"].values()
    return {name: value for name, value in schema.items() if name != "$defs"}
