"""A dashboard with something to show: in this process for plain requests, and in one of its own,
beside a worker, for browsers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from afl.dashboard import Dashboard, Desk
from afl.errors import AflError
from afl.gateway.access import Role, Token
from afl.gateway.requests import Limits
from afl.lang.program import Program
from afl.mailbox import open_mailbox
from afl.operations.texts import compile_text
from afl.runtime.evaluator import Evaluator
from afl.runtime.sql_store import SqliteStore
from afl.turns import NewTurn, OutcomeUnknown, SqliteTurns, Turn
from afl.turns.values import encode

OPERATOR, READER, CALLER = "operator-0123456789", "reader-0123456789", "caller-0123456789"
PATIENCE_S = 20.0
expect.set_options(timeout=PATIENCE_S * 1000)
#: What a browser must never run, whoever wrote it.
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"

PROGRAM = """
namespace t

event facet Greet(name: String) => (text: String)

/**
 * Greets <script>alert(1)</script> somebody.
 * @param name who is greeted
 */
workflow Hello(name: String, count: Long = 1, loud: Boolean = false) => (text: String) andThen {
    greeted = Greet(name = $.name)
    yield Hello(text = greeted.text)
}
"""


@dataclass
class Site:
    """A dashboard that listens, and what is behind it."""

    store: SqliteStore
    evaluator: Evaluator
    desk: Desk
    url: str
    folder: Path
    mailboxes: str
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, **options: Any) -> httpx.Client:
        made = httpx.Client(base_url=self.url, timeout=PATIENCE_S, **options)
        self.clients.append(made)
        return made

    def api(self, token: str = OPERATOR) -> httpx.Client:
        return self.client(headers={"authorization": f"Bearer {token}"})

    def signed_in(self, token: str = OPERATOR) -> httpx.Client:
        client = self.client()
        answer = client.post("/login", data={"token": token})
        assert answer.status_code == 303, answer.text
        return client

    def submit(self, name: str = "Ada") -> str:
        program = compile_text(PROGRAM).require()
        return self.evaluator.submit(program, "t.Hello", {"name": name})


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert found is not None, page
    return found.group(1)


def first_parts(client: httpx.Client, page: str) -> str:
    """All parts of a page, as they are sent first."""
    count = len(re.findall(r' sse-swap="', client.get(page).text))
    text = ""
    with client.stream("GET", "/live", params={"to": page}) as answer:
        for each in answer.iter_text():
            text += each
            if text.count("event: ") >= count and text.endswith("\n\n"):
                return text
    raise AssertionError("the stream ended")


@contextmanager
def opened(
    folder: Path, limits: Limits | None = None, programs: Sequence[Program] = ()
) -> Iterator[Site]:
    url = f"sqlite:///{folder / 'afl.db'}"
    with closing(SqliteStore(url)) as store:
        evaluator = Evaluator(store)
        desk = Desk(
            store,
            evaluator,
            open_turns=lambda: SqliteTurns(url),
            mailboxes=url,
            programs=[compile_text(PROGRAM).require(), *programs],
            handler_paths=[folder],
            limits=limits,
        )
        tokens = [
            Token(OPERATOR),
            Token(READER, "reader", Role.READER),
            Token(CALLER, "caller", Role.CALLER),
        ]
        loop = Dashboard(desk, tokens=tokens)
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        assert loop.wait_until_listening(PATIENCE_S)
        assert loop.url is not None
        site = Site(store, evaluator, desk, loop.url, folder, url)
        try:
            yield site
        finally:
            for each in site.clients:
                each.close()
            loop.request_stop()
            thread.join(PATIENCE_S)
            desk.close()
            assert not thread.is_alive()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened(tmp_path) as found:
        yield found


def waiting_turns(url: str, text: str = EVIL) -> tuple[str, str]:
    """A turn that asks, and one with an effect that nobody knows about."""
    with closing(SqliteTurns(url)) as store:
        return _suspended(store, text, _ask), _suspended(store, text, _fax)


def _suspended(store: SqliteTurns, text: str, work: Any) -> str:
    key = f"{work.__name__} {text}"
    record = store.accept(NewTurn("shop", encode({"say": text}), key))
    turn = Turn(store, store.begin(record.id, "somebody", 30_000))
    with suppress(AflError):
        work(turn, text)
    return record.id


def _ask(turn: Turn, text: str) -> None:
    turn.wait_for_input(f"Which colour? {text}")


def _fax(turn: Turn, text: str) -> None:
    def fax() -> None:
        raise OutcomeUnknown("the line broke")

    turn.tool("fax", {"text": text}, fax)


def dead_letter(url: str, name: str, text: str = EVIL) -> None:
    """A mailbox with a message, and one that was given up."""
    with closing(open_mailbox(url, name)) as mailbox:
        mailbox.send({"order": text})
        (message,) = mailbox.receive(max_messages=1)
        mailbox.dead_letter(message, text, RuntimeError(text))
        mailbox.send({"order": "2024-0117"})


# In processes


class Process:
    """`afl …` in a folder, until it is told to stop."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-m", "afl", *arguments],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "AFL_STORE_URL": f"sqlite:///{folder / 'afl.db'}"},
        )
        self._said: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._running.stderr is not None
        for line in self._running.stderr:
            with self._more:
                self._said.append(line)
                self._more.notify_all()

    def wait_for(self, pattern: str) -> str:
        def found() -> re.Match[str] | None:
            return re.search(pattern, "".join(self._said))

        with self._more:
            assert self._more.wait_for(lambda: found() is not None, PATIENCE_S), self._said
            match = found()
        assert match is not None
        return match.group(1)

    def stop(self) -> int:
        self._running.send_signal(signal.SIGTERM)
        try:
            return self._running.wait(PATIENCE_S)
        finally:
            self._running.kill()
            self._running.wait()
            self._reader.join(PATIENCE_S)
            assert self._running.stderr is not None
            self._running.stderr.close()


# In a browser

SIZE: Any = {"width": 1200, "height": 780}
_ARGUMENTS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--no-first-run", "--force-color-profile=srgb"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("AFL_TEST_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.fail(
            "there is no Chromium: apt-get install -y --no-install-recommends chromium, or name "
            "one with AFL_TEST_CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """A page on which nothing may go wrong: no error in the console, nothing that the policy of
    the pages had to block."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        context = browser.new_context(base_url=url, viewport=SIZE, **options)
        context.set_default_timeout(PATIENCE_S * 1000)
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: dialog.accept())

    def _hear(self, kind: str, text: str) -> None:
        # Answers that say no are no errors of the page.
        if kind == "error" and "the server responded with a status of" not in text:
            self.complaints.append(text)

    def sign_in(self, token: str = OPERATOR) -> None:
        self.page.goto("/")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", name="Overview")).to_be_visible()
