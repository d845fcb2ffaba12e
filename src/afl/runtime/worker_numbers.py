"""Numbers of a worker with which nothing would ever be done, or everything again and again: refused
before it starts, each by the name that it was given by."""

from __future__ import annotations

from typing import Protocol

from afl.errors import ConfigurationError

#: A lease is renewed at every third of it. Where those are much shorter than this, a commit that
#: waits for its turn is late, and whoever works has lost the claim.
LEAST_LEASE_MS = 50
#: The end of a drain that was given, as workers of different kinds call it.
_DRAINS = ("drain_timeout_ms", "shutdown_timeout_ms")


class _Numbers(Protocol):
    poll_interval_ms: int
    max_concurrent: int
    heartbeat_interval_ms: int
    lease_ms: int
    threads: int | None


def require_sound(config: _Numbers) -> None:
    """Raises ConfigurationError."""
    if config.lease_ms < LEAST_LEASE_MS:
        raise ConfigurationError(
            f"lease_ms is {config.lease_ms}, so claims would lapse before they are renewed; give "
            f"{LEAST_LEASE_MS} or more, such as 15000"
        )
    if config.heartbeat_interval_ms < 1:
        raise ConfigurationError(
            f"heartbeat_interval_ms is {config.heartbeat_interval_ms}, so it would beat without a "
            "pause; give 1 or more, such as 10000"
        )
    if config.poll_interval_ms <= 0:
        raise ConfigurationError(
            f"poll_interval_ms is {config.poll_interval_ms}, so it would look for work without a "
            "pause; give 1 or more, such as 2000"
        )
    _require_hands(config)
    for name in _DRAINS:
        given = getattr(config, name, 0)
        if given < 0:
            raise ConfigurationError(
                f"{name} is {given}, but no stop ends before it is asked for; give 0 or more, "
                "such as 30000"
            )


def require_sound_refresh(interval_ms: int) -> None:
    """Raises ConfigurationError for a worker that would do nothing but read registrations."""
    if interval_ms < 1:
        raise ConfigurationError(
            f"registry_refresh_interval_ms is {interval_ms}, so registrations would be read "
            "without a pause; give 1 or more, such as 30000"
        )


def _require_hands(config: _Numbers) -> None:
    if config.max_concurrent < 1:
        raise ConfigurationError(
            f"max_concurrent is {config.max_concurrent}, so no task would ever be done; give 1 or "
            "more, such as 5"
        )
    if config.threads is not None and config.threads < 1:
        raise ConfigurationError(
            f"threads is {config.threads}, so no handler that blocks would ever run; give 1 or "
            "more, or leave it out: it is max_concurrent then, at most 64"
        )


def extend_interval_of(duration_ms: int) -> int:
    """How often to extend a lock that lasts so long, unless somebody says."""
    return max(duration_ms // 3, 1)


def require_sound_lock(duration_ms: int, extend_interval_ms: int) -> None:
    """Raises ConfigurationError for a lock that lapses while it is kept: its holder would lose
    the task, begin again, and never come to an end."""
    if duration_ms < LEAST_LEASE_MS:
        raise ConfigurationError(
            f"lock_duration_ms is {duration_ms}, so locks would lapse before they are extended; "
            f"give {LEAST_LEASE_MS} or more, such as 60000"
        )
    if extend_interval_ms < 1:
        raise ConfigurationError(
            f"lock_extend_interval_ms is {extend_interval_ms}, so locks would be extended without "
            "a pause; give 1 or more, or leave it out: it is a third of lock_duration_ms then"
        )
    if 2 * extend_interval_ms > duration_ms:
        raise ConfigurationError(
            f"lock_extend_interval_ms is {extend_interval_ms}, but a lock lasts only "
            f"lock_duration_ms, {duration_ms}: it would lapse while its task is done, which would "
            f"begin again; give {duration_ms // 2} or less, or leave it out: it is a third of "
            "lock_duration_ms then"
        )
