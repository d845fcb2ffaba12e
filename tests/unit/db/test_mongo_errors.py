"""What the driver of MongoDB raises, told in words that somebody can act on."""

from __future__ import annotations

import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DocumentTooLarge,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from afl.db.mongo.errors import errors_translated, meaning_of, refusing, translated
from afl.errors import ConfigurationError, StoreMisused, StoreUnavailable


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("it does not fit", 388),
        BulkWriteError({"writeErrors": [{"index": 9663, "code": 388, "errmsg": "not that many"}]}),
    ],
    ids=["one", "of many"],
)
def test_more_than_fits_into_the_cache_is_told_with_what_to_do(error: OperationFailure) -> None:
    told = translated(error, "mongodb://h:27017/db")
    assert isinstance(told, StoreMisused)
    assert "mongodb://h:27017/db" in str(told)
    assert "cacheSizeGB" in str(told)


@pytest.mark.parametrize(
    "code",
    [6, 7, 24, 43, 46, 89, 100, 133, 134, 202, 237, 262, 290, 317, 9001, 11601, 13388],
)
def test_what_may_pass_ends_no_worker(code: int) -> None:
    told = translated(OperationFailure("not now", code), "mongodb://h:27017/db")
    assert isinstance(told, StoreUnavailable)


def test_what_the_server_calls_retryable_may_be_tried_again() -> None:
    labels = {"errorLabels": ["RetryableWriteError"]}
    told = translated(OperationFailure("not now", 1, labels), "mongodb://h:27017/db")
    assert isinstance(told, StoreUnavailable)


def test_a_value_that_is_not_even_sent_is_called_too_large() -> None:
    error = DocumentTooLarge("update command document too large")
    with pytest.raises(DocumentTooLarge) as passed, refusing():
        raise error
    told = meaning_of(passed.value, "mongodb://h:27017/db")
    assert isinstance(told, StoreMisused)
    assert "larger than 16 MB" in str(told)
    with pytest.raises(StoreMisused, match="larger than 16 MB"), errors_translated("mongodb://h"):
        raise error


def test_a_mistake_of_ours_stays_what_it_is() -> None:
    error = OperationFailure("unknown operator: $foo", 2)
    assert translated(error, "mongodb://h:27017/db") is error


@pytest.mark.parametrize("code", [91, 189, 11600, 11602])
@pytest.mark.parametrize("kind", ["writeErrors", "writeConcernErrors"])
def test_a_server_that_stops_among_many_changes_cannot_be_reached(kind: str, code: int) -> None:
    """Who is told so waits; any other error would end a worker."""
    failed = {"code": code, "errmsg": "Replication is being shut down"}
    told = translated(BulkWriteError({kind: [failed]}), "mongodb://h:27017/db")
    assert isinstance(told, StoreUnavailable)
    assert "at this moment" in str(told) or "try again" in str(told)


def _no_right_to(command: str) -> OperationFailure:
    """As a server says it: with all that came along with the command."""
    sent_along = "lsid: {}, $clusterTime: { signature: { hash: BinData(0, A1), keyId: 7 } }"
    return OperationFailure(
        f'not authorized on agents to execute command {{ {command}: "steps", {sent_along} }}'
        ", full error: {'ok': 0.0}",
        13,
    )


def test_what_was_sent_along_with_a_refused_command_is_not_told() -> None:
    told = translated(_no_right_to("find"), "mongodb://h:27017/db")
    assert isinstance(told, ConfigurationError)
    assert "not authorized on agents to execute command find)" in str(told)
    assert "$clusterTime" not in str(told)
    assert "signature" not in str(told)
    assert "rights of the user" in str(told)


@pytest.mark.parametrize("command", ["create", "createIndexes"])
def test_who_may_not_make_indexes_is_told_who_does(command: str) -> None:
    told = translated(_no_right_to(command), "mongodb://h:27017/db")
    assert isinstance(told, ConfigurationError)
    assert f"execute command {command})" in str(told)
    assert "afl migrate" in str(told)


@pytest.mark.parametrize(
    ("code", "words"),
    [(73, "does not take this name"), (13297, "differs only in upper and lower case")],
)
def test_a_name_that_the_server_refuses_is_no_bug(code: int, words: str) -> None:
    told = translated(OperationFailure("not that one", code), "mongodb://h:27017/db")
    assert isinstance(told, ConfigurationError)
    assert words in str(told)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "h:1: SSL handshake failed: h:1: [SSL] certificate verify failed",
            "look at tls, tlsCAFile",
        ),
        ("h:1: connection closed", "do both sides use TLS"),
        ("h:1: [Errno 104] Connection reset by peer", "do both sides use TLS"),
        ("h:1: [Errno 111] Connection refused", "is it running? What"),
    ],
)
@pytest.mark.parametrize("kind", [AutoReconnect, ServerSelectionTimeoutError])
def test_who_is_not_reached_is_told_where_to_look(
    kind: type[AutoReconnect], text: str, words: str
) -> None:
    told = translated(kind(text), "mongodb://h:1/db")
    assert isinstance(told, StoreUnavailable)
    assert words in str(told)
