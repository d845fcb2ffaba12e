"""The middleware: an application behind it acts once for each key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx2 as httpx
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse

from afl.errors import StoreUnavailable
from afl.turns.effects import Effect, causing
from afl.turns.errors import KeyReused, OutcomeUnknown
from afl.turns.idempotency import IdempotencyMiddleware, IdempotencyStore, idempotent
from afl.turns.idempotency.memory import MemoryCells
from afl.turns.tool_client import AsyncToolClient, ToolClient


class Counting:
    """An application that does something each time, slowly if it is told to."""

    def __init__(self, status: int = 201) -> None:
        self.bodies: list[bytes] = []
        self.status = status
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        headers = [(b"content-type", b"text/plain"), (b"x-count", str(len(self.bodies)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"done ", "more_body": True})
        await send({"type": "http.response.body", "body": str(len(self.bodies)).encode()})


def run(test: Callable[[Counting, Any], Any], **options: Any) -> None:
    async def whole() -> None:
        app = Counting()
        store = options.pop("store", None) or IdempotencyStore(MemoryCells())
        guarded = IdempotencyMiddleware(app, store, **options)
        transport = httpx.ASGITransport(guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://tools") as client:
            await test(app, client)

    asyncio.run(whole())


def keyed(key: str = "k1") -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_the_same_request_with_the_same_key_is_done_once() -> None:
    async def test(app: Counting, client: Any) -> None:
        first = await client.post("/charge", content=b"30", headers=keyed())
        again = await client.post("/charge", content=b"30", headers=keyed())
        assert (first.status_code, first.text, first.headers["x-count"]) == (201, "done 1", "1")
        assert (again.status_code, again.text, again.headers["x-count"]) == (201, "done 1", "1")
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert app.bodies == [b"30"]

    run(test)


@pytest.mark.parametrize(
    ("path", "body"), [("/charge", b"31"), ("/refund", b"30"), ("/charge?twice=1", b"30")]
)
def test_another_request_with_the_same_key_gets_422(path: str, body: bytes) -> None:
    async def test(app: Counting, client: Any) -> None:
        await client.post("/charge", content=b"30", headers=keyed())
        other = await client.post(path, content=body, headers=keyed())
        assert other.status_code == 422
        assert other.headers["content-type"] == "application/problem+json"
        assert len(app.bodies) == 1

    run(test)


def test_requests_without_a_key_and_those_that_only_read_pass() -> None:
    async def test(app: Counting, client: Any) -> None:
        for _ in range(2):
            await client.post("/charge", content=b"30")
            await client.get("/charge", headers=keyed())
        assert len(app.bodies) == 4

    run(test)


def test_a_key_can_be_required() -> None:
    async def test(app: Counting, client: Any) -> None:
        assert (await client.post("/charge")).status_code == 400
        assert (await client.post("/charge", headers=keyed("k" * 256))).status_code == 400
        assert app.bodies == []

    run(test, is_required=True)


def test_twins_wait_for_the_first_one() -> None:
    async def test(app: Counting, client: Any) -> None:
        app.may_end.clear()
        sent = [
            asyncio.create_task(client.post("/charge", content=b"30", headers=keyed()))
            for _ in range(3)
        ]
        while not app.bodies:
            await asyncio.sleep(0)
        app.may_end.set()
        assert [each.text for each in await asyncio.gather(*sent)] == ["done 1"] * 3
        assert app.bodies == [b"30"]

    run(test)


def test_a_twin_that_waits_too_long_is_told_to_come_again() -> None:
    async def test(app: Counting, client: Any) -> None:
        app.may_end.clear()
        first = asyncio.create_task(client.post("/charge", content=b"30", headers=keyed()))
        while not app.bodies:
            await asyncio.sleep(0)
        twin = await client.post("/charge", content=b"30", headers=keyed())
        assert (twin.status_code, twin.headers["retry-after"]) == (409, "1")
        app.may_end.set()
        assert (await first).text == "done 1"

    run(test, wait_s=0)


@pytest.mark.parametrize(("status", "times"), [(400, 1), (500, 1), (503, 2), (429, 2)])
def test_only_answers_that_say_that_nothing_happened_are_not_kept(status: int, times: int) -> None:
    async def test(app: Counting, client: Any) -> None:
        app.status = status
        for _ in range(2):
            answer = await client.post("/charge", content=b"30", headers=keyed())
            assert answer.status_code == status
        assert len(app.bodies) == times

    run(test)


def test_an_application_that_fails_is_not_called_again() -> None:
    async def test(app: Counting, client: Any) -> None:
        app.error = ValueError("after it had charged, perhaps")
        with pytest.raises(ValueError, match="perhaps"):
            await client.post("/charge", content=b"30", headers=keyed())
        again = await client.post("/charge", content=b"30", headers=keyed())
        assert again.status_code == 500
        assert len(app.bodies) == 1

    run(test)


class Exchange:
    """One request of a client that goes away as soon as it has sent it."""

    def __init__(self, app: Any, store: IdempotencyStore) -> None:
        self._app = IdempotencyMiddleware(app, store)
        self.sent: list[Any] = []

    async def run(self) -> None:
        to_say = [{"type": "http.request", "body": b"30", "more_body": False}]

        async def receive() -> Any:
            return to_say.pop() if to_say else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.sent.append(message)

        headers = [(b"idempotency-key", b"k1")]
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "headers": headers}
        extensions: dict[str, Any] = {"http.response.pathsend": {}}
        place = {"method": "POST", "path": "/charge", "query_string": b"", "extensions": extensions}
        await self._app({**scope, **place}, receive, send)

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()


def twice(app: Any) -> list[str]:
    """What a client and its twin get."""

    async def both() -> list[str]:
        store = IdempotencyStore(MemoryCells())
        exchanges = [Exchange(app, store) for _ in range(2)]
        for each in exchanges:
            with suppress(ValueError):
                await each.run()
        return [each.text for each in exchanges]

    return asyncio.run(both())


def test_an_answer_is_kept_whole_also_if_its_client_goes_away() -> None:
    acts: list[str] = []

    async def words() -> AsyncIterator[str]:
        for each in ("charged ", "30 ", "cents"):
            await asyncio.sleep(0)  # here a server would cancel it
            acts.append(each)
            yield each

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["extensions"] == {}, "nothing gets past the middleware"
        await StreamingResponse(words())(scope, receive, send)

    assert twice(app) == ["charged 30 cents"] * 2
    assert acts == ["charged ", "30 ", "cents"]


def test_what_an_application_does_after_its_answer_changes_nothing() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await PlainTextResponse("charged")(scope, receive, send)
        assert await receive() == {"type": "http.disconnect"}
        raise ValueError("the mail about it failed")

    assert twice(app) == ["charged"] * 2


def test_an_answer_that_is_not_whole_is_none() -> None:
    calls: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(1)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"char", "more_body": True})

    assert all("no whole answer" in each for each in twice(app))
    assert len(calls) == 1


def test_a_request_that_is_too_long_is_refused() -> None:
    async def test(app: Counting, client: Any) -> None:
        answer = await client.post("/charge", content=b"x" * 101, headers=keyed())
        assert answer.status_code == 413
        assert app.bodies == []

    run(test, max_body=100)


def test_nothing_is_done_while_keys_cannot_be_looked_up() -> None:
    class Gone(MemoryCells):
        def get(self, key: str) -> bytes | None:
            raise StoreUnavailable("no database")

    async def test(app: Counting, client: Any) -> None:
        answer = await client.post("/charge", content=b"30", headers=keyed())
        assert (answer.status_code, app.bodies) == (503, [])

    run(test, store=IdempotencyStore(Gone()))


# The client


def client_of(app: Any) -> AsyncToolClient:
    return AsyncToolClient(transport=httpx.ASGITransport(app), base_url="http://tools")


def test_the_client_sends_the_key_of_its_tool_call() -> None:
    async def test() -> None:
        app = Counting()
        guarded = IdempotencyMiddleware(app, IdempotencyStore(MemoryCells()))
        async with client_of(guarded) as client:
            for _ in range(2):  # as after a crash: the tool is entered again from its beginning
                with causing(Effect("c1", "key-1")):
                    await client.post("/charge", content=b"30")
                    await client.post("/mail", content=b"thanks")
            await client.post("/charge", content=b"30")
        assert app.bodies == [b"30", b"thanks", b"30"]

    asyncio.run(test())


def test_what_was_sent_and_not_answered_is_unknown() -> None:
    def lost(request: Any) -> Any:
        raise httpx.ReadTimeout("no answer", request=request)

    def unsent(request: Any) -> Any:
        raise httpx.ConnectError("nobody there", request=request)

    def between(request: Any) -> Any:
        return httpx.Response(504)

    async def ask(handler: Any) -> None:
        async with AsyncToolClient(transport=httpx.MockTransport(handler)) as client:
            await client.post("http://tools/charge")

    for handler, error in (
        (lost, OutcomeUnknown),
        (between, OutcomeUnknown),
        (unsent, httpx.ConnectError),
    ):
        with pytest.raises(error):
            asyncio.run(ask(handler))


@pytest.mark.parametrize(
    ("status", "headers", "is_repeat", "is_unknown"),
    [
        (409, {"retry-after": "1"}, False, True),  # a twin of the request is being done
        (409, {}, False, False),
        (503, {}, False, False),
        (503, {}, True, True),
        (429, {}, True, True),
        (402, {}, True, False),
    ],
)
def test_what_says_nothing_about_the_effect_is_unknown(
    status: int, headers: dict[str, str], is_repeat: bool, is_unknown: bool
) -> None:
    async def ask() -> Any:
        transport = httpx.MockTransport(lambda _: httpx.Response(status, headers=headers))
        async with AsyncToolClient(transport=transport) as client:
            with causing(Effect("c1", "key-1", is_repeat=is_repeat)):
                return await client.post("http://tools/charge")

    if is_unknown:
        with pytest.raises(OutcomeUnknown, match=str(status)):
            asyncio.run(ask())
    else:
        assert asyncio.run(ask()).status_code == status


def test_what_was_sent_before_and_cannot_be_sent_now_is_unknown() -> None:
    def unsent(request: Any) -> Any:
        raise httpx.ConnectError("nobody there", request=request)

    client = ToolClient(transport=httpx.MockTransport(unsent))
    with client, causing(Effect("c1", "key-1", is_repeat=True)), pytest.raises(OutcomeUnknown):
        client.post("http://tools/charge")


# Functions


def test_a_function_acts_once_for_each_key() -> None:
    charged: list[int] = []

    @idempotent(IdempotencyStore(MemoryCells()))
    def charge(amount: int, *, currency: str = "EUR") -> dict[str, Any]:
        charged.append(amount)
        return {"charged": amount, "currency": currency}

    first = charge(30, idempotency_key="k1")
    assert charge(30, idempotency_key="k1") == first == {"charged": 30, "currency": "EUR"}
    with pytest.raises(KeyReused):
        charge(31, idempotency_key="k1")
    with causing(Effect("c1", "k2")):
        charge(30)
        charge(30)
    assert charged == [30, 30]


def test_a_function_gives_the_same_the_first_time_and_later() -> None:
    @idempotent(IdempotencyStore(MemoryCells()))
    def charge() -> Any:
        return {"lines": (1, 2), "at": datetime(2026, 1, 1, tzinfo=UTC)}

    @idempotent(IdempotencyStore(MemoryCells()))
    async def charge_later() -> Any:
        return (1, 2)

    first = charge(idempotency_key="k1")
    assert first == charge(idempotency_key="k1")
    assert first == {"lines": [1, 2], "at": "2026-01-01T00:00:00Z"}
    for _ in range(2):
        assert asyncio.run(charge_later(idempotency_key="k1")) == [1, 2]


def test_a_function_that_raises_has_not_acted() -> None:
    tries: list[int] = []

    @idempotent(IdempotencyStore(MemoryCells()))
    def charge() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("rolled back")
        return "charged"

    with pytest.raises(ValueError, match="rolled back"):
        charge(idempotency_key="k1")
    assert charge(idempotency_key="k1") == "charged"


def test_a_coroutine_function_acts_once_too() -> None:
    charged: list[int] = []
    may_end = asyncio.Event()

    @idempotent(IdempotencyStore(MemoryCells()))
    async def charge(amount: int) -> str:
        charged.append(amount)
        await may_end.wait()
        if len(charged) == 1:
            raise ValueError("rolled back")
        return f"charged {amount}"

    async def test() -> None:
        tasks = [asyncio.create_task(charge(30, idempotency_key="k1")) for _ in range(3)]
        while not charged:
            await asyncio.sleep(0)
        may_end.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(map(str, done)) == ["charged 30", "charged 30", "rolled back"]
        assert charged == [30, 30]

    asyncio.run(test())


class Outage(MemoryCells):
    """Cannot be written while it lasts."""

    def __init__(self) -> None:
        super().__init__()
        self.lasts = threading.Event()
        self.was_felt = threading.Event()

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        if self.lasts.is_set():
            self.was_felt.set()
            raise StoreUnavailable("no database")
        return super().swap(key, old, new, ttl_ms)


def test_a_key_is_held_through_an_outage() -> None:
    cells = Outage()

    @idempotent(IdempotencyStore(cells, lease_s=0.06))
    def charge() -> str:
        cells.lasts.set()
        assert cells.was_felt.wait(20)
        cells.lasts.clear()
        return "charged"

    assert charge(idempotency_key="k1") == "charged"
    assert charge(idempotency_key="k1") == "charged"
    assert cells.was_felt.is_set()


def test_an_answer_is_kept_after_a_short_outage() -> None:
    """Also if the change was made that nobody heard of."""

    class Unheard(MemoryCells):
        fails = 0

        def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
            is_made = super().swap(key, old, new, ttl_ms)
            if old is not None and self.fails < 2:
                self.fails += 1
                raise StoreUnavailable("no answer")
            return is_made

    calls: list[int] = []
    cells = Unheard()

    @idempotent(IdempotencyStore(cells))
    def charge() -> str:
        calls.append(1)
        return "charged"

    assert [charge(idempotency_key="k1") for _ in range(2)] == ["charged"] * 2
    assert (len(calls), cells.fails) == (1, 2)


@pytest.mark.parametrize("error", [None, ValueError("rolled back")])
def test_who_has_acted_says_so_also_if_that_cannot_be_kept(error: Exception | None) -> None:
    cells = Outage()

    @idempotent(IdempotencyStore(cells))
    def charge() -> str:
        cells.lasts.set()
        if error is not None:
            raise error
        return "charged"

    if error is None:
        assert charge(idempotency_key="k1") == "charged"
    else:
        with pytest.raises(ValueError, match="rolled back"):
            charge(idempotency_key="k1")
