"""Settings: the strongest source wins, each value knows its origin, all mistakes come together."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from afl import telemetry
from afl.cli.app import app
from afl.clock import FakeClock
from afl.config import SETTINGS, Config, SettingsError, load_config

SECRET_URL = "postgresql://afl:hunter2@db/afl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, text: str, name: str = "afl.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(**arguments: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_config(**{"environ": {}, **arguments})
    return str(caught.value)


def test_without_any_source_the_defaults_hold(folder: Path) -> None:
    config = load_config(environ={}, directory=folder)
    assert config == Config()
    assert config.store.url == "sqlite:///./afl.db"
    assert (config.log.level, config.log.format) == ("info", "auto")
    assert (config.language.library_paths, config.language.strict) == ((), False)
    assert {entry.origin for entry in config.entries()} == {"default"}


def test_every_kind_of_value_is_read_from_the_file(folder: Path) -> None:
    path = write(
        folder,
        """
        store.url = "memory:"
        [log]
        level = "DEBUG"
        [language]
        library_paths = ["lib", "/opt/afl"]
        strict = true
        """,
    )
    config = load_config(environ={}, directory=folder)
    assert config.file == path
    assert (config.store.url, config.log.level) == ("memory:", "debug")
    assert config.language.library_paths == (folder / "lib", Path("/opt/afl"))
    assert config.language.strict is True
    assert config.origins["log.level"] == f"{path} key log.level"


def test_every_kind_of_value_is_read_from_the_environment(folder: Path) -> None:
    environ = {
        "AFL_STORE_URL": "memory:",
        "AFL_LOG_FORMAT": "json",
        "AFL_LANGUAGE_LIBRARY_PATHS": os.pathsep.join(["lib", "", "/opt/afl"]),
        "AFL_LANGUAGE_STRICT": "yes",
    }
    config = load_config(environ=environ, directory=folder)
    assert (config.store.url, config.log.format) == ("memory:", "json")
    assert config.language.library_paths == (Path("lib"), Path("/opt/afl"))
    assert config.language.strict is True
    assert config.origins["store.url"] == "environment AFL_STORE_URL"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("90m", "1h30m"), ("30", "30s"), ("2d", "2d"), ("never", "never"), ("Never", "never")],
)
def test_durations_are_kept_in_one_spelling(folder: Path, given: str, kept: str) -> None:
    config = load_config(environ={"AFL_RETENTION_RUNS": given}, directory=folder)
    assert config.retention.runs == kept


@pytest.mark.parametrize("given", ["soon", "-1d", "", "inf", "never ever"])
def test_what_is_no_duration_is_refused(folder: Path, given: str) -> None:
    with pytest.raises(SettingsError, match="a duration such as 30s, 15m or 30d, or never"):
        load_config(environ={"AFL_RETENTION_RUNS": given}, directory=folder)
    with pytest.raises(SettingsError, match=r"scripts\.timeout"):
        load_config(environ={"AFL_SCRIPTS_TIMEOUT": "never"}, directory=folder)


@pytest.mark.parametrize(
    ("given", "kept"), [("8080", 8080), ("0", 0), ("65535", 65535), ("UNSET", "unset")]
)
def test_ports_are_kept_as_numbers(folder: Path, given: str, kept: int | str) -> None:
    config = load_config(environ={"AFL_LIFECYCLE_HEALTH_PORT": given}, directory=folder)
    assert config.lifecycle.health_port == kept


@pytest.mark.parametrize("given", ["65536", "-1", "http", "", "80.0", "²"])
def test_what_is_no_port_is_refused(folder: Path, given: str) -> None:
    text = problems(environ={"AFL_LIFECYCLE_HEALTH_PORT": given}, directory=folder)
    assert "expected a port from 0 to 65535, or unset" in text


@pytest.mark.parametrize("given", ["true", '"8080"', "80.0"])
def test_a_port_in_the_file_is_a_number(folder: Path, given: str) -> None:
    write(folder, f"lifecycle.health_port = {given}")
    assert "lifecycle.health_port" in problems(directory=folder)


def test_times_of_the_lifecycle_are_unset_until_somebody_says_them(folder: Path) -> None:
    write(folder, 'lifecycle.drain_deadline = 120\nlifecycle.settle = "5s"\n')
    environ = {"AFL_LIFECYCLE_TERMINATION_GRACE": "150s", "AFL_LIFECYCLE_SETTLE": "unset"}
    found = load_config(environ=environ, directory=folder).lifecycle
    assert (found.drain_deadline, found.termination_grace) == ("2m", "2m30s")
    assert (found.settle, found.max_processing, found.pre_stop) == ("unset", "unset", "unset")


def test_lists_of_texts_are_no_paths(folder: Path) -> None:
    write(folder, 'worker.topics = ["billing.*", "geo.?"]\nhandlers.paths = ["lib"]\n')
    config = load_config(environ={}, directory=folder)
    assert config.worker.topics == ("billing.*", "geo.?")
    assert config.handlers.paths == (folder / "lib",)
    environ = {"AFL_WORKER_TOPICS": os.pathsep.join(["a.*", "", "b.*"])}
    assert load_config(environ=environ, directory=folder).worker.topics == ("a.*", "b.*")


@pytest.mark.parametrize("text", ["worker.topics = 'a.*'", "worker.topics = ['']"])
def test_what_is_no_list_of_texts_is_refused(folder: Path, text: str) -> None:
    write(folder, text)
    assert "worker.topics" in problems(directory=folder)


@pytest.mark.parametrize("given", ["0", "100001", "-1", "many", "", "1.5", "²"])
def test_numbers_are_whole_and_within_bounds(folder: Path, given: str) -> None:
    assert load_config(environ={"AFL_WORKER_CONCURRENCY": "100"}).worker.concurrency == 100
    text = problems(environ={"AFL_WORKER_CONCURRENCY": given}, directory=folder)
    assert "expected a whole number from 1 to 100000" in text


def test_a_task_list_has_a_name(folder: Path) -> None:
    assert load_config(environ={"AFL_WORKER_TASK_LIST": " gpu "}).worker.task_list == "gpu"
    assert "worker.task_list = ' '" in problems(
        environ={"AFL_WORKER_TASK_LIST": " "}, directory=folder
    )


def test_a_variable_may_have_a_name_of_its_own(folder: Path) -> None:
    config = load_config(environ={"AFL_HANDLER_PATHS": "/opt/handlers"}, directory=folder)
    assert config.handlers.paths == (Path("/opt/handlers"),)
    assert config.origins["handlers.paths"] == "environment AFL_HANDLER_PATHS"
    other = load_config(environ={"AFL_HANDLERS_PATHS": "/opt/handlers"}, directory=folder)
    assert other.handlers.paths == ()
    assert other.warnings == (
        "environment AFL_HANDLERS_PATHS is not a setting; did you mean AFL_HANDLER_PATHS?",
    )


def test_flags_that_were_not_given_count_for_nothing(folder: Path) -> None:
    flags = {"log.level": None, "language.strict": False, "language.library_paths": ["x"]}
    config = load_config(flags, {"AFL_LOG_LEVEL": "error"}, folder)
    assert config.log.level == "error"
    assert config.language.library_paths == (Path("x"),)
    assert config.origins == {
        "log.level": "environment AFL_LOG_LEVEL",
        "language.strict": "flag --strict",
        "language.library_paths": "flag --library",
    }


levels = st.none() | st.sampled_from(["debug", "info", "warning", "error", "critical"])


@given(flag=levels, variable=levels, in_file=levels)
def test_the_strongest_source_wins(
    tmp_path_factory: pytest.TempPathFactory,
    flag: str | None,
    variable: str | None,
    in_file: str | None,
) -> None:
    folder = tmp_path_factory.mktemp("settings")
    if in_file:
        write(folder, f'log.level = "{in_file}"')
    environ = {"AFL_LOG_LEVEL": variable} if variable else {}
    config = load_config({"log.level": flag}, environ, folder)
    sources = [
        (flag, "flag --log-level"),
        (variable, "environment AFL_LOG_LEVEL"),
        (in_file, f"{folder / 'afl.toml'} key log.level"),
        ("info", "default"),
    ]
    expected = next(source for source in sources if source[0])
    entry = next(each for each in config.entries() if each.name == "log.level")
    assert (config.log.level, entry.origin) == expected


def test_the_given_file_comes_before_the_named_and_the_usual_one(folder: Path) -> None:
    for name in ("given", "named", "afl"):
        write(folder, "log.level = 'error'", f"{name}.toml")
    environ = {"AFL_CONFIG": "named.toml"}
    given_file = load_config({}, environ, folder, folder / "given.toml")
    assert given_file.file == folder / "given.toml"
    assert load_config({}, environ, folder).file == folder / "named.toml"
    assert load_config({}, {}, folder).file == folder / "afl.toml"


def test_a_named_file_that_is_missing_is_an_error(folder: Path) -> None:
    text = problems(environ={"AFL_CONFIG": "gone.toml"}, directory=folder)
    assert f"{folder / 'gone.toml'} (environment AFL_CONFIG): cannot be read" in text
    assert "cannot be read" in problems(environ={"AFL_CONFIG": ""}, directory=folder)
    assert "gone.toml" in problems(file=folder / "gone.toml")


@pytest.mark.parametrize("content", [b"log.level = ", b"\xff"])
def test_a_file_that_is_not_toml_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "afl.toml").write_bytes(content)
    assert "is not valid TOML" in problems(directory=folder)


def test_all_bad_values_are_reported_together(folder: Path) -> None:
    path = write(folder, "language.strict = 'true'\nlog.level = 'loud'\nlog.colour = 1\n[lgo]\n")
    environ = {"AFL_LOG_FORMAT": "xml", "AFL_LANGUAGE_STRICT": "perhaps"}
    text = problems(flags={"store.url": "mysql://h"}, environ=environ, directory=folder)
    assert text.splitlines() == [
        "The settings cannot be used:",
        f"  language.strict = 'true' ({path} key language.strict): expected true or false",
        f"  log.level = 'loud' ({path} key log.level): "
        "expected one of debug, info, warning, error, critical",
        f"  log.colour ({path} key log.colour): there is no such setting",
        f"  lgo ({path} key lgo): there is no such setting",
        "  log.format = 'xml' (environment AFL_LOG_FORMAT): expected one of auto, json, console",
        "  language.strict = 'perhaps' (environment AFL_LANGUAGE_STRICT): expected true or false",
        "  store.url = 'mysql://h' (flag --store): expected a URL that starts with "
        "memory:, sqlite:, postgresql:, postgres:, mongodb:, mongodb+srv:",
    ]


def test_the_short_name_of_postgresql_that_platforms_give_is_taken(folder: Path) -> None:
    url = "postgres://u@h/db"
    environ = {"AFL_STORE_URL": url, "AFL_SERVE_MAILBOXES": url}
    loaded = load_config(environ=environ, directory=folder)
    assert (loaded.store.url, loaded.serve.mailboxes) == (url, url)


def test_a_url_that_is_none_says_what_was_probably_meant(folder: Path) -> None:
    text = problems(environ={"AFL_STORE_URL": "x.db"}, directory=folder)
    assert text.endswith("mongodb:, mongodb+srv:; did you mean sqlite:///x.db?")
    text = problems(flags={"store.url": "mongo://u:hunter2@h/db"}, directory=folder)
    assert text.endswith("mongodb:, mongodb+srv:; did you mean mongodb:?")
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("log.levle = 'info'", "log.level"),
        ("[stroe]\nurl = 'memory:'", "store.url"),
        ("store = 'memory:'", ""),
        ("log.level.x = 1", ""),
        ("language.library_paths = 'lib'", ""),
        ("language.library_paths = [1]", ""),
        ("language.library_paths = ['']", ""),
    ],
)
def test_mistakes_in_the_file_are_refused(folder: Path, text: str, meant: str) -> None:
    write(folder, text)
    assert (f"did you mean {meant}?" if meant else "") in problems(directory=folder)


def test_empty_tables_of_known_groups_are_fine(folder: Path) -> None:
    write(folder, "[log]\n[store]\n")
    assert load_config(environ={}, directory=folder).log.level == "info"


def test_an_unknown_flag_is_refused(folder: Path) -> None:
    assert "did you mean log.level?" in problems(flags={"log.levl": "info"}, directory=folder)


def test_an_empty_variable_is_not_taken_for_an_absent_one(folder: Path) -> None:
    # `AFL_STORE_URL=$UNDEFINED` must not silently become a local file.
    assert "store.url = ''" in problems(environ={"AFL_STORE_URL": ""}, directory=folder)


def test_a_misspelled_variable_is_warned_about_and_foreign_ones_are_not(folder: Path) -> None:
    write(folder, "", "other.toml")
    environ = {
        "AFL_STORE_URI": "memory:",
        "AFL_LOG_LEVEL_FILE": "x",
        "AFL_TEST_MONGODB_URL": "x",
        "AFL_CONFIG": "other.toml",
        "AFL_NO_UI": "1",
        "PATH": "/bin",
    }
    config = load_config(environ=environ, directory=folder)
    assert config.store.url == "sqlite:///./afl.db"
    assert config.warnings == (
        "environment AFL_LOG_LEVEL_FILE is not a setting; did you mean AFL_LOG_LEVEL?",
        "environment AFL_STORE_URI is not a setting; did you mean AFL_STORE_URL?",
    )


def test_a_secret_can_be_kept_in_a_file(folder: Path) -> None:
    path = write(folder, f"{SECRET_URL}\n", "url")
    config = load_config(environ={"AFL_STORE_URL_FILE": str(path)}, directory=folder)
    assert config.store.url == SECRET_URL
    assert config.origins["store.url"] == "environment AFL_STORE_URL_FILE"


def test_a_secret_is_given_once_and_its_file_exists(folder: Path) -> None:
    both = {"AFL_STORE_URL_FILE": "x", "AFL_STORE_URL": "memory:"}
    assert "keep one of them" in problems(environ=both, directory=folder)
    gone = {"AFL_STORE_URL_FILE": "gone"}
    assert "the file cannot be read" in problems(environ=gone, directory=folder)


@pytest.mark.parametrize(
    "url", ["pg://afl:hunter2@db", "afl:hunter2@db/afl", "hunter2@x@db", ["hunter2"]]
)
def test_a_bad_secret_is_not_shown(folder: Path, url: object) -> None:
    text = problems(flags={"store.url": url}, directory=folder)
    assert "store.url" in text
    assert "hunter2" not in text


def test_printing_the_settings_shows_no_secret(folder: Path) -> None:
    config = load_config({"store.url": SECRET_URL}, {}, folder)
    assert config.store.url == SECRET_URL
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config.entries())
    assert config.entries()[0].value == "postgresql://afl:***@db/afl"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().log.level = "debug"  # type: ignore[misc]


def test_a_settings_error_survives_a_process_boundary(folder: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_config({"log.level": "loud"}, {}, folder)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_loading_is_told(folder: Path) -> None:
    heard: list[telemetry.Event] = []
    leave = telemetry.subscribe(heard.append)
    clock = FakeClock()
    try:
        load_config({"log.level": "info"}, {"AFL_LANGUAGE_STRICT": "1"}, folder, clock=clock)
    finally:
        leave()
    assert heard == [telemetry.ConfigLoaded(at=clock.now(), file=None, overrides=2)]


@pytest.mark.parametrize("each", SETTINGS, ids=lambda each: each.name)
def test_every_setting_has_help_and_a_default_that_it_would_accept(each: Any) -> None:
    assert each.help.endswith(".")
    assert each.kind.accept(each.default) == each.default


@pytest.fixture
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("AFL_")]:
        monkeypatch.delenv(name)
    return folder


def test_show_prints_each_setting_with_its_origin(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(in_folder, "[language]\nstrict = true\n")
    monkeypatch.setenv("AFL_STORE_URL", SECRET_URL)
    monkeypatch.setenv("AFL_LOG_LEVLE", "debug")
    result = CliRunner().invoke(app, ["config", "show"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "setting                      value                        origin",
        "store.url                    postgresql://afl:***@db/afl  environment AFL_STORE_URL",
        "log.level                    info                         default",
        "log.format                   auto                         default",
        "language.library_paths       (none)                       default",
        "language.strict              true                         afl.toml key language.strict",
        "scripts.enabled              false                        default",
        "scripts.timeout              30s                          default",
        "retention.runs               30d                          default",
        "retention.turns              never                        default",
        "lifecycle.drain_deadline     unset                        default",
        "lifecycle.settle             unset                        default",
        "lifecycle.max_processing     unset                        default",
        "lifecycle.termination_grace  unset                        default",
        "lifecycle.pre_stop           unset                        default",
        "lifecycle.health_port        unset                        default",
        "worker.concurrency           8                            default",
        "worker.lease                 15s                          default",
        "worker.topics                (none)                       default",
        "worker.task_list             default                      default",
        "handlers.paths               (none)                       default",
        "telemetry.traces             false                        default",
        "serve.host                   127.0.0.1                    default",
        "serve.dashboard_port         unset                        default",
        "serve.port                   8000                         default",
        "serve.mailboxes              unset                        default",
        "serve.name                   unset                        default",
        "serve.tokens                 unset                        default",
    ]
    assert "did you mean AFL_LOG_LEVEL?" in result.stderr


def test_show_prints_json_for_machines(in_folder: Path) -> None:
    write(in_folder, "language.library_paths = ['/opt/afl']", "mine.toml")
    result = CliRunner().invoke(app, ["--config", "mine.toml", "config", "show", "--json"])
    assert result.exit_code == 0
    entries = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert list(entries) == [each.name for each in SETTINGS]
    assert entries["language.library_paths"] == {
        "name": "language.library_paths",
        "value": ["/opt/afl"],
        "origin": "mine.toml key language.library_paths",
    }
    assert entries["language.strict"]["value"] is False
