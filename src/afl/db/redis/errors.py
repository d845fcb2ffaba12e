"""What errors of Redis mean for the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from afl.errors import AflError, ConfigurationError, StoreUnavailable

_REFUSED = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
#: What an operator can look at, by the first word of the server's answer.
_PASSING = {
    "OOM": "it has no memory left; raise maxmemory, or let receivers catch up",
    "MISCONF": "it cannot write to its disk; look at its log",
    "READONLY": "it is a replica now; a new primary may be on its way",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "CLUSTERDOWN": "a part of the cluster is down",
    "TRYAGAIN": "the cluster moves these keys",
    "NOREPLICAS": "too few replicas are there to write",
    "BUSY": "a script of somebody runs too long",
    "UNBLOCKED": "it is a replica now; a new primary may be on its way",
}


def translated(error: Exception, place: str) -> AflError | Exception:
    """The error of ours that tells the caller what to do; others, which are bugs, as they are."""
    if isinstance(error, _REFUSED):
        return ConfigurationError(
            f"{place} refuses us ({error}); look at the user and password in the URL"
        )
    if isinstance(error, exceptions.BusyLoadingError):
        return StoreUnavailable(f"{place}: it still loads its data ({error})")
    if isinstance(error, _LOST):
        return StoreUnavailable(
            f"{place} cannot be reached ({error}); is it running? What was sent and not answered "
            "may have happened"
        )
    word = _first_word(error)
    if advice := _PASSING.get(word):
        return StoreUnavailable(f"{place}: {advice} ({error})")
    return error


def _first_word(error: Exception) -> str:
    # redis-py cuts the word off where it has a class for it.
    classes = {
        exceptions.OutOfMemoryError: "OOM",
        exceptions.ReadOnlyError: "READONLY",
        exceptions.MasterDownError: "MASTERDOWN",
        exceptions.ClusterDownError: "CLUSTERDOWN",
        exceptions.TryAgainError: "TRYAGAIN",
    }
    for kind, word in classes.items():
        if isinstance(error, kind):
            return word
    return str(error).partition(" ")[0]


@contextmanager
def errors_translated(place: str) -> Iterator[None]:
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        meaning = translated(error, place)
        if meaning is error:
            raise
        raise meaning from error
