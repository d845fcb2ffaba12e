"""What errors of PostgreSQL mean for the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from afl.db.refusals import not_text, too_large_number
from afl.errors import AflError, ConfigurationError, Conflict, StoreMisused, StoreUnavailable

_REFUSED = (
    errors.InvalidAuthorizationSpecification,
    errors.InvalidPassword,
    errors.InvalidCatalogName,
    errors.InsufficientPrivilege,
)
#: Statements of ours are right; so the tables are not those that they were written for.
_NOT_OURS = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)
#: The server ended a transaction that took too long, and nothing of it is there. Not every version
#: of the driver has a name for them.
_STOOD_STILL = {"25P03", "25P04"}
#: What libpq and the server say of options that cannot be. While connecting, there is no code.
_WRONG_OPTION = re.compile(
    r"""invalid\ "?\w+"?\ value | invalid\ port\ number | could\ not\ match\ \d+\ port
    | definition\ of\ service | may\ not\ be\ used\ with
    | FATAL:.*(invalid\ value\ for | unrecognized\ configuration | invalid\ command-line)
    | FATAL:.*requires\ a\ value
    """,
    re.VERBOSE,
)
_NO_TLS = "server does not support SSL"
#: What an operator can look at, for errors that may pass.
_PASSING: dict[type[psycopg.Error], str] = {
    PoolTimeout: "all connections of this process are in use; is a transaction stuck?",
    errors.TooManyConnections: "it has no connection left for us; raise max_connections",
    errors.DiskFull: "its disk is full; make room",
    errors.OutOfMemory: "it has no memory left",
    errors.ReadOnlySqlTransaction: "it is a replica, or read-only; a new primary may be coming",
    errors.SerializationFailure: "others changed the same rows at the same time; try again",
    errors.DeadlockDetected: "others changed the same rows at the same time; try again",
    errors.LockNotAvailable: "others hold locks on these tables for too long",
    errors.QueryCanceled: "the statement was cancelled, or took too long",
    errors.CannotConnectNow: "it starts or stops at this moment",
    errors.IoError: "it cannot read or write its disk; look at its log",
}


def translated(error: Exception, place: str) -> AflError | Exception:
    """The error of ours that tells the caller what to do; others, which are bugs, as they are."""
    if isinstance(error, _REFUSED) or _is_refusal(error):
        return ConfigurationError(
            f"{place} refuses us ({_text(error)}); look at the database, user and password in "
            "the URL, and at the rights of the user"
        )
    if isinstance(error, _NOT_OURS):
        return ConfigurationError(
            f"{place} has no such tables ({_text(error)}); run `afl migrate`, and if the URL names "
            "a schema (search_path), create it first. Who has no right to look into a schema sees "
            "none of its tables: GRANT USAGE ON SCHEMA … TO the user"
        )
    if (mistake := _mistake_of_url(error)) is not None:
        return ConfigurationError(f"{place}: {mistake} ({_text(error)})")
    if isinstance(error, errors.UniqueViolation):
        return Conflict(f"already there: {_text(error)}")
    if isinstance(error, errors.InFailedSqlTransaction):
        return StoreMisused("this transaction was undone after an error; let that error out")
    if isinstance(error, psycopg.Error) and error.sqlstate in _STOOD_STILL:
        return StoreUnavailable(
            f"{place}: this process stood still inside of a transaction, which the server ended; "
            f"try again ({_text(error)})"
        )
    for kind, advice in _PASSING.items():
        if isinstance(error, kind):
            return StoreUnavailable(f"{place}: {advice} ({_text(error)})")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
        return StoreUnavailable(
            f"{place} cannot be reached ({_text(error)}); is it running? What was sent and not "
            "answered may have happened"
        )
    return error


def meaning_of(error: BaseException, place: str) -> BaseException:
    """A new exception with its cause, if it has a meaning for the caller; else it itself."""
    if not isinstance(error, psycopg.Error | OSError):
        return error
    meaning = translated(error, place)
    if meaning is not error:
        meaning.__cause__ = error
    return meaning


def _is_refusal(error: Exception) -> bool:
    # While connecting, libpq gives the text alone.
    text = str(error)
    return isinstance(error, psycopg.OperationalError) and (
        "authentication failed" in text
        or "no password supplied" in text
        or "pg_hba.conf" in text
        or ("FATAL" in text and "does not exist" in text)
    )


def _mistake_of_url(error: Exception) -> str | None:
    """What has to be changed before anybody can connect."""
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate is not None:
        return None
    text = _text(error)
    if _NO_TLS in text:
        return "it offers no TLS, and sslmode asks for it; turn TLS on there, or change sslmode"
    if _WRONG_OPTION.search(text):
        return "an option of the URL, or a variable such as PGSSLMODE, has a value that cannot be"
    return None


def _text(error: Exception) -> str:
    return " ".join(str(error).split())


@contextmanager
def errors_translated(place: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError) as error:
        meaning = translated(error, place)
        if meaning is error:
            raise
        raise meaning from error


#: What the server says of a value that does not fit its column.
_WRONG_KIND = (
    errors.DataError,
    errors.NotNullViolation,
    errors.DatatypeMismatch,
    errors.CannotCoerce,
    errors.IndeterminateDatatype,
    errors.UndefinedFunction,
)


def _too_large(error: errors.ProgramLimitExceeded) -> StoreMisused:
    if "index" in str(error):
        return StoreMisused(f"a name or key is too long: {_text(error)}; use a shorter one")
    return StoreMisused(
        f"a record or value is larger than 1 GB, which is the most that PostgreSQL takes "
        f"({_text(error)}); keep large values elsewhere and hand over where they are"
    )


@contextmanager
def refusing() -> Iterator[None]:
    """Raise StoreMisused where a value cannot be kept; all else comes out as it is."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise not_text(error) from error
    except (errors.NumericValueOutOfRange, OverflowError) as error:
        raise too_large_number() from error
    except errors.ProgramLimitExceeded as error:
        raise _too_large(error) from error
    except (*_WRONG_KIND, errors.ProgrammingError) as error:
        # What has a code and is none of these is about rights, tables or connections, not values.
        if error.sqlstate is not None and not isinstance(error, _WRONG_KIND):
            raise
        raise StoreMisused(f"a field has a value of the wrong kind: {error}") from error
