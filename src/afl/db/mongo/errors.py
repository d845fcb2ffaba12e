"""What errors of MongoDB mean for the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from bson.errors import InvalidDocument
from pymongo import errors

from afl.db.refusals import not_text, too_large_number
from afl.errors import AflError, ConfigurationError, Conflict, StoreMisused, StoreUnavailable

_REFUSED_CODES = {13, 18, 8000}  # not authorized, authentication failed, the same at Atlas
_NO_RIGHT_CODE = 13
_NAME_CODE = 73
_OTHER_CASE_CODE = 13297
_TOO_LARGE_CODES = {10334, 17419, 17420}
_TOO_MUCH_CODE = 388  # the transaction does not fit into the cache
DUPLICATE = 11000
_DUPLICATE_CODES = {DUPLICATE, 11001}
#: What an operator can look at, for errors that may pass.
_PASSING = {
    14031: "its disk is full; make room",
    **dict.fromkeys(
        (24, 46, 50, 202, 262),
        "the operation took too long; others hold these documents, or it is overloaded",
    ),
    **dict.fromkeys((64, 100, 134), "too few members of the replica set confirm writes"),
    **dict.fromkeys((91, 11600), "it shuts down at this moment"),
    **dict.fromkeys(
        (133, 189, 10107, 11602, 13435, 13436), "another member becomes primary; try again"
    ),
    **dict.fromkeys((6, 7, 89, 317, 9001), "its members cannot reach each other"),
    **dict.fromkeys((43, 237, 11601), "somebody ended the operation on the server; try again"),
    112: "others changed the same documents at the same time; try again",
    **dict.fromkeys((239, 246), "the snapshot is not there any more; try again"),
    **dict.fromkeys((251, 290), "the transaction was ended by the server; try again"),
    **dict.fromkeys((63, 150, 13388), "the cluster moves documents at this moment; try again"),
}
#: What the driver raises. A document that it does not even send is an error of its own kind.
OF_DRIVER = (errors.PyMongoError, errors.DocumentTooLarge, OSError)
_TRANSIENT, _UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
_RETRYABLE = "RetryableWriteError"
#: The command that was refused, with all that was sent along: also what the driver signs with.
_COMMAND = re.compile(r"execute command \{ (\w+):.*")
_MAKES = re.compile(r"execute command create(Indexes)?\b")
_TLS = re.compile(r"\b(SSL|TLS|certificate)\b")
_CUT_OFF = re.compile(r"connection closed|connection reset", re.IGNORECASE)


def is_transient(error: BaseException) -> bool:
    """Whether the transaction was not committed, and may be run again."""
    return isinstance(error, errors.PyMongoError) and error.has_error_label(_TRANSIENT)


def is_unknown(error: BaseException) -> bool:
    """Whether a commit was asked for, and nobody knows what became of it."""
    return isinstance(error, errors.PyMongoError) and error.has_error_label(_UNKNOWN)


def is_network(error: BaseException) -> bool:
    return isinstance(error, errors.ConnectionFailure | OSError)


def is_duplicate(error: BaseException) -> bool:
    return isinstance(error, errors.OperationFailure) and not _codes(error).isdisjoint(
        _DUPLICATE_CODES
    )


def is_only_duplicates(error: errors.BulkWriteError) -> bool:
    """Whether nothing else went wrong with some of many changes."""
    details = error.details or {}
    codes = {each.get("code") for each in details.get("writeErrors", ())}
    return bool(codes) and codes <= _DUPLICATE_CODES and not details.get("writeConcernErrors")


def translated(error: Exception, place: str) -> AflError | Exception:
    """The error of ours that tells the caller what to do; others, which are bugs, as they are."""
    if is_network(error) or isinstance(error, errors.WaitQueueTimeoutError):
        return StoreUnavailable(
            f"{place} cannot be reached ({_text(error)}); {_doubt(error)} What was sent and not "
            "answered may have happened"
        )
    if isinstance(error, errors.DocumentTooLarge):
        return too_large(place)
    if isinstance(error, errors.OperationFailure):
        return _of_server(error, place)
    return error


def _doubt(error: Exception) -> str:
    """What an operator should look at first."""
    text = str(error)
    if _TLS.search(text):
        return (
            "TLS does not come about: look at tls, tlsCAFile and tlsCertificateKeyFile in the URL, "
            "and at tlsMode and the certificate of the server."
        )
    if _CUT_OFF.search(text):
        # All that a server says which wants TLS and did not get it.
        return "is it running, and do both sides use TLS (tls=true in the URL), or neither?"
    return "is it running?"


def _of_server(error: errors.OperationFailure, place: str) -> AflError | Exception:
    codes = _codes(error)
    if not codes.isdisjoint(_REFUSED_CODES):
        return _refused(error, place)
    if _NAME_CODE in codes:
        return ConfigurationError(
            f"{place}: the server does not take this name of a database ({_text(error)}); choose "
            "another one"
        )
    if _OTHER_CASE_CODE in codes:
        return ConfigurationError(
            f"{place}: the server has a database whose name differs only in upper and lower case "
            f"({_text(error)}); write it as it is there, or choose another one"
        )
    if not codes.isdisjoint(_DUPLICATE_CODES):
        return Conflict(f"already there: {_text(error)}")
    if not codes.isdisjoint(_TOO_LARGE_CODES):
        return too_large(place)
    if _TOO_MUCH_CODE in codes:
        return StoreMisused(
            f"{place}: so much is begun at once that it does not fit into the server's cache; give "
            "it a larger one (storage.wiredTiger.engineConfig.cacheSizeGB), or let a foreach begin "
            "the work, which begins at most 2,000 rounds at a time"
        )
    for code, advice in _PASSING.items():
        if code in codes:
            return StoreUnavailable(f"{place}: {advice} ({_text(error)})")
    if is_transient(error) or is_unknown(error) or error.has_error_label(_RETRYABLE):
        return StoreUnavailable(f"{place}: {_text(error)}; try again")
    return error


def _refused(error: errors.OperationFailure, place: str) -> ConfigurationError:
    text = _text(error)
    if error.code == _NO_RIGHT_CODE and _MAKES.search(text):
        return ConfigurationError(
            f"{place}: collections and indexes are missing, and this user may not make them "
            f"({text}); run `afl migrate` first, as somebody who may"
        )
    return ConfigurationError(
        f"{place} refuses us ({text}); look at user, password and authSource in the "
        "URL, and at the rights of the user"
    )


def too_large(place: str) -> StoreMisused:
    return StoreMisused(
        f"{place}: a record or value is larger than 16 MB, which is the most that a "
        "document of MongoDB may have; keep large values elsewhere and hand over where they are"
    )


def meaning_of(error: BaseException, place: str) -> BaseException:
    """A new exception with its cause, if it has a meaning for the caller; else it itself."""
    if not isinstance(error, OF_DRIVER):
        return error
    meaning = translated(error, place)
    if meaning is not error:
        meaning.__cause__ = error
    return meaning


@contextmanager
def errors_translated(place: str) -> Iterator[None]:
    try:
        yield
    except OF_DRIVER as error:
        meaning = translated(error, place)
        if meaning is error:
            raise
        raise meaning from error


@contextmanager
def refusing() -> Iterator[None]:
    """Raise StoreMisused where a value cannot be kept; all else comes out as it is."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise not_text(error) from error
    except OverflowError as error:
        raise too_large_number() from error
    except errors.DocumentTooLarge:
        raise
    except InvalidDocument as error:
        raise StoreMisused(f"a field has a value of the wrong kind: {error}") from error


def _codes(error: errors.OperationFailure) -> set[int]:
    details = error.details or {}
    # Of many changes each may fail, or be done and not confirmed.
    inner = (*details.get("writeErrors", ()), *details.get("writeConcernErrors", ()))
    codes = (error.code, *(each.get("code") for each in inner))
    return {code for code in codes if code is not None}


def _text(error: Exception) -> str:
    # The driver puts the whole answer of the server behind what it says.
    text = " ".join(str(error).split())
    text = text.partition(", full error:")[0]
    return _COMMAND.sub(r"execute command \1", text)[:500]
