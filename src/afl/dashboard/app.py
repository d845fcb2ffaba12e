"""The dashboard as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from afl.clock import SYSTEM_CLOCK, Clock
from afl.dashboard.api import Api
from afl.dashboard.desk import Desk
from afl.dashboard.face import Face
from afl.dashboard.live import LiveHub
from afl.dashboard.problems import answered
from afl.dashboard.routes import ACTS, LOOKS, PAGES, route_of
from afl.dashboard.sessions import WELCOME
from afl.errors import ConfigurationError
from afl.gateway import problems
from afl.gateway.access import Access, Token
from afl.gateway.problems import Problem
from afl.log import get_logger

_log = get_logger(__name__)

Scope = MutableMapping[str, Any]
Answer = Callable[[Request], Awaitable[Response]]

#: Nothing but our own files: no script or style inside of a page, none from elsewhere, no frames.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_PACK_FROM = 1000


class DashboardApp:
    """An ASGI application; `make_app` makes one."""

    def __init__(self, desk: Desk, tokens: Sequence[Token], clock: Clock) -> None:
        self.desk = desk
        self.hub = LiveHub(clock)
        self._face = Face(desk, tokens, self.hub, clock)
        self._api = Api(desk, Access(tokens))
        self._app = Starlette(
            routes=_routes(self._face, self._api),
            middleware=[Middleware(GZipMiddleware, minimum_size=_PACK_FROM)],
            exception_handlers={HTTPException: self._missing},  # type: ignore[dict-item]
        )
        self._app.router.redirect_slashes = False

    @property
    def open_streams(self) -> int:
        return self.hub.count

    def end_streams(self) -> None:
        """Let live pages end. From any thread."""
        self.hub.close()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._app(scope, receive, _with_headers(send))
        except Exception:
            # Starlette has answered; and what it raises again, nobody else must see.
            _log.exception("dashboard_failed", path=scope["path"])

    async def _missing(self, request: Request, error: HTTPException) -> Response:
        problem = Problem(problems.NO_SUCH_PATH, "there is nothing here")
        if error.status_code == problems.BAD_METHOD.status:
            problem = _bad_method(request.method, (error.headers or {}).get("Allow", ""))
        if request.url.path.startswith(f"{request.scope.get('root_path', '')}/api"):
            return self._api.refused(problem)
        return self._face.refused(request, problem)


def make_app(desk: Desk, tokens: Sequence[Token], *, clock: Clock = SYSTEM_CLOCK) -> DashboardApp:
    """The dashboard for any ASGI server; `Dashboard` has a server. Raises ConfigurationError."""
    if not any(each.role in WELCOME for each in tokens):
        roles = " or ".join(WELCOME)
        raise ConfigurationError(
            f"nobody could sign in to the dashboard; give at least one token with the role {roles}"
        )
    return DashboardApp(desk, tokens, clock)


def mount(app: Starlette, dashboard: DashboardApp, path: str = "/dashboard") -> None:
    """Serve the dashboard below a path of another application. Whoever stops that one calls
    `end_streams`."""
    app.router.routes.append(Mount(path, app=dashboard))


def _routes(face: Face, api: Api) -> list[Route]:
    paths: dict[str, dict[str, Answer]] = {
        "/": {"GET": face.home},
        "/login": {"GET": face.login_page, "POST": face.login},
        "/logout": {"POST": face.logout},
        "/live": {"GET": face.live},
        "/static/{name}": {"GET": face.static},
        "/health": {"GET": face.health},
        "/api/openapi.json": {"GET": api.openapi},
    }
    for look in LOOKS:
        paths.setdefault(f"/api{look.path}", {})["GET"] = partial(api.look, look)
    for act in ACTS:
        paths.setdefault(f"/api{act.path}", {})["POST"] = partial(api.act, act)
        paths.setdefault(act.path, {})["POST"] = partial(face.act, act)
    for page in PAGES.values():
        paths.setdefault(page.path, {})["GET"] = partial(face.page, page)
    # The more special path first; and each for its methods only, since a part with slashes fits
    # the paths below it as well.
    chosen = sorted(paths.items(), key=lambda each: (each[0].count("{"), -len(each[0])))
    return [
        Route(
            route_of(path),
            _Resource(methods, api if path.startswith("/api") else face),
            methods=list(methods),
        )
        for path, methods in chosen
    ]


def _bad_method(method: str, allow: str) -> Problem:
    allowed = ", ".join(sorted(allow.split(", ")))
    text = f"{method} is not for this path; use {allowed}"
    return Problem(problems.BAD_METHOD, text, headers={"allow": allowed})


class _Resource:
    """All methods of one path, as an ASGI application."""

    def __init__(self, methods: Mapping[str, Answer], owner: Face | Api) -> None:
        self._methods = methods
        self._owner = owner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive, send)
        answer = self._methods["GET" if request.method == "HEAD" else request.method]
        found = await answered(lambda: answer(request))
        response = self._refused(request, found) if isinstance(found, Problem) else found
        await response(scope, receive, send)

    def _refused(self, request: Request, problem: Problem) -> Response:
        if isinstance(self._owner, Api):
            return self._owner.refused(problem)
        return self._owner.refused(request, problem)


def _with_headers(send: Any) -> Any:
    """The headers that make browsers careful, on every answer."""
    raw = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *raw]}
        await send(message)

    return sent
