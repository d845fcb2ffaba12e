"""Addresses of MongoDB: what operators write, completed with what a long-lived client needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

import pymongo
from pymongo.errors import ConfigurationError as DriverRefusal
from pymongo.errors import InvalidURI
from pymongo.uri_parser import validate_options

from afl.errors import AflError, ConfigurationError, StoreUnavailable

DEFAULT_URL = "mongodb://localhost:27017"
DEFAULT_DATABASE = "afl"

_SCHEMES = ("mongodb:", "mongodb+srv:")
#: Those in a URL win. Nobody hangs for long on a server that is gone: workers tell that they
#: cannot reach it, and try again.
_DEFAULTS: dict[str, Any] = {
    "appname": "afl",
    "connecttimeoutms": 5000,
    "serverselectiontimeoutms": 5000,
    "sockettimeoutms": 30_000,
}
#: Options that may be given several times, and those whose values the driver shows when it
#: refuses them.
_REPEATABLE = "readpreferencetags"
_SECRET = "authmechanismproperties"  # noqa: S105 - the name of an option

_NOT_IN_NAMES = '/\\. "$\0'
_LONGEST_NAME = 63
_OF_THE_SERVER = ("config", "local")

Option = tuple[str, str]


class Address(NamedTuple):
    url: str
    #: The database that the URL names, if it does.
    database: str | None
    #: Names as they are written, and values.
    options: Sequence[Option] = ()


def address_of(url: str) -> Address:
    """Raises ConfigurationError for what is no URL of MongoDB, and for options that the driver
    would leave out with no more than a warning: without `tls` it connects all the same."""
    if not url.startswith(_SCHEMES):
        raise ConfigurationError(
            f"{url.partition(':')[0]}: is not the scheme of a MongoDB URL; expected "
            "mongodb://user:password@host:27017/database, or mongodb+srv://…"
        )
    # Divided as the driver does it, or the database may be another one than it takes.
    place, _, query = url.partition("://")[2].partition("?")
    database = place.partition("/")[2]
    options = _options_in(query)
    fault = _fault_of(options)
    if "@" in database or (fault and "@" in query):
        # Behind an unescaped slash or question mark of a password, which is not for the screen.
        raise _unreadable("InvalidURI")
    if fault:
        raise ConfigurationError(f"the MongoDB URL has an option that cannot be: {fault}")
    return Address(url, unquote_plus(database) or None, options)


def require_name(database: str) -> None:
    """Raises ConfigurationError for what cannot be the name of a database for us."""
    if database in _OF_THE_SERVER:
        raise ConfigurationError(
            f"{database!r} is a database of the MongoDB server's own, where there are no "
            "transactions; name another one"
        )
    is_too_long = len(database.encode(errors="replace")) > _LONGEST_NAME
    if is_too_long or any(each in _NOT_IN_NAMES for each in database):
        raise ConfigurationError(
            f"{database!r} cannot be the name of a MongoDB database; choose one without spaces, "
            f"dots, slashes, quotation marks and dollars, of at most {_LONGEST_NAME} bytes"
        )


def connect(address: Address) -> pymongo.MongoClient[dict[str, Any]]:
    """A client; that nobody answers there shows at the first call, unless it is DNS that has to
    say where the servers are. Raises ConfigurationError, StoreUnavailable."""
    given = {name.lower() for name, _ in address.options}
    options = {name: each for name, each in _DEFAULTS.items() if name not in given}
    try:
        return pymongo.MongoClient(address.url, **options)
    except OSError as error:
        raise ConfigurationError(
            f"the certificates that the MongoDB URL names cannot be used ({error}); look at "
            "tlsCAFile and tlsCertificateKeyFile, which must be readable files in PEM format"
        ) from error
    except (InvalidURI, ValueError) as error:
        raise _unreadable(type(error).__name__) from None
    except DriverRefusal as error:
        raise _meaning_of(error) from error


def place_of(client: pymongo.MongoClient[dict[str, Any]], database: str) -> str:
    """Where it is, for people, without secrets."""
    seeds = client.topology_description.server_descriptions()
    hosts = ",".join(f"{host}:{port}" for host, port in sorted(seeds, key=str))
    return f"mongodb://{hosts}/{database}"


def _options_in(query: str) -> list[Option]:
    separator = "&" if "&" in query else ";"
    return parse_qsl(query, keep_blank_values=True, separator=separator)


def _fault_of(options: Sequence[Option]) -> str:
    """What is wrong with the first option that cannot be; or nothing."""
    seen: set[str] = set()
    for name, value in options:
        key = name.lower()
        if key in seen and key != _REPEATABLE:
            return f"{name} is given twice"
        seen.add(key)
        if fault := _fault_of_one(name, [value] if key == _REPEATABLE else value):
            return fault
    return ""


def _fault_of_one(name: str, value: str | list[str]) -> str:
    try:
        validate_options({name: value})
    except OSError as error:
        return f"{name} names a file that cannot be read ({error})"
    except (DriverRefusal, ValueError, TypeError) as error:
        reason = "" if name.lower() == _SECRET else f" ({str(error).partition('. Did ')[0]})"
        return f"the driver does not know {name}, or does not take its value{reason}"
    return ""


def _unreadable(kind: str) -> ConfigurationError:
    # Not the error itself: what could not be read may be a piece of the password.
    return ConfigurationError(
        "the MongoDB URL cannot be read; expected mongodb://user:password@host:27017/database, "
        "with special characters of user and password escaped (%2F for a slash), and only "
        f"options that the driver knows ({kind})"
    )


def _meaning_of(error: DriverRefusal) -> AflError:
    """Of what is wrong though the URL can be read."""
    from dns.exception import DNSException
    from dns.resolver import NXDOMAIN, NoAnswer

    cause = error.__cause__
    if isinstance(cause, NXDOMAIN | NoAnswer):
        return ConfigurationError(
            f"DNS does not know the servers of the MongoDB URL ({error}); look at its host, which "
            "with mongodb+srv:// is the name of an SRV record, or name the servers themselves with "
            "mongodb://"
        )
    if isinstance(cause, DNSException | OSError):
        return StoreUnavailable(
            f"DNS does not say where the servers of the MongoDB URL are ({error}); try again"
        )
    if "rivate key" in str(error):
        return ConfigurationError(
            f"the file that tlsCertificateKeyFile names in the MongoDB URL cannot be used ({error})"
            "; it must have a certificate and the private key for it, both in PEM format"
        )
    return ConfigurationError(f"the driver refuses what the MongoDB URL asks for ({error})")
