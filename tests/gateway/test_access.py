"""Who may do what."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest
from tests.gateway.scene import LOOPS, TOKENS, Scene, running
from tests.gateway.test_routes import refused

from afl.errors import ConfigurationError
from afl.gateway import Limits, Role, Token, TurnApi
from afl.gateway.access import Access, is_loopback
from afl.turns import MemoryTurns


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong-0123456789abcdef",
        f"Basic {TOKENS['alice'].secret}",
        TOKENS["alice"].secret,
        f"Bearer {TOKENS['alice'].secret}x",
    ],
)
def test_without_a_good_token_nothing_is_answered(scene: Scene, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    with httpx.Client(base_url=scene.url, headers=headers) as http:
        for answer in (
            http.get("/turns"),
            http.get("/turns/x/events"),
            http.get("/openapi.json"),
            http.post("/turns", content=b"{" * 2_000_000),
        ):
            refused(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_caller_sees_and_changes_only_its_own_turns(scene: Scene) -> None:
    turn_id = scene.submit(name="bob")
    path = f"/turns/{turn_id}"
    for answer in (
        scene.http("alice").get(path),
        scene.http("alice").get(f"{path}/events"),
        scene.http("alice").post(f"{path}/input", json={"answer": 1}),
        scene.http("alice").delete(path),
    ):
        refused(answer, 404, "no-such-turn")
    refused(scene.http("alice").get("/turns"), 403, "forbidden")
    assert scene.http("bob").get(path).status_code == 200
    assert scene.http("admin").get(path).status_code == 200


def test_a_reader_sees_all_turns_and_changes_none(scene: Scene) -> None:
    turn_id = scene.submit(name="bob")
    http, path = scene.http("watcher"), f"/turns/{turn_id}"
    assert http.get(path).json()["id"] == turn_id
    assert turn_id in [each["id"] for each in http.get("/turns").json()["turns"]]
    for answer in (
        http.post("/turns", json={"loop": "support", "request": "x"}),
        http.post(f"{path}/input", json={"answer": 1}),
        http.post("/turns/resume", json={"token": "x"}),
        http.delete(path),
    ):
        refused(answer, 403, "forbidden")
    assert scene.store.get(turn_id).state == "accepted"


def test_only_operators_see_what_is_inside_a_turn(scene: Scene) -> None:
    turn_id = scene.submit()
    agent = scene.agent(turn_id)
    agent.uses("lookup", "the secret file", customer=7)
    agent.turn.remember({"likes": "tea"})
    agent.turn.note("looks angry")
    agent.finishes()
    outside = scene.events(turn_id, "alice")
    assert outside == scene.events(turn_id, "watcher")
    assert [each.name for each in outside] == ["tool_started", "tool_finished", "done"]
    assert set(outside[0].data) == set(outside[1].data) == {"at", "call_id", "tool"}
    inside = scene.events(turn_id, "admin")
    assert [each.name for each in inside] == [
        *("tool_started", "tool_finished", "memory", "note", "done")
    ]
    assert inside[0].data["arguments"] == {"customer": 7}
    assert inside[1].data["result"] == "the secret file"
    assert [each.data["value"] for each in inside[2:4]] == [{"likes": "tea"}, "looks angry"]


def test_two_tokens_of_one_name_are_keys_to_the_same_turns() -> None:
    old, new = (Token(f"{each}-0123456789abcdef", "app", Role.CALLER) for each in ("old", "new"))
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS, tokens=[new, old])) as api,
    ):
        assert api.url is not None
        found = [
            httpx.post(
                f"{api.url}/turns",
                json={"loop": "support", "request": "x"},
                headers={"authorization": f"bearer {each.secret}", "idempotency-key": "k"},
            ).json()["id"]
            for each in (old, new)
        ]
    assert found[0] == found[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_without_tokens_it_is_not_served_to_other_machines(host: str) -> None:
    with pytest.raises(ConfigurationError, match="give it tokens"):
        TurnApi(MemoryTurns(), loops=LOOPS, host=host)


def test_without_tokens_only_names_of_this_machine_are_answered() -> None:
    """A page of another site, whose name was made to point here, gets nothing."""
    with closing(MemoryTurns()) as store, running(TurnApi(store, loops=LOOPS)) as api:
        assert api.url is not None
        assert httpx.get(f"{api.url}/turns").status_code == 200
        for host in ("evil.example", "evil.example:80", "[::2]:80"):
            refused(httpx.get(f"{api.url}/turns", headers={"host": host}), 421, "wrong-host")
        for host in ("localhost:99", "127.0.0.1", "[::1]:80"):
            assert httpx.get(f"{api.url}/turns", headers={"host": host}).status_code == 200


def test_other_origins_are_answered_only_if_they_are_listed() -> None:
    origin = "https://app.example"
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,idempotency-key",
    }
    with closing(MemoryTurns()) as store:
        with running(TurnApi(store, loops=LOOPS)) as api:
            assert (
                "access-control-allow-origin"
                not in httpx.options(f"{api.url}/turns", headers=asked).headers
            )
        with running(TurnApi(store, loops=LOOPS, origins=[origin])) as api:
            answer = httpx.options(f"{api.url}/turns", headers=asked)
            assert answer.headers["access-control-allow-origin"] == origin
            other = httpx.options(f"{api.url}/turns", headers=asked | {"origin": "https://x.test"})
            assert "access-control-allow-origin" not in other.headers


def test_tokens_that_are_no_good_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="guessed"):
        Token("short")
    with pytest.raises(ConfigurationError, match="no name"):
        Token("0123456789abcdef", "a:b")
    twice = [Token("0123456789abcdef", "a", role) for role in (Role.CALLER, Role.OPERATOR)]
    with pytest.raises(ConfigurationError, match="two roles"):
        Access(twice)
    with pytest.raises(ConfigurationError, match="streams is 0"):
        Limits(streams=0)
    assert "0123456789abcdef" not in repr(Token("0123456789abcdef"))


def test_loopback_is_known_by_its_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "::", "localhost.evil.example", "")))
