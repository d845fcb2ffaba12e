"""URLs of MongoDB: whatever cannot be is refused with what to do, before anybody connects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import dns.resolver
import pymongo
import pytest
from dns.exception import Timeout

from afl.db.mongo import MongoDatabase, open_mongo
from afl.db.mongo.address import DEFAULT_URL, address_of, require_name
from afl.errors import ConfigurationError, StoreUnavailable

#: Nobody listens there, and nobody is asked: connections are made at the first call.
NOBODY = "mongodb://127.0.0.1:9"


def refusal_of(url: str) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        open_mongo(url)
    return str(refusal.value)


def test_without_a_url_it_is_a_server_on_this_machine() -> None:
    assert DEFAULT_URL == "mongodb://localhost:27017"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("tsl=true", "tsl"),
        ("tls=maybe", "tls"),
        ("tls=", "tls"),
        ("retryWrites=true&tsl=true", "tsl"),
        ("retryWrites=true;tsl=true", "tsl"),
        ("serverSelectionTimeoutMS=x", "serverSelectionTimeoutMS"),
        ("readPreference=anybody", "readPreference"),
        ("tls=true&tls=false", "tls is given twice"),
        ("authMechanismProperties=hunter2", "authMechanismProperties"),
    ],
)
def test_an_option_that_the_driver_would_leave_out_is_refused_by_name(
    query: str, name: str
) -> None:
    """Without TLS, for instance, it would connect all the same."""
    told = refusal_of(f"mongodb://me:cret@h/db?{query}")
    assert name in told
    assert "cret" not in told
    assert "hunter2" not in told


def test_options_that_the_driver_knows_are_taken() -> None:
    query = (
        "tls=false&w=majority&appName=shop%20one&readPreference=secondary"
        "&readPreferenceTags=dc:ny&readPreferenceTags=&authSource=admin&retryWrites=true"
        "&maxPoolSize=5&compressors=zlib"
    )
    database = open_mongo(f"{NOBODY}/shop?{query}")
    options = database.client.options
    assert options.pool_options.appname == "shop one"
    assert options.pool_options.max_pool_size == 5
    database.close()


@pytest.mark.parametrize("separator", "&;")
def test_an_option_of_the_url_wins(separator: str) -> None:
    query = f"serverSelectionTimeoutMS=123{separator}connectTimeoutMS=456"
    database = open_mongo(f"{NOBODY}/?{query}")
    options = database.client.options
    assert options.server_selection_timeout == 0.123
    assert options.pool_options.connect_timeout == 0.456
    assert options.pool_options.socket_timeout == 30
    database.close()


@pytest.mark.parametrize("option", ["tlsCAFile", "tlsCertificateKeyFile"])
def test_a_file_of_tls_that_is_missing_is_named(option: str) -> None:
    told = refusal_of(f"mongodb://h/db?tls=true&{option}=/missing.pem")
    assert option in told
    assert "/missing.pem" in told


def test_a_file_that_has_no_certificate_is_not_taken_for_a_wrong_url(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none\n")
    told = refusal_of(f"mongodb://h/db?tls=true&tlsCAFile={tmp_path}/ca.pem")
    assert "PEM" in told
    assert "cannot be read" not in told


def test_a_certificate_without_its_key_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "me.pem").write_text("none\n")
    told = refusal_of(f"mongodb://h/db?tls=true&tlsCertificateKeyFile={tmp_path}/me.pem")
    assert "private key" in told
    assert "URL cannot be read" not in told


def test_what_the_driver_refuses_is_told_in_its_words() -> None:
    told = refusal_of("mongodb://a,b/?directConnection=true")
    assert "Cannot specify multiple hosts with directConnection=true" in told


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://me:se/cret@host/db",
        "mongodb://me:se?cret@host/db",
        "mongodb://me:12?cret=x@host/db",
        "mongodb://me:12/$cret@host",
        "mongodb://me:12/$cr?et@host",
    ],
)
def test_what_may_be_a_piece_of_a_password_is_not_shown(url: str) -> None:
    told = refusal_of(url)
    assert "URL cannot be read" in told
    assert "cr" not in told.partition("cannot be read; expected")[0]
    assert "cret" not in told


def _answering(answer: type[Exception]) -> Any:
    def resolve(*_arguments: object, **_options: object) -> object:
        raise answer

    return resolve


def test_a_host_that_dns_does_not_know_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns.resolver, "resolve", _answering(dns.resolver.NXDOMAIN))
    told = refusal_of("mongodb+srv://me:cret@cluster.nowhere.example/db")
    assert "DNS does not know" in told
    assert "URL cannot be read" not in told
    assert "cret" not in told


@pytest.mark.parametrize("answer", [Timeout, OSError])
def test_dns_that_does_not_answer_may_answer_later(
    monkeypatch: pytest.MonkeyPatch, answer: type[Exception]
) -> None:
    monkeypatch.setattr(dns.resolver, "resolve", _answering(answer))
    with pytest.raises(StoreUnavailable, match="DNS does not say"):
        open_mongo("mongodb+srv://cluster.nowhere.example/db")


@pytest.mark.parametrize(
    "name", ["a.b", "bad name", "a/b", 'a"b', "$a", "a\\b", "x" * 70, "ö" * 32]
)
def test_a_name_that_no_database_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a MongoDB database"):
        open_mongo(NOBODY, name)


@pytest.mark.parametrize("name", ["a.b", "bad%20name", "x" * 70])
def test_so_is_one_in_the_url(name: str) -> None:
    assert "cannot be the name of a MongoDB database" in refusal_of(f"{NOBODY}/{name}")


@pytest.mark.parametrize("name", ["local", "config"])
def test_a_database_without_transactions_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="there are no transactions"):
        open_mongo(f"{NOBODY}/{name}")


@pytest.mark.parametrize("name", ["afl", "x" * 63, "ö", "a-b_c"])
def test_other_names_are_taken(name: str) -> None:
    require_name(name)


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("mongodb://h", None),
        ("mongodb://h/?w=1", None),
        ("mongodb://h?w=1", None),
        ("mongodb://u:p%2F@h,i:1/shop?w=1", "shop"),
        ("mongodb://u:p#x@h/shop", "shop"),
        ("mongodb://u:p@%2Ftmp%2Fm.sock/shop", "shop"),
        ("mongodb+srv://h/my%2Dshop", "my-shop"),
    ],
)
def test_the_database_is_the_one_that_the_driver_finds(url: str, database: str | None) -> None:
    assert address_of(url).database == database


def test_a_client_that_awaits_is_refused() -> None:
    client: Any = pymongo.AsyncMongoClient(NOBODY, connect=False)
    with pytest.raises(ConfigurationError, match=r"pymongo\.MongoClient, not AsyncMongoClient"):
        MongoDatabase("", client=client)
    asyncio.run(client.close())
