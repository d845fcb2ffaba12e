"""The turn API as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Served

from afl.clock import SYSTEM_CLOCK, Clock
from afl.gateway import problems
from afl.gateway.access import Access, Token, Visitor, host_of, is_loopback
from afl.gateway.bodies import json_of
from afl.gateway.desk import Desk, LoopInfo, always_ready, loops_of
from afl.gateway.headers import KEY, PLACE
from afl.gateway.news import NewsHub
from afl.gateway.openapi import document
from afl.gateway.problems import Problem, problem_of
from afl.gateway.requests import Limits, Receive, body_of, decoded
from afl.gateway.routes import FOLLOW, ROUTES, SUBMIT, Asked, Route
from afl.gateway.streams import Send, Streams
from afl.log import get_logger
from afl.runtime.health import Report
from afl.turns.api import TurnStore
from afl.turns.tokens import Tokens

_log = get_logger(__name__)

Scope = MutableMapping[str, Any]
_Answer = Callable[[Request], Awaitable[Response]]


class TurnApp:
    """An ASGI application; `make_app` makes one."""

    def __init__(self, desk: Desk, origins: Sequence[str] = ()) -> None:
        self.desk = desk
        self.hub = NewsHub(desk.store)
        self._streams: Streams | None = None
        self._document = json_of(document(needs_token=not desk.access.is_open))
        self._app = Starlette(
            routes=_served(self),
            middleware=_cors(origins),
            exception_handlers={HTTPException: _refused},  # type: ignore[dict-item]
        )
        self._app.router.redirect_slashes = False

    @property
    def open_streams(self) -> int:
        return 0 if self._streams is None else self._streams.count

    def end_streams(self) -> None:
        """Let open streams send what there is, and end. From any thread."""
        self.hub.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began_at, seen = self.desk.clock.monotonic(), _Seen(send)
        try:
            await self._app(scope, receive, seen)
        except Exception:
            # Starlette has answered; and what it raises again, nobody else must see.
            _log.exception("http_failed", path=scope["path"])
        finally:
            _log.info(
                "http_request",
                method=scope["method"],
                path=scope["path"],
                status=seen.status,
                visitor=scope.get("afl.visitor", ""),
                duration_s=round(self.desk.clock.monotonic() - began_at, 4),
            )

    async def openapi(self, request: Request) -> Response:
        _admitted(self.desk, request)
        return Response(self._document, media_type="application/json")

    async def answer(self, route: Route, request: Request) -> Response:
        """What a route answers. Raises Problem."""
        asked = await self._asked(route, request)
        found = await anyio.to_thread.run_sync(partial(route.do, self.desk, asked))
        if route is FOLLOW:
            turn, place = found
            if place is None:
                return Response(status_code=204)
            streams = await self._all_streams()
            streams.require_room(asked.visitor)
            return _Stream(partial(streams.serve, turn, place, asked.visitor))
        headers = {"location": found.links.self} if route is SUBMIT else None
        return Response(json_of(found), route.status, headers, media_type="application/json")

    async def _asked(self, route: Route, request: Request) -> Asked:
        visitor = _admitted(self.desk, request)
        route.require_known(request.query_params)
        body: Any = None
        given = {
            each.name: each.read(text)
            for each in route.parameters
            if (text := _given(request, each.place, each.name)) is not None
        }
        if route.body is not None:
            limits = self.desk.limits
            sent = await body_of(request.receive, request.headers, limits)
            body = decoded(sent, route.body, limits)
        return Asked(visitor, request.path_params.get("turn_id", ""), body, given)

    async def _all_streams(self) -> Streams:
        desk = self.desk
        if self._streams is None:
            tokens = await anyio.to_thread.run_sync(desk.resume_tokens)
            if self._streams is None:  # somebody else may have been here meanwhile
                self._streams = Streams(desk.store, tokens, desk.limits, self.hub, desk.clock)
        return self._streams


def make_app(
    store: TurnStore,
    *,
    loops: Sequence[LoopInfo | str] | Mapping[str, Any],
    tokens: Sequence[Token] = (),
    ready: Callable[[], Report] = always_ready,
    limits: Limits | None = None,
    origins: Sequence[str] = (),
    resume_tokens: Tokens | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> TurnApp:
    """The turn API on a store, for any ASGI server; `TurnApi` has a server.

    `loops` are names, or `LoopInfo`s, or names with the types of their requests. Without `tokens`
    everybody who reaches it by a name of the machine itself may do everything. `origins` are those
    of web pages that may use it. Raises ConfigurationError.
    """
    desk = Desk(
        store, loops_of(loops), Access(tokens), limits or Limits(), ready, resume_tokens, clock
    )
    return TurnApp(desk, origins)


# Into and out of HTTP


def _served(app: TurnApp) -> list[Served]:
    paths: dict[str, dict[str, _Answer]] = {"/openapi.json": {"GET": app.openapi}}
    for each in ROUTES:
        paths.setdefault(each.path, {})[each.method] = partial(app.answer, each)
    # The more special path first.
    chosen = sorted(paths.items(), key=lambda each: each[0].count("{"))
    return [Served(path, _Resource(methods)) for path, methods in chosen]


class _Resource:
    """All methods of one path, as an ASGI application: others are refused with those there are."""

    def __init__(self, methods: Mapping[str, _Answer]) -> None:
        self._methods = methods

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive, send)
        answer = self._methods.get(request.method, self._refuse)
        response = await _answered(lambda: answer(request))
        await response(scope, receive, send)

    async def _refuse(self, request: Request) -> Response:
        allowed = ", ".join(sorted(self._methods))
        text = f"{request.method} is not for this path; use {allowed}"
        raise Problem(problems.BAD_METHOD, text, headers={"allow": allowed})


async def _answered(work: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await work()
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            _log.exception("http_failed")
            problem = Problem(problems.INTERNAL, "this was not expected; the log has more")
        return _problem(problem)


def _problem(problem: Problem) -> Response:
    return Response(
        json_of(problem.body()),
        int(problem.kind.status),
        problem.all_headers(),
        media_type=problems.MEDIA_TYPE,
    )


def _admitted(desk: Desk, request: Request) -> Visitor:
    """Who asks. Raises Problem."""
    headers, access = request.headers, desk.access
    if sum(len(name) + len(value) for name, value in headers.raw) > desk.limits.header_bytes:
        text = f"headers may have {desk.limits.header_bytes} bytes"
        raise Problem(problems.LONG_HEADERS, text)
    if access.is_open and not is_loopback(host_of(headers.get("host", ""))):
        # A page of another site whose name was made to point here.
        text = "without tokens, only this machine itself is served, by its own names"
        raise Problem(problems.WRONG_HOST, text)
    visitor = access.visitor(headers.get("authorization", ""))
    if visitor is None:
        text = "send a token of this server: Authorization: Bearer TOKEN"
        raise Problem(problems.UNAUTHORIZED, text, headers={"www-authenticate": "Bearer"})
    request.scope["afl.visitor"] = visitor.name
    return visitor


def _given(request: Request, place: str, name: str) -> str | None:
    return (request.headers if place == "header" else request.query_params).get(name)


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=sorted({each.method for each in ROUTES}),
            allow_headers=["authorization", "content-type", KEY, PLACE],
            expose_headers=["location", "retry-after"],
        )
    ]


async def _refused(request: Request, error: HTTPException) -> Response:  # noqa: ARG001
    """What no route answers."""
    return _problem(Problem(problems.NO_SUCH_PATH, "see /openapi.json for what there is"))


class _Stream(Response):
    def __init__(self, serve: Callable[[Receive, Send], Any]) -> None:
        super().__init__()
        self._serve = serve

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        await self._serve(receive, send)


class _Seen:
    """Sends, and remembers the status for the log."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
