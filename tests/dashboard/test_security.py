"""What the dashboard refuses, and what it never lets through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.in_process import afl
from tests.dashboard.conftest import (
    CALLER,
    EVIL,
    OPERATOR,
    PATIENCE_S,
    PROGRAM,
    READER,
    Process,
    Site,
    csrf_of,
    dead_letter,
    first_parts,
    opened,
    waiting_turns,
)

from afl.dashboard.routes import ACTS, LOOKS, PAGES
from afl.gateway.requests import Limits
from afl.operations.handlers import NewHandler, add
from afl.operations.texts import compile_text
from afl.runtime.entities import (
    HandlerRegistration,
    LogDefinition,
    RunnerState,
    ServerDefinition,
    ServerState,
)
from afl.runtime.types import StepId, WorkflowId


def _filled(path: str) -> str:
    for name in ("run", "step", "task", "server", "facet", "turn", "mailbox"):
        path = path.replace(f"{{{name}}}", "anything")
    return path


def test_nothing_is_shown_without_a_token(site: Site) -> None:
    client = site.client()
    for look in PAGES.values():
        answer = client.get(_filled(look.path))
        assert (answer.status_code, answer.headers["location"][:7]) == (303, "/login?")
    for look in LOOKS:
        answer = client.get(f"/api{_filled(look.path)}")
        assert (answer.status_code, answer.json()["status"]) == (401, 401)
    assert client.get("/live?to=/runs").status_code == 401
    assert client.get("/api/openapi.json").status_code == 401


def test_nothing_is_changed_without_a_token(site: Site) -> None:
    client = site.client()
    for act in ACTS:
        assert client.post(_filled(act.path)).status_code == 401
        assert client.post(f"/api{_filled(act.path)}", json={}).status_code == 401


def test_wrong_tokens_and_cookies_are_nobodys(site: Site) -> None:
    client = site.client()
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    assert client.post("/login", data={"token": CALLER}).status_code == 401
    good = site.signed_in().cookies["afl_session"]
    name, until, mark = good.split(".")
    later, forged = f"{name}.{int(until) + 1}.{mark}", f"{name}.{until}.{'0' * 64}"
    for bad in (later, forged, "..", "x", good[:-1]):
        answer = client.get("/runs", headers={"cookie": f"afl_session={bad}"})
        assert answer.status_code == 303, bad
    assert site.api(CALLER).get("/api/runs").status_code == 403


def test_the_cookie_is_for_this_site_only(site: Site) -> None:
    answer = site.client().post("/login", data={"token": OPERATOR, "to": "//evil.example/"})
    said = answer.headers["set-cookie"].lower()
    assert all(each in said for each in ("httponly", "samesite=strict", "path=/"))
    assert OPERATOR not in said
    assert answer.headers["location"] == "/overview"


def test_who_may_look_may_not_act(site: Site) -> None:
    run = site.submit()
    client = site.signed_in(READER)
    page = client.get(f"/runs/{run}")
    assert "Cancel" not in page.text
    for act in ACTS:
        path = _filled(act.path)
        answer = client.post(path, data={"csrf": csrf_of(page.text)})
        assert answer.status_code == 403, path
        assert site.api(READER).post(f"/api{path}", json={}).status_code == 403
    assert site.api(READER).get("/api/runs").status_code == 200
    assert any("may only look" in each.outcome for each in site.desk.actions())


@pytest.mark.parametrize("given", [{}, {"csrf": ""}, {"csrf": "0" * 64}])
def test_a_change_needs_the_mark_of_our_own_pages(site: Site, given: dict[str, str]) -> None:
    run = site.submit()
    client = site.signed_in()
    assert client.post(f"/runs/{run}/cancel", data=given).status_code == 403
    found = site.store.get_run(WorkflowId(run))
    assert found is not None
    assert found.state == RunnerState.RUNNING
    assert client.post("/logout", data=given).status_code == 403


def test_a_change_from_another_site_is_refused(site: Site) -> None:
    run = site.submit()
    client = site.signed_in()
    csrf = csrf_of(client.get("/runs").text)
    headers = {"sec-fetch-site": "cross-site"}
    answer = client.post(f"/runs/{run}/cancel", data={"csrf": csrf}, headers=headers)
    assert answer.status_code == 403
    assert client.post(f"/runs/{run}/cancel", data={"csrf": csrf}).status_code == 303


def test_every_answer_makes_browsers_careful(site: Site) -> None:
    client = site.signed_in()
    for path in ("/runs", "/login", "/nowhere", "/api/runs", "/health"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def _evil_run(site: Site, name: str) -> str:
    """With an input, a key and a line of the log that are no text for a page."""
    program = compile_text(PROGRAM).require()
    run = site.evaluator.submit(program, "t.Hello", {"name": EVIL}, key=f"{name} {EVIL}")
    (task,) = site.store.get_tasks_by_runner(run)
    site.store.save_log(LogDefinition(name, 1, run, step_id=task.step_id, message=EVIL))
    return run


def _evil_server(site: Site) -> None:
    """All that a process says of itself, and others of it."""
    now = site.store.now_ms()
    site.store.save_server(
        ServerDefinition(
            *(f"{EVIL} id", EVIL, EVIL, EVIL),
            state=ServerState.RUNNING,
            ping_time=now,
            topics=[EVIL],
            handlers=[EVIL],
            version=EVIL,
            task_list=EVIL,
            host=EVIL,
            phase=EVIL,
            wanted=EVIL,
            error={"message": EVIL},
            incidents=[{"message": EVIL, "kind": EVIL, "time": now}],
        )
    )


def test_what_runs_and_servers_say_is_shown_as_text(site: Site) -> None:
    tasks = [
        site.store.get_tasks_by_runner(_evil_run(site, each))[0] for each in ("done", "failed")
    ]
    site.evaluator.continue_step(StepId(tasks[0].step_id), {"text": EVIL})
    site.evaluator.fail_step(StepId(tasks[1].step_id), EVIL)
    _evil_server(site)
    client = site.signed_in()
    pages = [f"/runs/{each.workflow_id}?step={each.step_id}" for each in tasks]
    for page in (*pages, "/overview", "/runs", "/tasks", "/servers"):
        _require_harmless(_shown(client.get(page)))
        _require_harmless(first_parts(client, page))
    answer = site.api().get(f"/api/runs/{tasks[1].workflow_id}")
    assert answer.json()["summary"]["error"]["message"] == EVIL
    assert answer.headers["content-type"] == "application/json"


def test_what_is_registered_is_shown_as_text(site: Site) -> None:
    said: Any = {
        "version": EVIL,
        "checksum": EVIL,
        "requirements": [EVIL],
        "metadata": {EVIL: EVIL},
    }
    site.store.save_handler_registration(
        HandlerRegistration("t.Greet", EVIL, EVIL, load_error={"message": EVIL}, **said)
    )
    site.store.save_handler_registration(HandlerRegistration(EVIL, "greet"))
    client = site.signed_in()
    for page in ("/handlers", "/handlers/t.Greet"):
        _require_harmless(_shown(client.get(page)))


def _require_harmless(page: str) -> None:
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page


def test_what_anybody_wrote_is_shown_as_text(site: Site) -> None:
    run = site.submit(EVIL)
    asking, doubting = waiting_turns(site.mailboxes)
    dead_letter(site.mailboxes, "orders")
    handler = site.folder / "greet.py"
    handler.write_text("def handle(payload): ...")
    add(site.store, NewHandler("t.Greet", str(handler), version=EVIL, checksum=EVIL))
    client = site.signed_in()
    csrf = csrf_of(client.get("/runs").text)
    paths = [
        *("/overview", "/runs", f"/runs/{run}", "/tasks", "/handlers", "/handlers/t.Greet"),
        *("/turns", f"/turns/{asking}", f"/turns/{doubting}", "/mailboxes", "/mailboxes/orders"),
        *("/workflows", "/workflows?workflow=t.Hello", "/servers"),
    ]
    texts = [_shown(client.get(each)) for each in paths]
    texts += [_shown(client.get(path, params={"text": EVIL})) for path in ("/runs",)]
    texts += [_shown(client.get("/tasks", params={"facet": EVIL}))]
    texts += [client.get(f"/runs/{EVIL}").text, client.get("/login", params={"to": EVIL}).text]
    form = {"csrf": csrf, "workflow": "t.Hello", "input.name": EVIL, "input.count": EVIL}
    texts += [client.post("/runs", data=form).text]
    form = {"csrf": csrf, "facet": EVIL, "module": EVIL}
    texts += [client.post("/handlers", data=form).text, _shown(client.get("/actions"))]
    for text in texts:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert sum("&lt;script&gt;" in each for each in texts) >= 8


def _shown(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize(
    "module",
    [
        "file:///etc/passwd",
        "file:///etc/../etc/shadow.py",
        "../../../../../../etc/hosts.py",
        "/etc/hosts.py",
        "{folder}/../outside.py",
        "file://{folder}/%2e%2e/outside.py",
        "~root/x.py",
        "file:///\0.py",
    ],
)
def test_a_handler_outside_of_its_places_is_refused(site: Site, module: str) -> None:
    (site.folder.parent / "outside.py").touch()
    body = {"facet": "t.Greet", "module": module.format(folder=site.folder)}
    answer = site.api().post("/api/handlers", json=body)
    assert answer.status_code == 422, answer.text
    assert site.api().get("/api/handlers").json() == []


def test_a_handler_in_its_place_is_taken(site: Site) -> None:
    (site.folder / "inside.py").write_text("def handle(payload): ...")
    body = {"facet": "t.Greet", "module": str(site.folder / "inside.py")}
    assert site.api().post("/api/handlers", json=body).status_code == 200


def test_bodies_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    with opened(tmp_path, Limits(body_bytes=2000)) as site:
        client = site.signed_in()
        csrf = csrf_of(client.get("/runs").text)
        form = {"csrf": csrf, "facet": "x" * 3000}
        assert client.post("/handlers", data=form).status_code == 413
        assert client.post("/login", data={"token": "x" * 3000}).status_code == 413
        body = {"workflow": "t.Hello", "inputs": {"name": "x" * 3000}}
        assert site.api().post("/api/runs", json=body).status_code == 413


def test_outside_of_this_machine_a_dashboard_needs_tokens(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'afl.db'}"
    done = afl("dashboard", "--host", "0.0.0.0", "--store", store)
    assert done.code == 2
    assert "nobody has a token" in done.err


def test_a_dashboard_that_nobody_could_sign_in_to_does_not_start(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    store = f"sqlite:///{tmp_path / 'afl.db'}"
    command = ("dashboard", "--port", "0", "--store", store, "--token-file", str(tokens))
    tokens.write_text(f"web caller {CALLER}\n")
    done = afl(*command)
    assert done.code == 2
    assert "nobody could sign in" in done.err
    assert "operator or reader" in done.err
    tokens.write_text(f"web king {CALLER}\n")
    done = afl(*command)
    assert done.code == 2
    assert "expected operator, reader" in done.err
    assert "caller" not in done.err


def test_who_cannot_sign_in_is_told_where_tokens_are(site: Site) -> None:
    for token in ("wrong", CALLER):
        page = site.client().post("/login", data={"token": token}).text
        assert "No such token of an operator or a reader" in page
        assert "--token-file" in page


def test_tokens_that_were_made_are_told_once_and_sign_in(tmp_path: Path) -> None:
    process = Process(tmp_path, "dashboard", "--port", "0")
    try:
        url = process.wait_for(r"Dashboard: (http://127\.0\.0\.1:\d+)")
        for name in ("operator", "reader"):
            token = process.wait_for(rf"Token of the {name}, shown once: (\S+)")
            answer = httpx.post(f"{url}/login", data={"token": token}, timeout=PATIENCE_S)
            assert (answer.status_code, answer.headers["location"]) == (303, "/overview")
    finally:
        assert process.stop() == 0


def test_what_was_done_and_refused_is_noted(site: Site) -> None:
    run = site.submit()
    api = site.api()
    assert api.post(f"/api/runs/{run}/cancel", json={}).status_code == 200
    assert api.post(f"/api/runs/{run}/cancel", json={}).status_code == 409
    actions = api.get("/api/actions").json()
    told = [(each["who"], each["action"], each["outcome"]) for each in actions]
    assert told[1] == ("operator", "cancel_run", "done")
    assert told[0][2].startswith("refused: ")


def test_a_store_that_is_gone_is_shown_as_such(site: Site) -> None:
    client = site.signed_in()
    site.store.close()
    page = client.get("/runs")
    assert page.status_code == 503
    assert 'http-equiv="refresh"' in page.text
    assert site.api().get("/api/runs").json()["title"] == "The store is not there now"
