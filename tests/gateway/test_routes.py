"""Each route of the turn API, and each way in which it says no."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from tests.gateway.scene import LOOPS, TOKENS, Scene, running

from afl.errors import StoreUnavailable
from afl.gateway import TurnApi
from afl.ids import new_id
from afl.runtime.health import Report
from afl.telemetry import TELEMETRY, Event
from afl.turns import MemoryTurns, TurnRecord, TurnState, TurnSuspended


def refused(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem, which must be this one."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:afl:problem:{kind}")
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    return dict(problem)


def submitted(scene: Scene, key: str, request: Any = "hello") -> httpx.Response:
    body = {"loop": "support", "request": request}
    return scene.http().post("/turns", json=body, headers={"Idempotency-Key": key})


# Submitting


def test_a_turn_is_accepted_and_a_loop_of_its_name_gets_it(scene: Scene) -> None:
    events: list[Event] = []
    unsubscribe = TELEMETRY.subscribe(events.append)
    answer = scene.http().post("/turns", json={"loop": "support", "request": "hello"})
    unsubscribe()
    assert answer.status_code == 202
    found = answer.json()
    assert answer.headers["location"] == f"/turns/{found['id']}" == found["links"]["self"]
    assert (found["state"], found["loop"], found["result"]) == ("accepted", "support", None)
    (claimed,) = [
        each
        for each in scene.store.claim_due("support", "worker", 60_000, 1000)
        if each.id == found["id"]
    ]
    assert b'"request":"hello"' in scene.store.value(claimed.request)
    (event,) = [each for each in events if each.name == "turn_accepted"]
    assert event.facts() | {"at": None} == {
        "at": None,
        "turn": found["id"],
        "loop": "support",
        "caller": "alice",
    }


def test_the_same_key_and_request_is_the_same_turn_until_it_is_over_and_after(scene: Scene) -> None:
    key = new_id()
    first, again = submitted(scene, key), submitted(scene, key)
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["key"] == key
    agent = scene.agent(first.json()["id"])
    agent.finishes("fine")
    after = submitted(scene, key)
    assert (after.status_code, after.json()["state"], after.json()["result"]) == (
        202,
        "done",
        "fine",
    )


def test_the_same_key_with_another_request_is_refused(scene: Scene) -> None:
    key = new_id()
    assert submitted(scene, key).status_code == 202
    other = submitted(scene, key, "something else")
    refused(other, 422, "key-reused")
    assert f"the key '{key}'" in other.json()["detail"]


def test_two_callers_with_the_same_key_have_two_turns(scene: Scene) -> None:
    key, body = new_id(), {"loop": "support", "request": "hello"}
    headers = {"Idempotency-Key": key}
    ids = {
        scene.http(name).post("/turns", json=body, headers=headers).json()["id"]
        for name in ("alice", "bob", "admin")
    }
    assert len(ids) == 3


@pytest.mark.parametrize("key", ["x" * 256, "with space", "\u00e9"])
def test_a_key_that_cannot_be_one_is_refused(scene: Scene, key: str) -> None:
    body = {"loop": "support", "request": "hello"}
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    refused(scene.http().post("/turns", json=body, headers=headers), 422, "invalid")


def test_an_unknown_loop_is_refused_with_those_there_are(scene: Scene) -> None:
    answer = scene.http().post("/turns", json={"loop": "suport", "request": "hello"})
    problem = refused(answer, 404, "no-such-loop")
    assert problem["loops"] == ["anything", "support"]
    assert "anything, support" in problem["detail"]


def test_a_request_that_the_loop_does_not_take_is_refused_at_once(scene: Scene) -> None:
    answer = scene.http().post("/turns", json={"loop": "support", "request": {"say": 1}})
    assert "Expected `str`" in refused(answer, 422, "invalid")["detail"]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "not-json"),
        (b'{"loop": "support", "request": NaN}', 400, "not-json"),
        (b'{"loop": "support", "request": "\xff"}', 400, "not-json"),
        (b"[]", 422, "invalid"),
        (b'{"loop": "support"}', 422, "invalid"),
        (b'{"loop": 7, "request": "x"}', 422, "invalid"),
        (b'{"loop": "support", "request": "x", "budget": 1}', 422, "invalid"),
        (b'{"loop": "anything", "request": ' + b"[" * 70 + b"]" * 70 + b"}", 422, "invalid"),
        (b'{"loop": "anything", "request": ' + b"[" * 100_000, 422, "invalid"),
    ],
)
def test_a_body_that_is_no_request_is_refused(
    scene: Scene, body: bytes, status: int, kind: str
) -> None:
    headers = {"content-type": "application/json"}
    refused(scene.http().post("/turns", content=body, headers=headers), status, kind)


def test_brackets_in_text_are_not_nesting(scene: Scene) -> None:
    assert scene.submit("[{" * 200 + '"[') != ""


def test_a_body_that_does_not_say_it_is_json_is_refused(scene: Scene) -> None:
    content = b'{"loop": "support", "request": "x"}'
    headers = {"content-type": "text/plain"}
    refused(scene.http().post("/turns", content=content, headers=headers), 415, "not-json-type")


# Looking


def test_a_turn_shows_its_state_and_in_the_end_its_result(scene: Scene) -> None:
    turn_id = scene.submit()
    agent = scene.agent(turn_id)
    assert scene.http().get(f"/turns/{turn_id}").json()["state"] == "running"
    agent.says("well")
    agent.finishes({"answer": 42})
    found = scene.http().get(f"/turns/{turn_id}").json()
    assert (found["state"], found["result"], found["entries"]) == ("done", {"answer": 42}, 1)
    assert found["ended"].endswith("Z")


def test_a_failed_turn_shows_why(scene: Scene) -> None:
    turn_id = scene.submit()
    scene.agent(turn_id).fails("the model refused")
    found = scene.http().get(f"/turns/{turn_id}").json()
    assert (found["state"], found["reason"]) == ("failed", "the model refused")


def test_a_suspended_turn_shows_the_token_that_lets_it_go_on(scene: Scene) -> None:
    turn_id = scene.submit()
    scene.agent(turn_id).seals("is suspended: a deploy")
    found = scene.http().get(f"/turns/{turn_id}").json()
    assert (found["state"], found["reason"]) == ("suspended", "is suspended: a deploy")
    assert scene.http("watcher").get(f"/turns/{turn_id}").json()["resume_token"] is None
    answer = scene.http("bob").post("/turns/resume", json={"token": found["resume_token"]})
    assert answer.status_code == 200
    assert scene.store.get(turn_id).due is not None
    again = scene.http().post("/turns/resume", json={"token": found["resume_token"]})
    assert again.status_code == 200


def test_an_unknown_turn_is_not_found_by_any_route(scene: Scene) -> None:
    http, path = scene.http("admin"), f"/turns/{new_id()}"
    for answer in (
        http.get(path),
        http.get(f"{path}/events"),
        http.delete(path),
        http.post(f"{path}/input", json={"answer": 1}),
    ):
        refused(answer, 404, "no-such-turn")


def test_turns_are_listed_newest_first_by_loop_and_state(scene: Scene) -> None:
    first, second = (scene.submit(loop="anything", name="admin") for _ in range(2))
    scene.agent(first).finishes()
    http = scene.http("admin")
    listed = http.get("/turns", params={"loop": "anything", "limit": 2}).json()["turns"]
    assert [each["id"] for each in listed] == [second, first]
    done = http.get("/turns", params={"loop": "anything", "state": "done"}).json()["turns"]
    assert first in [each["id"] for each in done]
    assert second not in [each["id"] for each in done]
    older = http.get("/turns", params={"loop": "anything", "limit": 1, "before": second})
    assert [each["id"] for each in older.json()["turns"]] == [first]
    refused(http.get("/turns", params={"before": "nobody"}), 404, "no-such-turn")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=many", "state=odd", "loop=", "stat=done"]
)
def test_a_filter_that_cannot_be_is_refused(scene: Scene, query: str) -> None:
    refused(scene.http("admin").get(f"/turns?{query}"), 422, "invalid")


@pytest.mark.parametrize("digits", [19, 5000])
def test_a_number_of_any_length_is_too_large(scene: Scene, digits: int) -> None:
    answer = scene.http("admin").get(f"/turns?limit={'9' * digits}")
    assert "limit does not fit: Expected `int` <= 1000" in refused(answer, 422, "invalid")["detail"]


# Acting


def asking(scene: Scene, **options: Any) -> str:
    turn_id = scene.submit()
    with pytest.raises(TurnSuspended):
        scene.agent(turn_id).turn.wait_for_input("which one?", **options)
    return turn_id


def test_a_question_is_shown_and_answered_once(scene: Scene) -> None:
    turn_id = asking(scene, timeout_s=60)
    http, path = scene.http(), f"/turns/{turn_id}/input"
    waiting = http.get(f"/turns/{turn_id}").json()["waiting"]
    assert waiting["question"] == "which one?"
    assert waiting["until"] > waiting["since"]
    answer = http.post(path, json={"answer": "this one", "call_id": waiting["call_id"]})
    assert answer.status_code == 200
    assert answer.json()["waiting"] is None
    assert answer.json()["reason"] == "has what it waited for, and goes on"
    assert http.post(path, json={"answer": "this one"}).status_code == 200
    refused(http.post(path, json={"answer": "that one"}), 409, "already-answered")


def test_a_turn_that_asks_nothing_takes_no_answer(scene: Scene) -> None:
    answer = scene.http().post(f"/turns/{scene.submit()}/input", json={"answer": 1})
    refused(answer, 409, "nothing-asked")


def test_a_turn_that_is_over_takes_no_answer(scene: Scene) -> None:
    turn_id = asking(scene)
    assert scene.http().delete(f"/turns/{turn_id}").status_code == 200
    answer = scene.http().post(f"/turns/{turn_id}/input", json={"answer": 1})
    refused(answer, 409, "turn-ended")


def test_a_turn_is_cancelled_however_often_but_not_after_another_end(scene: Scene) -> None:
    turn_id = scene.submit()
    for _ in range(2):
        answer = scene.http().delete(f"/turns/{turn_id}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert answer.json()["reason"] == "alice cancelled it"
    done = scene.submit()
    scene.agent(done).finishes()
    refused(scene.http().delete(f"/turns/{done}"), 409, "turn-ended")


def test_a_token_that_nobody_gave_resumes_nothing(scene: Scene) -> None:
    for token in ("nonsense", "v1.e30.x", "\u00e9"):
        answer = scene.http().post("/turns/resume", json={"token": token})
        refused(answer, 403, "invalid-resume-token")


# Everything else


def test_other_paths_and_methods_are_problems_too(scene: Scene) -> None:
    http = scene.http()
    refused(http.get("/"), 404, "no-such-path")
    refused(http.get("/docs"), 404, "no-such-path")
    refused(http.get("/turns/"), 404, "no-such-path")
    answer = http.put("/turns")
    refused(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, POST"
    assert http.head("/turns").status_code == 405


def test_the_openapi_document_has_every_route_and_every_problem(scene: Scene) -> None:
    document = scene.http().get("/openapi.json").json()
    operations = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert operations == {
        ("POST", "/turns"),
        ("GET", "/turns"),
        ("GET", "/turns/{turn_id}"),
        ("GET", "/turns/{turn_id}/events"),
        ("POST", "/turns/{turn_id}/input"),
        ("POST", "/turns/resume"),
        ("DELETE", "/turns/{turn_id}"),
    }
    responses = document["paths"]["/turns"]["post"]["responses"]
    assert set(responses) == {
        *("202", "400", "401", "403", "404", "408", "413", "415", "421", "422", "431", "500", "503")
    }
    refs = [each for each in str(document).split("'") if each.startswith("#/")]
    assert {each.rpartition("/")[2] for each in refs} <= set(document["components"]["schemas"])


# A store and a group that are not there


class Failing(MemoryTurns):
    """Like its base, until it is told to fail."""

    error: Exception | None = None

    def get(self, turn_id: str) -> TurnRecord:
        if self.error is not None:
            raise self.error
        return super().get(turn_id)


@pytest.fixture(scope="module")
def fragile() -> Iterator[tuple[Scene, Failing, list[str]]]:
    reasons: list[str] = []
    with closing(Failing()) as store:
        api = TurnApi(
            store,
            loops=LOOPS,
            tokens=list(TOKENS.values()),
            ready=lambda: Report(ok=not reasons, reasons=tuple(reasons)),
        )
        with running(api), closing(Scene(api, store)) as scene:
            yield scene, store, reasons


def test_a_store_that_is_away_is_a_503_that_says_when_to_come_back(
    fragile: tuple[Scene, Failing, list[str]],
) -> None:
    scene, store, _ = fragile
    turn_id = scene.submit()
    store.error = StoreUnavailable("postgresql://user:secret@host is away")
    try:
        answer = scene.http().get(f"/turns/{turn_id}")
    finally:
        store.error = None
    assert "secret" not in refused(answer, 503, "store-unavailable")["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert scene.http().get(f"/turns/{turn_id}").status_code == 200


def test_what_nobody_expects_is_a_500_that_tells_nothing(
    fragile: tuple[Scene, Failing, list[str]],
) -> None:
    scene, store, _ = fragile
    turn_id = scene.submit()
    store.error = RuntimeError("the password is secret")
    try:
        answer = scene.http().get(f"/turns/{turn_id}")
    finally:
        store.error = None
    assert "secret" not in refused(answer, 500, "internal")["detail"]


def test_while_the_group_is_not_ready_only_new_turns_are_refused(
    fragile: tuple[Scene, Failing, list[str]],
) -> None:
    scene, _, reasons = fragile
    turn_id = scene.submit()
    reasons.append("drain: SIGTERM")
    try:
        answer = scene.http().post("/turns", json={"loop": "support", "request": "hello"})
        assert "drain: SIGTERM" in refused(answer, 503, "not-ready")["detail"]
        assert answer.headers["retry-after"] == "1"
        assert scene.http().get(f"/turns/{turn_id}").status_code == 200
        assert scene.http().delete(f"/turns/{turn_id}").status_code == 200
        (end,) = scene.events(turn_id)
        assert end.name == TurnState.CANCELLED
    finally:
        reasons.clear()
    assert scene.submit() != turn_id
