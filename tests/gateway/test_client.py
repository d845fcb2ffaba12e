"""The client: one unbroken stream, one turn for each request, errors that say what to do."""

from __future__ import annotations

import gzip
import http.server
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest
from tests.gateway.scene import LOOPS, PATIENCE_S, TOKENS, Agent, Scene, in_thread, running

from afl.clock import SYSTEM_CLOCK, FakeClock, SystemClock
from afl.errors import UsageError
from afl.gateway import (
    ApiUnreachable,
    RequestRefused,
    TurnApi,
    TurnClient,
    TurnFailed,
    TurnNotOver,
    WordsChanged,
)
from afl.gateway.client_text import Words
from afl.gateway.patience import Patience
from afl.gateway.sse import StreamEvent
from afl.testing.servers import free_port
from afl.turns import MemoryTurns, TurnSuspended


def test_a_turn_is_submitted_followed_and_answered(scene: Scene) -> None:
    with scene.client() as client:
        handle = client.submit("support", "hello")

        def work() -> None:
            with pytest.raises(TurnSuspended):
                Agent(scene.store, handle.id).turn.wait_for_input("which?")

        in_thread(work)
        events = handle.stream()
        assert next(events).data["question"] == "which?"
        assert handle.state()["waiting"]["question"] == "which?"
        handle.answer("this")
        assert next(events).name == "input"
        agent = Agent(scene.store, handle.id)
        agent.says("You said ", str(agent.turn.wait_for_input("which?")), whole=True)
        agent.finishes({"chosen": "this"})
        assert [each.name for each in events] == ["delta", "delta", "model", "done"]
        assert handle.result(PATIENCE_S) == {"chosen": "this"}
        assert client.turn(handle.id).result(PATIENCE_S) == {"chosen": "this"}


def test_the_same_key_is_the_same_turn(scene: Scene) -> None:
    with scene.client() as client:
        first, again = (client.submit("support", "x", key="one-key") for _ in range(2))
        other = client.submit("support", "x")
    assert first.id == again.id != other.id


def test_a_turn_without_a_result_raises_with_the_reason(scene: Scene) -> None:
    with scene.client() as client:
        failed, cancelled = client.submit("support", "a"), client.submit("support", "b")
        Agent(scene.store, failed.id).fails("the model refused")
        with pytest.raises(TurnFailed, match="failed: the model refused") as caught:
            failed.result(PATIENCE_S)
        assert (caught.value.state, caught.value.reason) == ("failed", "the model refused")
        cancelled.cancel()
        with pytest.raises(TurnFailed, match="cancelled: alice cancelled it"):
            cancelled.result(PATIENCE_S)


def test_a_turn_that_takes_longer_than_is_waited_for_says_how_it_stands(scene: Scene) -> None:
    with scene.client() as client:
        handle = client.submit("support", "x")
        with pytest.raises(TimeoutError, match=r"after 0\.2 s: it is accepted") as caught:
            handle.result(0.2)
        assert isinstance(caught.value, TurnNotOver)
        Agent(scene.store, handle.id).finishes("late")
        assert handle.result(PATIENCE_S) == "late"


def test_what_the_server_refuses_is_raised_as_it_says_it(scene: Scene) -> None:
    with scene.client() as client:
        with pytest.raises(RequestRefused, match="there are: anything, support") as caught:
            client.submit("suport", "x")
        assert (caught.value.status, caught.value.kind) == (404, "no-such-loop")
        assert caught.value.problem["loops"] == ["anything", "support"]
        with pytest.raises(RequestRefused, match="no turn nothing here"):
            next(client.turn("nothing").stream())
    with (
        TurnClient(scene.url, token="wrong") as client,
        pytest.raises(RequestRefused, match="401: A token is needed"),
    ):
        client.submit("support", "x")


def test_a_suspended_turn_is_resumed_by_itself(scene: Scene) -> None:
    with scene.client() as client:
        handle = client.submit("support", "x")
        Agent(scene.store, handle.id).seals("is suspended: a deploy")
        assert scene.store.get(handle.id).due is None
        resumed = threading.Event()

        def work() -> None:
            stop = threading.Event()
            while not (turn := scene.store.get(handle.id)).due:
                scene.store.wait_news(turn, PATIENCE_S, stop)
            resumed.set()
            Agent(scene.store, handle.id).finishes("elsewhere")

        in_thread(work)
        assert handle.result(PATIENCE_S) == "elsewhere"
        assert resumed.is_set()


def test_a_reader_follows_a_suspended_turn_without_resuming_it(scene: Scene) -> None:
    turn_id = scene.submit()
    Agent(scene.store, turn_id).seals()
    with scene.client("watcher") as client:
        events = client.turn(turn_id).stream()
        assert next(events).data["resume_token"] is None
        assert scene.store.get(turn_id).due is None


# Servers that come and go


def test_it_goes_on_at_another_server_when_one_stops() -> None:
    tokens = list(TOKENS.values())
    with closing(MemoryTurns()) as store:
        first = TurnApi(store, loops=LOOPS, tokens=tokens)
        second = TurnApi(store, loops=LOOPS, tokens=tokens)
        with running(second):
            with running(first):
                urls = [str(first.url), str(second.url)]
                client = TurnClient(urls, token=TOKENS["alice"].secret, patience_s=PATIENCE_S)
                handle = client.submit("support", "x")
                agent = Agent(store, handle.id)
                events = handle.stream()
                agent.says("one ", whole=False)
                seen = [next(events)]
            agent.says("two", whole=False)
            seen.append(next(events))
            assert client.submit("support", "after the deploy").id != handle.id
            agent.finishes()
            seen += events
            client.close()
    assert [(each.id, each.name) for each in seen] == [
        ("0.1", "delta"),
        ("0.2", "delta"),
        ("0.3", "superseded"),
        ("end", "done"),
    ]


def test_it_waits_for_a_server_that_comes_back_at_the_same_place() -> None:
    port = free_port()
    with closing(MemoryTurns()) as store:

        def served() -> TurnApi:
            return TurnApi(store, loops=LOOPS, port=port)

        with TurnClient(f"http://127.0.0.1:{port}", patience_s=PATIENCE_S) as client:
            with running(served()):
                handle = client.submit("support", "x")
                agent = Agent(store, handle.id)
                events = handle.stream()
                agent.says("one", whole=False)
                assert next(events).id == "0.1"
            submitted: list[str] = []
            waiting = in_thread(lambda: submitted.append(client.submit("support", "y").id))
            with running(served()):
                agent.finishes("two")
                assert [each.name for each in events] == ["superseded", "done"]
                waiting.join(PATIENCE_S)
                assert store.get(submitted[0]).loop == "support"


class Hasty(SystemClock):
    """Does not wait, however long."""

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        return event.is_set()


class Rude:
    """A server in front of another one. It does what a script says with each request, one after
    the other, and passes the rest on."""

    def __init__(self, target: str, script: list[Callable[[Any], bool]]) -> None:
        outer = self
        self.seen: list[tuple[str, str, str]] = []
        self.script = script
        self._http = httpx.Client(timeout=PATIENCE_S)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                key, place = self.headers.get("idempotency-key"), self.headers.get("last-event-id")
                outer.seen.append((self.command, self.path, key or place or ""))
                act = outer.script.pop(0) if outer.script else None
                if act is None or act(self):
                    self._pass_on()

            do_POST = do_GET  # noqa: N815 - as its base wants it

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() in ("content-type", "idempotency-key", "last-event-id")
                }
                answer = outer._http.request(
                    self.command, target + self.path, content=body, headers=headers
                )
                self.send_response(answer.status_code)
                self.send_header("content-type", answer.headers["content-type"])
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *args: Any) -> None:
                """Nowhere."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        in_thread(lambda: self._server.serve_forever(0.02))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._http.close()


def says(status: int, **headers: str) -> Callable[[Any], bool]:
    def act(handler: Any) -> bool:
        handler.rfile.read(int(handler.headers.get("content-length", 0)))
        handler.send_response(status)
        for name, value in {"content-length": "0", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        return False

    return act


def hangs_up(handler: Any) -> bool:
    handler.close_connection = True
    return False


def loses_the_answer(handler: Any) -> bool:
    """After the server has acted."""
    wfile, handler.wfile = handler.wfile, io.BytesIO()
    handler._pass_on()
    handler.wfile = wfile
    handler.close_connection = True
    return False


def cuts(count: int) -> Callable[[Any], bool]:
    """The answer, in the middle."""

    def act(handler: Any) -> bool:
        wfile = handler.wfile

        class Cut:
            def write(self, data: bytes) -> int:
                wfile.write(data if data.startswith(b"HTTP/") else data[:count])
                return len(data)

            def __getattr__(self, name: str) -> Any:
                return getattr(wfile, name)

        handler.wfile = Cut()
        handler._pass_on()
        handler.wfile = wfile
        handler.close_connection = True
        return False

    return act


def compresses(*, is_polite: bool) -> Callable[[Any], bool]:
    """The answer; only if the client takes that, if it `is_polite`."""

    def act(handler: Any) -> bool:
        if is_polite and "gzip" not in handler.headers.get("accept-encoding", "gzip"):
            return True
        wfile, handler.wfile = handler.wfile, io.BytesIO()
        handler._pass_on()
        body = gzip.compress(handler.wfile.getvalue().partition(b"\r\n\r\n")[2])
        handler.wfile = wfile
        handler.send_response(200)
        for name, value in {"encoding": "gzip", "length": len(body)}.items():
            handler.send_header(f"content-{name}", str(value))
        handler.end_headers()
        handler.wfile.write(body)
        return False

    return act


@contextmanager
def rude(*script: Callable[[Any], bool]) -> Iterator[tuple[Rude, MemoryTurns]]:
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS)) as api,
        closing(Rude(str(api.url), list(script))) as server,
    ):
        yield server, store


@pytest.mark.parametrize(
    "trouble", [hangs_up, loses_the_answer, says(502), says(503, retry_after="1"), says(504)]
)
def test_a_submission_is_repeated_with_its_key_and_is_one_turn(
    trouble: Callable[[Any], bool],
) -> None:
    with (
        rude(trouble, hangs_up) as (server, store),
        TurnClient(server.url, clock=Hasty()) as client,
    ):
        handle = client.submit("support", "x")
        assert [each.id for each in store.list()] == [handle.id]
    assert len(server.seen) == 3
    assert len({key for _, _, key in server.seen}) == 1


def test_a_stream_that_is_cut_anywhere_goes_on_without_a_gap_or_a_repeat() -> None:
    with rude() as (server, store), TurnClient(server.url, clock=Hasty()) as client:
        handle = client.submit("support", "x")
        agent = Agent(store, handle.id)
        agent.says("one ", "two ", "three")
        agent.uses("charge", amount=3)
        agent.finishes("done")
        whole = list(handle.stream())
        assert len(whole) == 7
        for count in range(0, 700, 37):
            server.script[:] = [cuts(count), says(503), cuts(2 * count), hangs_up]
            assert list(handle.stream()) == whole


@pytest.mark.parametrize("is_polite", [True, False])
def test_a_stream_comes_through_a_proxy_that_compresses(is_polite: bool) -> None:
    with rude() as (server, store), TurnClient(server.url, clock=Hasty()) as client:
        handle = client.submit("support", "x")
        agent = Agent(store, handle.id)
        agent.says("one ", "two ", "three")
        agent.finishes("done")
        whole = list(handle.stream())
        server.script[:] = [compresses(is_polite=is_polite)]
        assert list(handle.stream()) == whole
        # At once, and not because a second try went another way.
        assert [path for _, path, _ in server.seen] == [
            "/turns",
            *2 * [f"/turns/{handle.id}/events"],
        ]


def test_it_gives_up_after_its_patience_and_says_why() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        TurnClient([url, f"{url}/"], patience_s=0.3) as client,
        pytest.raises(ApiUnreachable, match=rf"{url}, {url} cannot be used .*ConnectError"),
    ):
        client.submit("support", "x")


def test_a_closed_client_waits_no_more() -> None:
    client = TurnClient(f"http://127.0.0.1:{free_port()}", patience_s=1000)
    errors: list[BaseException] = []

    def submit() -> None:
        try:
            client.submit("support", "x")
        except Exception as error:
            errors.append(error)

    thread = in_thread(submit)
    client.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert errors


@pytest.mark.parametrize("urls", [[], "127.0.0.1:80", ["http://a", "ftp://b"]])
def test_an_address_that_is_none_is_refused(urls: Any) -> None:
    with pytest.raises(UsageError, match="no address of a turn API"):
        TurnClient(urls)


def test_each_server_is_asked_before_any_pause_and_the_soonest_decides() -> None:
    clock = FakeClock()
    patience = Patience(("a", "b", "c"), 0, 10.0, clock)
    asked, pauses = [], []
    for after in (3.0, 2.0, 4.0, None):
        asked.append(patience.url)
        pauses.append(patience.failed("503", after))
    assert asked == ["a", "b", "c", "a"]
    assert pauses == [0, 0, 2.0, 0]
    clock.advance(9.5)
    patience.failed("503")
    assert patience.failed("503") <= 0.5
    clock.advance(0.5)
    with pytest.raises(ApiUnreachable, match="for 10 s now: the last"):
        patience.failed("the last")
    patience.succeeded()
    assert patience.failed("again") == 0


# Text


def delta(text: str) -> StreamEvent:
    return StreamEvent("delta", "", {"call_id": "model", "text": text})


def model(text: str | None) -> StreamEvent:
    return StreamEvent("model", "", {"call_id": "model", "text": text})


VOID = StreamEvent("superseded", "", {"call_id": "model", "from": "0.1"})
TOOL = StreamEvent("tool_started", "", {"call_id": "c", "tool": "t"})


def shown(*events: StreamEvent, live: bool) -> list[str]:
    words = Words(live)
    return [piece for each in events if (piece := words.next(each))]


@pytest.mark.parametrize("live", [False, True])
def test_text_is_what_was_answered(live: bool) -> None:
    events = [delta("I "), delta("will"), model("I will."), TOOL, model(None), model("Done.")]
    found = shown(*events, live=live)
    assert "".join(found) == "I will.Done."
    assert found == (["I ", "will", ".", "Done."] if live else ["I will.", "Done."])


def test_kept_text_has_nothing_of_what_was_superseded() -> None:
    assert shown(delta("No"), VOID, delta("Yes"), model("Yes!"), live=False) == ["Yes!"]


def test_live_text_goes_on_where_new_words_go_beyond_the_old() -> None:
    events = [
        delta("I wi"),
        VOID,
        delta("I"),
        delta(" will g"),
        VOID,
        delta("I will"),
        model("I will go"),
    ]
    assert shown(*events, live=True) == ["I wi", "ll g", "o"]


@pytest.mark.parametrize("rest", [[delta("They")], [model("They do")], [delta("I"), model("I")]])
def test_live_text_that_was_shown_and_changes_is_an_error(rest: list[StreamEvent]) -> None:
    with pytest.raises(WordsChanged, match="use stream") as caught:
        shown(delta("I wi"), VOID, *rest, live=True)
    assert caught.value.shown == "I wi"


def test_text_comes_through_the_client(scene: Scene) -> None:
    with scene.client() as client:
        handle = client.submit("support", "x")
        agent = Agent(scene.store, handle.id)
        agent.says("one ", "two ")
        agent.turn.model(lambda: "three")
        agent.finishes()
        assert list(handle.text()) == ["one two ", "three"]
        assert list(handle.text(live=True)) == ["one ", "two ", "three"]


def test_a_silent_connection_is_left(scene: Scene) -> None:
    """A server that says nothing for longer than it should, although the turn goes on."""
    is_asked = threading.Event()
    turn_over = threading.Event()

    def is_silent(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.flush()
        is_asked.set()
        SYSTEM_CLOCK.wait(turn_over, PATIENCE_S)
        handler.close_connection = True
        return False

    with (
        rude(lambda _: True, is_silent) as (server, store),
        TurnClient(server.url, silence_s=0.2) as client,
    ):
        handle = client.submit("support", "x")
        Agent(store, handle.id).finishes("fine")
        assert handle.result(PATIENCE_S) == "fine"
        assert is_asked.is_set()
        turn_over.set()
