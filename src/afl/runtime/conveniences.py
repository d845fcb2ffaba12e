"""What stores do in the same way: methods of the port that others of it are enough for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afl.runtime.entities import HandlerRegistration, Isolation, OnLost, TaskDefinition
from afl.runtime.persistence import DEFAULT_TASK_LIST, PersistenceAPI, Wake


class Conveniences:
    def claim_task(
        self: PersistenceAPI, task_names: list[str], task_list: str = DEFAULT_TASK_LIST
    ) -> TaskDefinition | None:
        return next(iter(self.claim_tasks(task_names, 1, task_list=task_list)), None)

    def wait_for_news(
        self: PersistenceAPI,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> Wake:
        """Looks at all news: for stores where that is cheap."""
        has_work = self.wait_for_work(names, timeout, task_list=task_list, stop=stop)
        return Wake.WORK if has_work else Wake.NOTHING

    def register_handler(
        self: PersistenceAPI,
        facet_name: str,
        module_uri: str,
        entrypoint: str = "handle",
        *,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int = 30000,
        requirements: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        isolation: str = Isolation.THREAD,
        on_lost: str = OnLost.REDELIVER,
    ) -> HandlerRegistration:
        now = self.now_ms()
        registration = HandlerRegistration(
            facet_name,
            module_uri,
            entrypoint,
            version=version,
            checksum=checksum,
            timeout_ms=timeout_ms,
            requirements=list(requirements),
            metadata=dict(metadata or {}),
            created=now,
            updated=now,
            isolation=isolation,
            on_lost=on_lost,
        )
        self.save_handler_registration(registration)
        return registration
