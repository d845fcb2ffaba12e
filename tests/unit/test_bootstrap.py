"""Settings choose stores and engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lifecycle.loops import IdleLoop

import afl
from afl.bootstrap import evaluator, group_options, open_store, worker_functions, worker_group
from afl.config import Config, load_config
from afl.errors import ConfigurationError, UsageError
from afl.operations.retention import RetentionLoop
from afl.runtime import tracing
from afl.runtime.lifecycle import LoopGroup
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.registry_runner import RegistryRunner
from afl.runtime.sql_store import SqliteStore

#: Kept here, because a test wants to end what this begins.
_install = tracing.install


def test_a_store_is_chosen_by_its_url(tmp_path: Path) -> None:
    memory = open_store("memory:")
    sqlite = open_store(f"sqlite:///{tmp_path}/x.db")
    assert isinstance(memory, MemoryStore)
    assert isinstance(sqlite, SqliteStore)
    for each in (memory, sqlite):
        assert isinstance(each, PersistenceAPI)
        each.close()


def test_open_store_is_a_name_of_the_package() -> None:
    assert afl.open_store is open_store


@pytest.mark.parametrize("url", ["redis://x", "mysql://u:secret@h/db", "x.db", ""])
def test_another_url_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"memory: .* sqlite:///relative/path\.db") as no:
        open_store(url)
    assert "secret" not in str(no.value)
    assert ("did you mean sqlite:///x.db?" in str(no.value)) == (url == "x.db")


@pytest.mark.parametrize(("enabled", "state"), [("true", "completed"), ("false", "failed")])
def test_an_evaluator_runs_scripts_as_the_settings_say(
    tmp_path: Path, enabled: str, state: str
) -> None:
    program = afl.compile_source(
        "workflow W() => (x: Long) script { result['x'] = 1 } andThen { }\n"
    )
    config = load_config(environ={"AFL_SCRIPTS_ENABLED": enabled}, directory=tmp_path)
    store = open_store("memory:")
    run = evaluator(store, config).submit(program, "W")
    found = store.get_run(run)
    assert found is not None
    assert found.state == state


@pytest.mark.parametrize("asked", [True, False])
def test_traces_are_made_if_the_settings_ask_for_them(tmp_path: Path, asked: bool) -> None:
    config = load_config(environ={"AFL_TELEMETRY_TRACES": str(asked)}, directory=tmp_path)
    uninstall: list[Callable[[], None]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "install", lambda: uninstall.append(_install()))
        for _ in range(2):
            evaluator(open_store("memory:"), config)
    assert tracing.is_on() == asked
    assert len(uninstall) == asked
    for each in uninstall:
        each()


def test_a_script_may_take_as_long_as_the_settings_say(tmp_path: Path) -> None:
    program = afl.compile_source("workflow W() script { \nwhile True: pass\n }\n")
    environ = {"AFL_SCRIPTS_ENABLED": "true", "AFL_SCRIPTS_TIMEOUT": "300ms"}
    config = load_config(environ=environ, directory=tmp_path)
    store = open_store("memory:")
    found = store.get_run(evaluator(store, config).submit(program, "W"))
    assert found is not None
    assert found.error is not None
    assert found.error["message"] == "the script timed out after 300ms"


def test_a_group_is_told_what_the_settings_say_and_no_more(tmp_path: Path) -> None:
    assert group_options(load_config(environ={}, directory=tmp_path)) == {}
    environ = {
        "AFL_LIFECYCLE_DRAIN_DEADLINE": "2m",
        "AFL_LIFECYCLE_SETTLE": "5s",
        "AFL_LIFECYCLE_MAX_PROCESSING": "10m",
        "AFL_LIFECYCLE_TERMINATION_GRACE": "150",
        "AFL_LIFECYCLE_PRE_STOP": "0s",
        "AFL_LIFECYCLE_HEALTH_PORT": "0",
    }
    assert group_options(load_config(environ=environ, directory=tmp_path)) == {
        "drain_deadline_seconds": 120.0,
        "settle_seconds": 5.0,
        "max_processing_seconds": 600.0,
        "termination_grace_seconds": 150.0,
        "pre_stop_seconds": 0.0,
        "health_port": 0,
    }


def test_times_of_the_environment_are_compared_with_each_other(tmp_path: Path) -> None:
    environ = {"AFL_LIFECYCLE_DRAIN_DEADLINE": "2m", "AFL_LIFECYCLE_TERMINATION_GRACE": "130s"}
    options = group_options(load_config(environ=environ, directory=tmp_path))
    with pytest.raises(ConfigurationError, match=r"termination_grace_seconds \(130 s\)"):
        LoopGroup([IdleLoop()], strict=True, **options).run()


# Workers


def worker_config(folder: Path, **environ: str) -> Config:
    given = {"AFL_LIFECYCLE_DRAIN_DEADLINE": "10s", **environ}
    return load_config(environ=given, directory=folder)


def test_a_worker_needs_a_drain_deadline(tmp_path: Path) -> None:
    config = load_config(environ={}, directory=tmp_path)
    with pytest.raises(ConfigurationError, match="30s for short tasks, 2m to 5m for model calls"):
        worker_group(open_store("memory:"), config)


def test_a_worker_is_made_as_the_settings_say(tmp_path: Path) -> None:
    environ = {
        "AFL_WORKER_CONCURRENCY": "50",
        "AFL_WORKER_LEASE": "2s",
        "AFL_WORKER_TOPICS": "billing.*",
        "AFL_WORKER_TASK_LIST": "gpu",
    }
    runner, retention = worker_group(
        open_store("memory:"), worker_config(tmp_path, **environ)
    ).loops
    assert isinstance(runner, RegistryRunner)
    assert isinstance(retention, RetentionLoop)
    assert (runner.config.max_concurrent, runner.config.lease_ms) == (50, 2000)
    assert (runner.config.topics, runner.config.task_list) == (["billing.*"], "gpu")


def test_a_worker_serves_what_modules_list_or_mark(tmp_path: Path) -> None:
    source = tmp_path / "listed.py"
    source.write_text("HANDLERS = {'t.A': print}\n")
    group = worker_group(open_store("memory:"), worker_config(tmp_path), [str(source)])
    # One loop, whose settings hold for all that it does.
    runner, retention = group.loops
    assert isinstance(runner, RegistryRunner)
    assert isinstance(retention, RetentionLoop)
    assert runner.registered_names() == ["t.A"]


def test_a_worker_serves_functions_that_are_loaded_already(tmp_path: Path) -> None:
    source = tmp_path / "listed.py"
    source.write_text("HANDLERS = {'t.A': print, 'u.A': print}\n")
    config = worker_config(tmp_path, AFL_WORKER_TOPICS="t.*")
    functions = worker_functions([str(source)])
    assert functions == {"t.A": print, "u.A": print}
    runner = worker_group(open_store("memory:"), config, functions=functions).loops[0]
    assert isinstance(runner, RegistryRunner)
    assert runner.registered_names() == ["t.A"]
    assert worker_functions([]) == {}


def test_a_module_that_lists_nothing_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "empty.py"
    source.write_text("def work(payload): return {}\n")
    with pytest.raises(UsageError, match="does not guess them from the names of functions"):
        worker_group(open_store("memory:"), worker_config(tmp_path), [str(source)])
