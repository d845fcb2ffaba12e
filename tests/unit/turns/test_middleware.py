"""The middleware: an application behind it acts once for each key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import pytest

from afl.errors import StoreUnavailable
from afl.turns.effects import Effect, causing
from afl.turns.errors import KeyReused, OutcomeUnknown
from afl.turns.idempotency import IdempotencyMiddleware, IdempotencyStore, idempotent
from afl.turns.idempotency.memory import MemoryCells
from afl.turns.tool_client import AsyncToolClient


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
