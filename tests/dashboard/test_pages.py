"""Pages, what is live on them, and the same things as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from benchmarks.large import large_run
from starlette.applications import Starlette
from tests.dashboard.conftest import (
    OPERATOR,
    READER,
    Site,
    csrf_of,
    dead_letter,
    opened,
    waiting_turns,
)
from tests.docs.pages import blocks_of

from afl.dashboard import make_app, mount
from afl.dashboard.formats import span
from afl.gateway.access import Token
from afl.operations.handlers import NewHandler, add
from afl.operations.texts import compile_text
from afl.runtime.entities import LogDefinition, MinuteCount, ServerDefinition
from afl.runtime.types import StepId, WorkflowId

_ROOT = Path(__file__).parents[2]


def _events(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    name, data = "", ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data += line.removeprefix("data: ")
        elif not line and name:
            yield name, data
            name, data = "", ""


def test_only_what_has_changed_is_sent_again(site: Site) -> None:
    run = site.submit()
    client = site.signed_in()
    with client.stream("GET", "/live", params={"to": f"/runs/{run}"}) as answer:
        events = _events(answer)
        shown = dict(next(events) for _ in range(7))
        assert "running" in shown["live_head"]
        # The log is the last part of the page: what comes before it was sent as well.
        site.evaluator.cancel(WorkflowId(run))
        site.store.save_log(LogDefinition("a log", 1, run, message="enough"))
        sent: list[str] = []
        while "enough" not in shown["live_logs"]:
            name, data = next(events)
            assert shown[name] != data
            shown[name] = data
            sent.append(name)
        assert "cancelled" in shown["live_head"]
        assert "live_step" not in sent


def test_a_live_page_ends_when_the_server_does(site: Site) -> None:
    client = site.signed_in()
    with client.stream("GET", "/live", params={"to": "/runs"}) as answer:
        events = _events(answer)
        assert next(events)[0] == "live_runs"
        site.store.close()
        assert list(events)[-1][0] == "gone"


def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(site: Site) -> None:
    client = site.signed_in()
    csrf = csrf_of(client.get("/workflows").text)
    form = {"csrf": csrf, "workflow": "t.Hello", "input.name": "Ada", "input.count": "many"}
    answer = client.post("/runs", data=form)
    assert answer.status_code == 422
    assert "count=many: expected Long" in answer.text
    assert 'value="Ada"' in answer.text
    answer = client.post("/runs", data={**form, "input.count": "3", "input.loud": "true"})
    run = site.api().get(f"/api{answer.headers['location']}").json()
    assert run["inputs"] == {"name": "Ada", "count": 3, "loud": True}


def test_runs_are_found_and_paged(site: Site) -> None:
    runs = [site.submit() for _ in range(3)]
    client = site.signed_in()
    page = client.get("/runs", params={"limit": "2"}).text
    assert runs[2] in page
    assert runs[0] not in page
    assert 'rel="next"' in page
    assert runs[0] in client.get("/runs", params={"text": runs[0][:13]}).text
    assert "No run fits" in client.get("/runs", params={"state": "failed"}).text
    assert client.get("/runs", params={"state": "asleep"}).status_code == 422
    assert client.get("/runs", params={"stat": "failed"}).status_code == 422


def test_a_run_is_paused_unpaused_and_cancelled(site: Site) -> None:
    run = site.submit()
    client = site.signed_in()
    csrf = csrf_of(client.get(f"/runs/{run}").text)
    for act, state in (("pause", "paused"), ("unpause", "running"), ("cancel", "cancelled")):
        assert client.post(f"/runs/{run}/{act}", data={"csrf": csrf}).status_code == 303
        assert f">{state}</span>" in client.get(f"/runs/{run}").text
    again = client.post(f"/runs/{run}/cancel", data={"csrf": csrf})
    assert (again.status_code, "nothing to cancel" in again.text) == (409, True)


def test_what_cannot_be_done_with_a_run_now_is_a_conflict(site: Site) -> None:
    run, api = site.submit(), site.api()
    [task] = site.store.get_tasks_by_runner(run)
    assert api.post(f"/api/tasks/{task.uuid}/discard", json={}).status_code == 200
    for path in (
        *(f"/api/runs/{run}/{each}" for each in ("cancel", "pause", "unpause", "retry")),
        f"/api/tasks/{task.uuid}/discard",
    ):
        refused = api.post(path, json={})
        assert (refused.status_code, refused.json()["type"][-8:]) == (409, ":not-now"), path
        assert refused.json()["detail"]


def test_the_source_shows_where_a_run_is(site: Site) -> None:
    page = site.signed_in().get(f"/runs/{site.submit()}").text
    current = page.partition('<div class="now">')[2].partition("</div>")[0]
    assert "greeted = Greet(" in current


def test_a_graph_says_how_many_of_many_steps_are_done(site: Site) -> None:
    run = large_run(site.evaluator, 9)
    first, *_ = site.store.get_tasks_by_runner(run)
    site.evaluator.continue_step(StepId(first.step_id), {"m": 1})
    api = site.api()
    graph = api.get(f"/api/runs/{run}/graph").json()
    states = {each["key"]: each["counts"] for each in graph["nodes"]}
    (one,) = [each for each in graph["graph"]["nodes"] if each["label"] == "one"]
    assert states[one["key"]] == {"waiting": 2, "completed": 1}
    assert one["marks"] == ["1 of 3"]
    assert "1 of 3" in site.signed_in().get(f"/runs/{run}").text
    source = api.get(f"/api/runs/{run}/source").json()
    current = [each["text"].strip() for each in source if each["is_current"]]
    assert current == ["one = Do(n = item.n)", "two = Do(n = item.n)"]


def test_one_dead_letter_is_sent_again_by_its_button(site: Site) -> None:
    for each in ("first", "second"):
        dead_letter(site.mailboxes, "orders", each)
    client, api = site.signed_in(), site.api()
    letters = api.get("/api/mailboxes/orders").json()["dead_letters"]
    csrf = csrf_of(client.get("/mailboxes/orders").text)
    form = {"csrf": csrf, "ids": letters[0]["message_id"]}
    assert client.post("/mailboxes/orders/redrive", data=form).status_code == 303
    assert api.get("/api/mailboxes/orders").json()["dead_letters"] == letters[1:]
    assert client.post("/mailboxes/orders/redrive", data={"csrf": csrf}).status_code == 303
    assert api.get("/api/mailboxes/orders").json()["dead_letters"] == []


def test_turns_are_shown_page_by_page(site: Site) -> None:
    asking, doubting = waiting_turns(site.mailboxes)
    client = site.signed_in()
    first = client.get("/turns", params={"limit": 1}).text
    assert f"/turns/{doubting}" in first
    assert f"cursor={doubting}" in first
    second = client.get("/turns", params={"limit": 1, "cursor": doubting}).text
    assert f'href="/turns/{asking}"' in second
    assert "cursor=" not in second
    assert site.api().get("/api/turns", params={"cursor": "nobody"}).status_code == 404


def test_turns_and_mailboxes_are_worked_on_by_programs(site: Site) -> None:
    asking, doubting = waiting_turns(site.mailboxes)
    dead_letter(site.mailboxes, "orders")
    api = site.api()
    (effect,) = api.get("/api/turns").json()["unknown"]
    assert (effect["turn_id"], effect["tool"]) == (doubting, "fax")
    wrong = api.post(f"/api/turns/{doubting}/settle", json={"outcome": "perhaps"})
    assert wrong.status_code == 422
    settled = api.post(f"/api/turns/{doubting}/settle", json={"outcome": "done", "value": 1})
    assert settled.status_code == 200
    assert api.get("/api/turns").json()["unknown"] == []
    assert api.post(f"/api/turns/{asking}/answer", json={"answer": "red"}).status_code == 200
    assert api.post(f"/api/turns/{asking}/cancel", json={}).status_code == 200
    assert api.get(f"/api/turns/{asking}").json()["turn"]["state"] == "cancelled"
    assert api.get("/api/turns/nothing").status_code == 404
    assert len(api.get("/api/mailboxes/orders").json()["dead_letters"]) == 1
    assert api.post("/api/mailboxes/orders/redrive", json={}).status_code == 200
    assert api.get("/api/mailboxes/orders").json()["dead_letters"] == []


def test_handlers_are_registered_verified_disabled_and_removed(site: Site) -> None:
    (site.folder / "greet.py").write_text("def handle(payload):\n    return {'text': 'hi'}\n")
    api, base = site.api(), "/api/handlers"
    new = {"facet": "t.Greet", "module": str(site.folder / "greet.py"), "entrypoint": "wrong"}
    assert api.post(base, json=new).status_code == 200
    answer = api.post(f"{base}/t.Greet/verify", json={})
    assert (answer.status_code, "does not load" in answer.text) == (422, True)
    assert api.post(base, json={**new, "entrypoint": "handle"}).status_code == 200
    assert api.post(f"{base}/t.Greet/verify", json={}).status_code == 200
    assert api.post(f"{base}/t.Greet/disable", json={}).status_code == 200
    assert api.get(f"{base}/t.Greet").json()["is_enabled"] is False
    assert api.post(f"{base}/t.Greet/remove", json={}).status_code == 200
    assert api.get(f"{base}/t.Greet").status_code == 404


def test_steps_are_retried_and_tasks_given_up_by_programs(site: Site) -> None:
    run = site.submit()
    api = site.api()
    (task,) = api.get("/api/tasks", params={"run": run}).json()["tasks"]
    assert task["is_unserved"] is True
    refused = api.post(f"/api/runs/{run}/steps/{task['step']}/retry", json={})
    assert refused.status_code == 409
    site.evaluator.fail_step(StepId(task["step"]), "no luck")
    steps = api.get(f"/api/runs/{run}/steps", params={"limit": 1}).json()
    assert (len(steps["steps"]), steps["cursor"] is not None) == (1, True)
    assert api.get(f"/api/steps/{task['step']}").json()["state"] == "failed"
    assert api.get(f"/api/runs/{run}").json()["summary"]["state"] == "failed"
    assert api.post(f"/api/tasks/{task['task']}/retry", json={}).status_code == 200
    assert api.get(f"/api/runs/{run}").json()["summary"]["state"] == "running"
    discarded = api.post(f"/api/tasks/{task['task']}/discard", json={"reason": "enough"})
    assert discarded.status_code == 200
    assert api.get(f"/api/runs/{run}").json()["summary"]["error"]["message"] == "enough"


def test_a_task_that_somebody_does_cannot_be_given_up_now(site: Site) -> None:
    run = site.submit()
    [task] = site.store.get_tasks_by_runner(run)
    site.store.claim_tasks([task.name], 1)
    refused = site.api().post(f"/api/tasks/{task.uuid}/discard", json={})
    assert (refused.status_code, refused.json()["type"].endswith("not-now")) == (409, True)


def test_editing_a_handler_keeps_what_the_form_does_not_show(site: Site) -> None:
    (site.folder / "greet.py").write_text("def handle(payload): ...")
    new = NewHandler("t.Greet", str(site.folder / "greet.py"), retry_max=3, requirements=["x"])
    add(site.store, new)
    client = site.signed_in()
    csrf = csrf_of(client.get("/handlers/t.Greet").text)
    form = {"csrf": csrf, "facet": "t.Greet", "module": new.module, "timeout_ms": "5"}
    assert client.post("/handlers", data=form).status_code == 303
    found = site.store.get_handler_registration("t.Greet")
    assert found is not None
    assert (found.timeout_ms, found.requirements) == (5, ["x"])
    assert found.metadata == {"retry": {"max": 3}}


def test_the_chart_says_whose_tasks_it_counts(site: Site) -> None:
    client = site.signed_in()
    page = client.get("/overview").text
    assert "Tasks finished by workers in each minute" in page
    assert "`afl run`" in page
    now = site.store.now_ms()
    finished = [MinuteCount(now - now % 60_000, 3)]
    site.store.save_server(
        ServerDefinition("a server", "group", "service", "name", ping_time=now, finished=finished)
    )
    page = client.get("/overview").text
    assert "3 done, 0 failed" in page
    assert "`afl run`" not in page


def test_an_empty_page_says_what_can_be_done_about_it(site: Site) -> None:
    for token, promise in ((OPERATOR, True), (READER, False)):
        page = site.signed_in(token).get("/handlers").text
        assert ("Say below" in page, "Register a handler" in page) == (promise, promise)
    client = site.signed_in()
    page = client.get("/turns").text
    assert "`afl serve`" in page
    assert "`afl turns`" not in page
    assert "No turn fits" in client.get("/turns", params={"loop": "nobody"}).text


def test_the_request_that_the_documentation_shows_starts_a_run(tmp_path: Path) -> None:
    program = compile_text((_ROOT / "examples/checkout/checkout.afl").read_text()).require()
    how_to = _ROOT / "docs/how-to/use-the-dashboard.md"
    shown = [re.findall(r"-d '(.*?)'", each.text, re.DOTALL) for each in blocks_of(how_to)]
    (body,) = [each for found in shown for each in found]
    with opened(tmp_path, programs=[program]) as site:
        headers = {"content-type": "application/json"}
        answer = site.api().post("/api/runs", content=body, headers=headers)
    assert answer.status_code == 200, answer.text


async def _mounted(site: Site) -> tuple[str, str]:
    outer = Starlette()
    mount(outer, make_app(site.desk, [Token(OPERATOR)]), "/dashboard")
    transport = httpx.ASGITransport(app=outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await client.post("/dashboard/login", data={"token": OPERATOR})
        page = await client.get(answer.headers["location"])
        return answer.headers["location"], page.text


def test_it_works_below_a_path_of_another_app(site: Site) -> None:
    import asyncio

    place, page = asyncio.run(_mounted(site))
    assert place == "/dashboard/overview"
    assert 'href="/dashboard/runs"' in page
    assert 'href="/runs"' not in page
    assert 'sse-connect="/dashboard/live?to=%2Foverview"' in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.34, "340 ms"),
        (1.24, "1.2 s"),
        (184, "3 min 4 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_times_are_written_for_people(seconds: float, text: str) -> None:
    assert span(seconds) == text
