"""An app and settings become a service: by HTTP and from mailboxes, with what it depends on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.agents.model import ModelRequest
from afl.bootstrap import open_store
from afl.cli.app import app as cli
from afl.client import Client
from afl.clock import SYSTEM_CLOCK
from afl.config import Config, load_config
from afl.errors import ConfigurationError, UsageError
from afl.gateway import TurnClient
from afl.ids import new_id
from afl.loops import AgentLoop, AgentLoopRequest, Experiment, Prompt, Session
from afl.mailbox import open_mailbox
from afl.operations.fleet import ServerView, list_servers
from afl.runtime.entities import RunnerState
from afl.serving import App, Service, open_service
from afl.serving.service import mailbox_url
from afl.testing.contracts.store.exam import new_run
from afl.turns import open_turns

PATIENCE_S = 20.0
TOKEN = "test-0123456789abcdef"


def config_of(folder: Path, **flags: Any) -> Config:
    given = {
        "store.url": f"sqlite:///{folder}/x.db",
        "lifecycle.drain_deadline": "5s",
        "serve.port": 0,
        "serve.tokens": TOKEN,
        **{name.replace("__", "."): value for name, value in flags.items()},
    }
    return load_config(given, environ={}, directory=folder)


@contextmanager
def serving(app: App, config: Config) -> Iterator[Service]:
    """A service that runs, until the end of the block."""
    with open_service(app, config) as service:
        run = threading.Thread(target=service.group.run, kwargs={"install_signals": False})
        service.group.expect_run()
        with service.shown():
            run.start()
            try:
                yield service
            finally:
                assert service.group.shutdown(timeout=PATIENCE_S)
                run.join(PATIENCE_S)
                assert not run.is_alive()


def until(is_so: Any) -> Any:
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        if found := is_so():
            return found
        SYSTEM_CLOCK.sleep(0.01)
    raise AssertionError("it never came to that")


def client_of(service: Service) -> TurnClient:
    until(lambda: service.group.ready().ok)
    assert service.api.url is not None
    return TurnClient(service.api.url, token=TOKEN, patience_s=PATIENCE_S)


def greeter() -> App:
    app = App()

    @app.agent("hello")
    def hello(request: str) -> str:
        return f"hello {request}"

    return app


class Clerk(AgentLoop[str, str]):
    def prepare(
        self, request: str, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        return Prompt(request), Session()


class Provider(ScriptedAdapter):
    """A model that can be warmed and asked whether it is there."""

    def __init__(self) -> None:
        super().__init__(default=self._said)
        self.is_there = False
        self.is_warm = False

    def _said(self, request: ModelRequest) -> Any:
        return says("yes")

    def prepare(self) -> None:
        self.is_warm = True

    def ping(self) -> None:
        if not self.is_there:
            raise ConnectionError("nobody answers")


def test_turns_come_by_http_and_from_the_mailbox_of_the_agent(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with serving(greeter(), config) as service, client_of(service) as client:
        assert client.submit("hello", "web").result(PATIENCE_S) == "hello web"
        with (
            open_mailbox(config.store.url, "hello", body_type=AgentLoopRequest[str]) as requests,
            open_mailbox(config.store.url, "answers") as answers,
        ):
            requests.send(AgentLoopRequest("mail"), reply_to=answers)
            (answer,) = answers.receive(wait_time_seconds=PATIENCE_S)
            assert answer.body["output"] == "hello mail"


def test_an_agent_with_a_class_gets_its_adapter_and_its_options(tmp_path: Path) -> None:
    app = App()
    adapter = ScriptedAdapter([says("yes")])
    app.agent_loop("clerk", lambda **parts: Clerk(**parts), adapter=adapter, request_type=str)
    with serving(app, config_of(tmp_path)) as service, client_of(service) as client:
        assert client.submit("clerk", "Is it open?").result(PATIENCE_S) == "yes"


def test_requests_that_the_agent_cannot_read_are_refused_at_once(tmp_path: Path) -> None:
    with serving(greeter(), config_of(tmp_path)) as service, client_of(service):
        body = {"loop": "hello", "request": 3}
        headers = {"authorization": f"Bearer {TOKEN}"}
        refused = httpx.post(f"{service.api.url}/turns", json=body, headers=headers)
        assert refused.status_code == 422
        assert "hello" in refused.json()["detail"]


def test_store_mailboxes_and_model_are_dependencies_by_themselves(tmp_path: Path) -> None:
    app = App()
    provider = Provider()
    app.agent_loop("clerk", Clerk, adapter=provider)
    app.dependency("shop", lambda: True)
    with serving(app, config_of(tmp_path)) as service:
        problem = "init: model of clerk: ConnectionError: nobody answers"
        until(lambda: problem in service.group.ready().reasons)
        assert not provider.is_warm
        assert service.api.url is None, "nobody is let in"
        provider.is_there = True
        with client_of(service) as client:
            assert provider.is_warm
            assert client.submit("clerk", "hello").result(PATIENCE_S) == "yes"
        names = [each["name"] for each in service.group.status()["dependencies"]]
        assert names == ["store", "mailbox clerk", "model of clerk", "shop"]


HANDLERS = """
def weigh(payload):
    return {"grams": 7}


HANDLERS = {"parcels.Weigh": weigh}
"""
PARCELS = """
namespace parcels

event facet Weigh(parcel: String) => (grams: Long)

workflow Send(parcel: String) => (grams: Long) andThen {
    weighed = Weigh(parcel = $.parcel)
    yield Send(grams = weighed.grams)
}
"""


def test_a_worker_runs_beside_the_agents(tmp_path: Path) -> None:
    (tmp_path / "parcels_handlers.py").write_text(HANDLERS)
    app = greeter()
    app.worker(str(tmp_path / "parcels_handlers.py"), task_list="parcels", concurrency=2)
    config = config_of(tmp_path)
    with (
        serving(app, config) as service,
        client_of(service),
        Client(config.store.url) as runs,
    ):
        run = runs.submit(PARCELS, "Send", {"parcel": "lamp"}, task_list="parcels")
        assert run.result(PATIENCE_S) == {"grams": 7}


def test_a_service_with_a_worker_removes_old_runs(tmp_path: Path) -> None:
    (tmp_path / "parcels_handlers.py").write_text(HANDLERS)
    app = greeter()
    app.worker(str(tmp_path / "parcels_handlers.py"), task_list="parcels")
    config = config_of(tmp_path)
    with closing(open_store(config.store.url)) as store:
        month_ms = 31 * 24 * 3_600_000
        old, young = (store.now_ms() - each for each in (month_ms, 1000))
        for run_id, end in (("old", old), ("young", young)):
            store.save_runner(new_run(run_id, state=RunnerState.COMPLETED, end_time=end))
        with serving(app, config):
            until(lambda: store.get_runner("old") is None)
        assert store.get_runner("young") is not None


@pytest.mark.parametrize("place", ["postgres_url", "mongo_url"])
def test_turns_of_a_service_are_on_its_server(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    """Beside whatever else is there: other services, and runs."""
    app, name = App(), f"hello-{new_id()[-8:]}"
    app.agent(name)(lambda request: f"hello {request}")
    config = config_of(tmp_path, store__url=request.getfixturevalue(place))
    with serving(app, config) as service, client_of(service) as client:
        turn = client.submit(name, "Ann")
        assert turn.result(PATIENCE_S) == "hello Ann"
    with closing(open_turns(config.store.url)) as turns:
        assert [(each.id, each.state) for each in turns.list(name)] == [(turn.id, "done")]
    shown = CliRunner().invoke(
        cli, ["turns", "list", "--store", config.store.url, "--loop", name, "--json"]
    )
    assert [each["id"] for each in json.loads(shown.output)] == [turn.id]


def test_a_turn_says_which_process_does_it(tmp_path: Path) -> None:
    """Two processes with one name must not take each other's turns for their own."""
    app = App()
    release = threading.Event()

    @app.agent("slow")
    def slow(request: str) -> None:
        release.wait(PATIENCE_S)

    config = config_of(tmp_path, serve__name="shop")
    owners = []
    for _ in range(2):
        with serving(app, config) as service, client_of(service) as client:
            turn = client.submit("slow", "x")
            with closing(open_turns(config.store.url)) as turns:
                owners.append(until(lambda: turns.get(turn.id).owner))  # noqa: B023
            release.set()
            turn.result(PATIENCE_S)
        release.clear()
    assert all(each.startswith("shop-") for each in owners)
    assert len(set(owners)) == 2


# What cannot be


def test_an_app_without_agents_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"no agents: declare one with @app.agent"),
        open_service(App(), config_of(tmp_path)),
    ):
        pass


def test_a_drain_deadline_is_required(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="a service needs a drain deadline"),
        open_service(greeter(), config_of(tmp_path, lifecycle__drain_deadline=None)),
    ):
        pass


def test_what_makes_no_loop_is_refused(tmp_path: Path) -> None:
    app = App()
    made: Any = dict
    app.agent_loop("clerk", made)
    with (
        pytest.raises(UsageError, match="what makes the agent clerk gives dict; expected"),
        open_service(app, config_of(tmp_path)),
    ):
        pass


@pytest.mark.parametrize(
    ("store", "given", "url"),
    [
        ("sqlite:///x.db", None, "sqlite:///x.db"),
        ("postgresql://h/d", None, "postgresql://h/d"),
        ("mongodb://h/d", None, "memory:"),
        ("mongodb://h/d", "redis://h", "redis://h"),
    ],
)
def test_mailboxes_are_in_the_store_unless_somebody_says_otherwise(
    tmp_path: Path, store: str, given: str | None, url: str
) -> None:
    assert mailbox_url(config_of(tmp_path, store__url=store, serve__mailboxes=given)) == url


def test_a_service_has_a_dashboard_if_it_is_asked_for(tmp_path: Path) -> None:
    app = App()
    app.agent("hello")(str.upper)
    with serving(app, config_of(tmp_path, serve__dashboard_port=0)) as service:
        (dashboard,) = service.dashboards
        assert dashboard.wait_until_listening(PATIENCE_S)
        headers = {"authorization": f"Bearer {TOKEN}"}
        page = httpx.get(f"{dashboard.url}/login")
        assert "afl" in page.text
        with TurnClient(str(service.api.url), token=TOKEN) as client:
            client.submit("hello", "ada").result(PATIENCE_S)
        found = httpx.get(f"{dashboard.url}/api/turns", headers=headers).json()
    assert "hello" in str(found)


def test_others_see_a_service_among_the_servers(tmp_path: Path) -> None:
    began, may_end = threading.Event(), threading.Event()
    app = App()

    @app.agent("slow")
    def slow(request: str) -> str:
        began.set()
        assert may_end.wait(PATIENCE_S)
        return request

    config = config_of(tmp_path, serve__name="till")
    with closing(open_store(config.store.url)) as store:

        def shown() -> ServerView:
            (server,) = list_servers(store)
            return server

        with serving(app, config) as service:
            until(lambda: shown().phase == "ready")
            assert (shown().name, shown().service) == ("till", "afl-serve")
            assert shown().topics == ["slow"]
            with client_of(service) as client:
                client.submit("slow", "x")
            assert began.wait(PATIENCE_S)
            service.group.request_stop()
            until(lambda: shown().phase == "drain")
            assert shown().in_flight == 1
            may_end.set()
        assert (shown().state, shown().phase) == ("shutdown", "terminate")
