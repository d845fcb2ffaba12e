"""Transactions that nobody will end.

A transaction belongs to a session, not to a connection: one whose process was killed keeps what
it has written from everybody, until the server gives up on it after a minute. Whoever is kept
waiting looks for such transactions and ends them.

Ending one that was alive does no harm: whoever it belonged to runs it again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pymongo
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from afl.clock import SYSTEM_CLOCK
from afl.log import get_logger

_log = get_logger(__name__)

#: How often a process looks, at most.
_LOOK_S = 0.2
#: A process that is there but does nothing for so long is halted, or hangs.
_LONGEST_PAUSE_US = 10_000_000
_QUESTION = {"$currentOp": {"allUsers": False, "idleConnections": True, "idleSessions": True}}


class Abandoned:
    """Finds them among those of programs with the same name as this one's."""

    def __init__(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        # Only the primary has transactions, wherever else the client may want to read.
        self._admin = client.get_database(
            "admin", read_concern=ReadConcern("local"), read_preference=ReadPreference.PRIMARY
        )
        self._app_name = _app_name(client)
        self._lock = threading.Lock()
        self._looked = -_LOOK_S

    def end(self) -> None:
        """Look and end, unless somebody did so a moment ago. Raises nothing of MongoDB: whoever
        comes here has something else to do, and tries it again."""
        if not self._app_name or not self._is_time():
            return
        try:
            found = abandoned(self._admin.aggregate([_QUESTION]), self._app_name)
            if found:
                _log.warning("abandoned_transactions_ended", count=len(found))
                self._admin.command("killSessions", found)
        except PyMongoError as error:
            _log.info("abandoned_transactions_unknown", reason=str(error)[:200])

    def _is_time(self) -> bool:
        now = SYSTEM_CLOCK.monotonic()
        with self._lock:
            is_time = now - self._looked >= _LOOK_S
            if is_time:
                self._looked = now
        return is_time


def abandoned(operations: Iterable[dict[str, Any]], app_name: str) -> list[dict[str, Any]]:
    """The sessions with transactions whose connection is gone, or who pause for too long."""
    known = list(operations)
    connections = {each.get("connectionId") for each in known if each.get("type") != "idleSession"}
    return [
        {"id": each["lsid"]["id"]}
        for each in known
        if each.get("type") == "idleSession"
        and each.get("appName") == app_name
        and _is_abandoned(each, connections)
    ]


def _is_abandoned(operation: dict[str, Any], connections: set[Any]) -> bool:
    transaction = operation.get("transaction")
    if transaction is None:
        return False
    return (
        operation.get("connectionId") not in connections
        or transaction.get("timeInactiveMicros", 0) > _LONGEST_PAUSE_US
    )


def _app_name(client: pymongo.MongoClient[dict[str, Any]]) -> str:
    metadata: Any = client.options.pool_options.metadata
    return str(metadata.get("application", {}).get("name", ""))
