"""Pages: who is signed in, what they see, what they change."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import compile_path

from afl.clock import Clock
from afl.dashboard import forms
from afl.dashboard.desk import Asked, Desk
from afl.dashboard.live import LiveHub, Parts, event
from afl.dashboard.pages import extra
from afl.dashboard.problems import AGAIN_S, NO_CSRF, NO_STORE, NOT_FOUND, told
from afl.dashboard.reading import form_bytes, query_of
from afl.dashboard.rendering import assets_by_path, live_parts, page
from afl.dashboard.routes import PAGES, Act, Look, route_of
from afl.dashboard.sessions import COOKIE, LASTS_S, Session, Sessions, is_csrf
from afl.gateway import problems
from afl.gateway.access import Right, Token
from afl.gateway.problems import Problem

HOME = "/overview"
#: Says on the next page what was done.
_TOLD = "afl_told"
#: Said to who has no token that fits: one of a caller does not, either.
_NOBODY = (
    "No such token of an operator or a reader. Who started this dashboard has them: in the file "
    "of --token-file; without one, they are printed at the start."
)
#: Of the query of a page; more would only cost.
_FIELDS = 50
_FOR_EVER = "public, max-age=31536000, immutable"
#: Parameters of pages that the API does not have.
_OF_PAGES: dict[str, tuple[str, ...]] = {"run.html": ("from", "step"), "submit.html": ("workflow",)}
#: What is next to each other on top.
_MENU = (
    ("/overview", "Overview"),
    ("/runs", "Runs"),
    ("/workflows", "Submit"),
    ("/tasks", "Tasks"),
    ("/handlers", "Handlers"),
    ("/servers", "Servers"),
    ("/turns", "Turns"),
    ("/mailboxes", "Mailboxes"),
    ("/actions", "Audit"),
)


class Face:
    """All that browsers are answered. Methods raise Problem, and what `told` knows."""

    def __init__(self, desk: Desk, tokens: Sequence[Token], hub: LiveHub, clock: Clock) -> None:
        self._desk = desk
        self._sessions = Sessions(tokens, clock)
        self._hub = hub
        self._clock = clock
        self._paths = [(compile_path(route_of(path))[0], each) for path, each in PAGES.items()]

    # Coming and going

    async def home(self, request: Request) -> Response:
        return RedirectResponse(_base(request) + HOME, 303)

    async def login_page(self, request: Request) -> Response:
        if self._session(request) is not None:
            return RedirectResponse(_base(request) + HOME, 303)
        return self._html(request, "login.html", {"problem": None})

    async def login(self, request: Request) -> Response:
        fields = forms.fields_of(await form_bytes(request, self._desk.limits))
        cookie = self._sessions.begin(fields.get("token", ""))
        if cookie is None:
            return self._html(request, "login.html", {"problem": _NOBODY}, status=401)
        target = _own_path(fields.get("to", ""), _base(request))
        response = RedirectResponse(_base(request) + target, 303)
        self._set(response, request, COOKIE, cookie, LASTS_S)
        return response

    async def logout(self, request: Request) -> Response:
        await self._require_change(request)
        response = RedirectResponse(f"{_base(request)}/login", 303)
        response.delete_cookie(COOKIE, path=_base(request) or "/")
        return response

    # Looking

    async def page(self, look: Look, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return self._to_login(request)
        asked = self._asked(look, session, request.path_params, request.query_params)
        return await self._shown(request, look, session, asked)

    async def _shown(
        self,
        request: Request,
        look: Look,
        session: Session,
        asked: Asked,
        form: Mapping[str, str] | None = None,
        problem: Problem | None = None,
    ) -> Response:
        values = await anyio.to_thread.run_sync(
            partial(self._values, _base(request), look, session, asked, form or {})
        )
        live = urlencode({"to": _address(request)})
        more = {
            "live": f"{_base(request)}/live?{live}" if problem is None else None,
            "told": _told(request),
            "problem": problem,
        }
        status = 200 if problem is None else int(problem.kind.status)
        return self._html(request, look.template or "", {**values, **more}, status=status)

    def _values(
        self, base: str, look: Look, session: Session, asked: Asked, form: Mapping[str, str]
    ) -> dict[str, Any]:
        """Blocks. What a template gets."""
        template = look.template or ""
        return {
            "answer": look.do(self._desk, _for_do(asked, look)) if look.is_on_page else None,
            **extra(template, self._desk, asked, form),
            "asked": asked,
            "look": look,
            "base": base,
            "csrf": session.csrf,
            "visitor": session.visitor,
            "may_act": session.visitor.may(Right.ACT),
            "sees_inside": session.visitor.may(Right.INSIDE),
        }

    def _asked(
        self,
        look: Look,
        session: Session,
        path: Mapping[str, str],
        query: Mapping[str, str],
    ) -> Asked:
        more = _OF_PAGES.get(look.template or "", ())
        return Asked(session.visitor, dict(path), query_of(query, look.query, *more))

    # Changing

    async def act(self, act: Act, request: Request) -> Response:
        if self._session(request) is None:
            return self._to_login(request)
        session, fields = await self._require_change(request)
        asked = Asked(session.visitor, dict(request.path_params))
        subject = " ".join(request.path_params.values())
        if not session.visitor.may(Right.ACT):
            self._desk.note(session.visitor, act.name, subject, "refused: may only look")
            text = f"the token {session.visitor.name} may only look"
            raise Problem(problems.FORBIDDEN, text)
        try:
            done = await anyio.to_thread.run_sync(partial(self._do, act, asked, fields))
        except Exception as error:
            problem = told(error)
            if problem is None or problem.kind in (NO_STORE, NOT_FOUND):
                raise
            self._desk.note(session.visitor, act.name, subject, f"refused: {problem.detail}")
            look = PAGES[act.page]
            return await self._shown(request, look, session, asked, fields, problem)
        self._desk.note(session.visitor, act.name, done.subject)
        response = RedirectResponse(_base(request) + act.next_path(asked, done), 303)
        message = base64.urlsafe_b64encode(done.message.encode()).decode()
        self._set(response, request, _TOLD, message, 60)
        return response

    def _do(self, act: Act, asked: Asked, fields: Mapping[str, str]) -> Any:
        body = forms.body_of(self._desk, act.body, fields)
        return act.do(self._desk, Asked(asked.visitor, asked.path, {}, body))

    async def _require_change(self, request: Request) -> tuple[Session, dict[str, str]]:
        """Raises Problem unless it comes from one of our own pages."""
        session = self._session(request)
        if session is None:
            raise Problem(problems.UNAUTHORIZED, "sign in first")
        fields = forms.fields_of(await form_bytes(request, self._desk.limits))
        is_ours = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if not (is_ours and is_csrf(session, fields.get(forms.CSRF, ""))):
            self._desk.note(session.visitor, request.url.path, "", "refused: no CSRF token")
            raise Problem(NO_CSRF, "go back, load the page again, and try once more")
        return session, fields

    # Live

    async def live(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            raise Problem(problems.UNAUTHORIZED, "sign in first")
        if self._hub.count >= self._desk.limits.streams:
            raise Problem(problems.TOO_MANY, "too many pages are open", retry_after=5.0)
        to = request.query_params.get("to", "")
        look, asked = self._target(session, to)
        values = partial(self._values, _base(request), look, session, asked, {})

        def make() -> Parts:
            return live_parts(look.template or "", values())

        seen = None
        if "run" in asked.path:
            # By its whole id, which also says that it is there.
            run = await anyio.to_thread.run_sync(self._desk.boards.look, asked.path["run"])
            seen = partial(self._desk.boards.seen, run.run.workflow_id)
        key = f"{session.csrf} {to}"
        return StreamingResponse(
            self._parts(key, make, seen),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    def _target(self, session: Session, to: str) -> tuple[Look, Asked]:
        path, query = _read_address(to)
        for pattern, look in self._paths:
            fits = pattern.match(path)
            if fits:
                return look, self._asked(look, session, fits.groupdict(), query)
        raise Problem(NOT_FOUND, "there is no such page")

    async def _parts(self, key: str, make: Any, seen: Any) -> AsyncIterator[bytes]:
        sent: Parts = {}
        yield b"retry: 1000\n\n"
        with self._hub.watching(key, make, seen) as (topic, news):
            while True:
                quiet_s = self._desk.limits.keep_alive_seconds
                try:
                    async with asyncio.timeout(quiet_s):
                        await news.wait()
                except TimeoutError:
                    yield b":\n\n"
                news.clear()
                if self._hub.is_closed:
                    return
                if topic.problem is not None:
                    # The browser comes back, and finds out by itself how long that lasts.
                    yield event("gone", "")
                    return
                parts = topic.parts
                for name, text in parts.items():
                    if sent.get(name) != text:
                        yield event(name, text)
                sent = {**sent, **parts}

    # Files

    async def static(self, request: Request) -> Response:
        found = assets_by_path().get(request.path_params["name"])
        if found is None:
            raise Problem(problems.NO_SUCH_PATH, "there is no such file")
        headers = {"cache-control": _FOR_EVER, "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            packed = {**headers, "content-encoding": "gzip"}
            return Response(found.packed, 200, packed, media_type=found.media_type)
        return Response(found.content, 200, headers, media_type=found.media_type)

    async def health(self, request: Request) -> Response:  # noqa: ARG002
        return Response(b'{"status":"ok"}', media_type="application/json")

    # Refusing

    def refused(self, request: Request, problem: Problem) -> Response:
        if problem.kind is problems.UNAUTHORIZED:
            return self._to_login(request)
        session = self._session(request)
        values = {
            "problem": problem,
            "visitor": None if session is None else session.visitor,
            "csrf": "" if session is None else session.csrf,
            "again_s": AGAIN_S if problem.kind is NO_STORE else None,
        }
        status = int(problem.kind.status)
        return self._html(request, "error.html", values, status, problem.all_headers())

    def _to_login(self, request: Request) -> Response:
        if request.method != "GET" or request.url.path.endswith("/live"):
            return self._html(request, "login.html", {"problem": "Sign in first."}, status=401)
        to = urlencode({"to": _address(request)})
        return RedirectResponse(f"{_base(request)}/login?{to}", 303)

    # Inside

    def _session(self, request: Request) -> Session | None:
        return self._sessions.session(request.cookies.get(COOKIE, ""))

    def _set(self, response: Response, request: Request, name: str, value: str, age_s: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=age_s,
            path=_base(request) or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def _html(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        base = _base(request)
        common = {
            "base": base,
            "menu": _MENU,
            "here": request.url.path.removeprefix(base),
            "to": request.query_params.get("to", ""),
            "now": self._clock.now(),
            "live": None,
            "told": None,
            "visitor": None,
            "csrf": "",
        }
        text = page(template, {**common, **values})
        response = Response(text, status, dict(headers or {}), media_type="text/html")
        if request.cookies.get(_TOLD):
            response.delete_cookie(_TOLD, path=base or "/")
        return response


def _base(request: Request) -> str:
    """The path below which the dashboard is mounted."""
    return str(request.scope.get("root_path", ""))


def _address(request: Request) -> str:
    """Path and query below that, as in a link."""
    path = quote(str(request.scope["path"]).removeprefix(_base(request)))
    query = request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _read_address(text: str) -> tuple[str, dict[str, str]]:
    """Path and query of what `_address` gives. Raises Problem."""
    try:
        parts = urlsplit(text)
        query = dict(parse_qsl(parts.query, max_num_fields=_FIELDS))
    except ValueError as error:
        raise Problem(problems.INVALID, f"to: this is no address of a page: {error}") from None
    return unquote(parts.path), query


def _own_path(to: str, base: str) -> str:
    """Where to go after the login: never to another site."""
    is_own = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to.removeprefix(base) if is_own else HOME


def _for_do(asked: Asked, look: Look) -> Asked:
    """Without what only the page wants."""
    query = {name: value for name, value in asked.query.items() if name in look.query}
    return Asked(asked.visitor, asked.path, query)


def _told(request: Request) -> str | None:
    try:
        return base64.urlsafe_b64decode(request.cookies.get(_TOLD, "")).decode() or None
    except (binascii.Error, ValueError):
        return None
