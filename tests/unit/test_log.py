"""Logs: no secret leaves, the host decides where they go, the command line configures."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.log import configure, get_logger, is_secret, redact

log = get_logger("afl.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger("afl")]
    before = [(each, each.level, list(each.handlers)) for each in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def configured(level: str = "info", clock: FakeClock | None = None) -> io.StringIO:
    stream = io.StringIO()
    configure(level, "auto", stream, clock=clock or FakeClock())
    return stream


# What is hidden


@pytest.mark.parametrize(
    "key",
    [
        "token", "resume_token", "resumeToken", "X-Auth-Token", "password", "DB_PASSWORD",
        "PGPASSWORD", "db.password", "passwords", "secret", "client_secret", "secrets", "api_key",
        "apiKey", "APIKey", "api-keys", "AWS_SECRET_ACCESS_KEY", "private_key", "authorization",
        "Authorization", "cookie", "Set-Cookie", "credentials", "password_hash", "password2", "jwt",
        "MYSQL_PWD", "proxy_auth",
    ],
)  # fmt: skip
def test_keys_that_name_a_secret_hide_their_value(key: str) -> None:
    assert redact({key: "hunter2"}) == {key: "***"}


@pytest.mark.parametrize(
    "key",
    [
        "tokens_used", "max_tokens", "tokens", "token_count", "tokenizer", "secretary", "key",
        "monkey", "author", "PWD", "password_file", "token_url", "cookie_name", "keyboard",
        "access_key_id", "token_expires_at", "idempotency_key", "auth_failures", "",
    ],
)  # fmt: skip
def test_keys_that_only_resemble_a_secret_stay(key: str) -> None:
    assert not is_secret(key)
    assert redact({key: "value"}) == {key: "value"}


def test_secrets_are_found_at_any_depth_and_the_original_stays() -> None:
    original = {"a": [{"b": ({"token": "x"}, 1)}], "n": 3}
    assert redact(original) == {"a": [{"b": ({"token": "***"}, 1)}], "n": 3}
    assert original["a"] == [{"b": ({"token": "x"}, 1)}]


def test_whether_there_is_a_secret_may_be_seen() -> None:
    assert redact({"token": None, "password": True}) == {"token": None, "password": True}
    assert redact({"password": 1234}) == {"password": "***"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://u:p@h/db", "postgresql://u:***@h/db"),
        ("see redis://:p@h:6379/0 now", "see redis://:***@h:6379/0 now"),
        ("mongodb://u:p@h1:1,h2:2/db", "mongodb://u:***@h1:1,h2:2/db"),
        ("postgresql://u:p@w@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:p/w@h/db", "postgresql://u:***@h/db"),
        ("http://u:p@h/?mail=a@b", "http://u:***@h/?mail=a@b"),
        ("postgresql://h/db?user=u&password=p&x=1", "postgresql://h/db?user=u&password=***&x=1"),
        ("url=postgresql://h?password=p", "url=postgresql://h?password=***"),
        ("host=h password='p q' port=1", "host=h password='***' port=1"),
        ("run --api-key=abc", "run --api-key=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("Authorization: Basic dTpw", "Authorization: Basic ***"),
        ('{"token":"a\\"b","n":1}', '{"token":"***","n":1}'),
        ("{'api_key': 'x'}", "{'api_key': '***'}"),
        ("key sk-ant-api03-abcdefghijklmnop end", "key *** end"),
    ],
)
def test_secrets_in_texts_are_hidden(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u@h/db",
        "http://localhost:8080/people/a@b",
        "http://localhost:8080",
        "sqlite:///./afl.db",
        "unexpected token: '}'",
        "max_tokens=5",
        "a@b.example",
        "12:30",
    ],
)
def test_texts_without_secrets_stay(text: str) -> None:
    assert redact(text) == text


def test_an_object_that_would_print_a_secret_becomes_redacted_text() -> None:
    @dataclass
    class Login:
        user: str
        password: str

    assert "hunter2" not in str(redact([Login("u", "hunter2")]))
    assert "h:***@" not in str(redact(ValueError("nothing here")))
    assert redact(ValueError("at db://u:p@h")) == "ValueError('at db://u:***@h')"


def test_an_object_without_secrets_stays_itself() -> None:
    thing = object()
    assert redact({"thing": thing})["thing"] is thing


def test_redacting_survives_cycles_depth_and_bad_objects() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    cycle: list[Any] = []
    cycle.append(cycle)
    assert redact(cycle) == ["..."]
    deep: Any = "password=x"
    for _ in range(5000):
        deep = [deep]
    redact(deep)
    assert "Broken" in redact(Broken())


def test_a_long_text_is_redacted_in_linear_time() -> None:
    # Quadratic patterns would take minutes on these.
    pieces = ["a", "a-b.", "://a:", "://a:@", "password=", "a=", '"', "'a':", "bearer ", "eyJ"]
    for piece in pieces:
        text = piece * (200_000 // len(piece))
        redact(text)
        redact(f"@{text}@")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text("a:/@=\"' &*.b"),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["token", "n", "a b"]), inner),
)
secretive = st.lists(
    st.sampled_from(
        ["postgresql://", "u", ":", "p", "@", "h", "/", "password=", "'", '"', " ", "Bearer ",
         "***", "&", "token", "=", "\\", '"api_key": ', "sk-aaaaaaaaaaaaaaaaaaaa",
         "Authorization: Basic "]
    )
).map("".join)  # fmt: skip


@given(values | secretive)
def test_redacting_twice_changes_nothing_more(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once


@given(st.text("abcXYZ019%-_.~!$", min_size=1), st.text("abc", max_size=5))
def test_a_url_password_never_survives(password: str, user: str) -> None:
    assert redact(f"x postgresql://{user}:{password}@host/db y") == (
        f"x postgresql://{user}:***@host/db y"
    )


# Where logs go


def test_importing_and_asking_for_a_logger_does_not_import_structlog() -> None:
    code = (
        "import sys; from afl.log import get_logger; get_logger('afl.x').warning('event', n=1);"
        "assert 'structlog' not in sys.modules and 'asyncio' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "event n=1\n")


def test_an_unconfigured_logger_writes_to_the_hosts_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log.bind(run_id="r1").warning("task_lost", password="hunter2", name="n")
    record = caplog.records[-1]
    assert record.getMessage() == "task_lost run_id='r1' password='***' name='n'"
    assert (record.name, record.levelname) == ("afl.test", "WARNING")
    assert record.funcName == "test_an_unconfigured_logger_writes_to_the_hosts_logging"


def test_a_host_sees_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        log.exception("failed")
        log.warning("failed", exc_info=error)
    assert all(record.exc_info for record in caplog.records)
    assert "broken" in caplog.text


def test_a_stream_that_is_no_terminal_gets_json_lines_with_the_clocks_time() -> None:
    clock = FakeClock()
    stream = configured(clock=clock)
    clock.advance(0.5)
    log.info("program_compiled", sources=3, url="db://u:p@h")
    assert lines(stream) == [
        {
            "event": "program_compiled",
            "sources": 3,
            "url": "db://u:***@h",
            "level": "info",
            "logger": "afl.test",
            "timestamp": "2024-01-01T00:00:00.500Z",
        }
    ]


def test_a_terminal_gets_text_for_people() -> None:
    stream = Terminal()
    configure("info", "auto", stream, clock=FakeClock())
    log.info("program_compiled", sources=3, token="hunter2")
    assert "program_compiled" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


def test_the_format_can_be_insisted_on() -> None:
    terminal, plain = Terminal(), io.StringIO()
    configure("info", "json", terminal)
    log.info("one")
    configure("info", "console", plain)
    log.info("two")
    assert lines(terminal)[0]["event"] == "one"
    assert "two" in plain.getvalue()
    assert "\x1b[" not in plain.getvalue()


def test_configuring_again_replaces_the_first_configuration() -> None:
    first, second = configured(), configured()
    log.info("once")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


def test_events_below_the_level_are_not_written() -> None:
    stream = configured("warning")
    log.info("quiet")
    log.error("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_other_packages_are_written_and_redacted_but_their_debugging_is_not() -> None:
    stream = configured("debug")
    other = logging.getLogger("somebody.else")
    other.debug("noise")
    other.info("connecting to %s", "db://u:p@h")
    log.debug("ours")
    assert [line["event"] for line in lines(stream)] == ["connecting to db://u:***@h", "ours"]


@pytest.mark.parametrize("format_", ["json", "console"])
def test_tracebacks_are_written_without_secrets_or_variables(format_: str) -> None:
    stream = io.StringIO()
    configure("info", format_, stream)
    variable = "a local variable"
    try:
        raise ValueError("cannot reach db://u:hunter2@h")
    except ValueError:
        log.exception("failed", tried=1)
        logging.getLogger("somebody.else").exception("failed too")
    text = stream.getvalue()
    assert text.count("ValueError: cannot reach db://u:***@h") == 2
    assert text.count("Traceback") == 2
    assert "hunter2" not in text
    assert text.count(variable) == 0


def test_fields_of_any_type_reach_json() -> None:
    stream = configured()
    log.info("odd", where={(1, 2): "x", "token": "hunter2"}, thing=object(), name="n", level="l")
    assert "hunter2" not in stream.getvalue()
    assert lines(stream)[0]["event"].strip("'") == "odd"


def test_fields_bound_to_the_context_are_written() -> None:
    import structlog

    stream = configured()
    with structlog.contextvars.bound_contextvars(run_id="r1"):
        log.info("inside")
    log.info("outside")
    assert [line.get("run_id") for line in lines(stream)] == ["r1", None]


@pytest.mark.parametrize(("level", "format_"), [("loud", "json"), ("info", "xml")])
def test_an_unknown_level_or_format_is_refused(level: str, format_: str) -> None:
    with pytest.raises(ConfigurationError, match=r"loud|xml"):
        configure(level, format_, io.StringIO())
