"""A lock for each task that a runner works on, beside its lease: others can see who has what.

A lock belongs to one claim of its task. Whoever claims the task later takes over the lock of the
claim before, which is dead; locks of anybody else are respected. A lock that is lost ends the
attempt: its task is given back.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from afl.clock import Clock
from afl.errors import StoreError
from afl.log import get_logger
from afl.runtime.entities import LockMetaData
from afl.runtime.persistence import Claim, PersistenceAPI
from afl.runtime.task_source import NotNow, TaskWork
from afl.work.attempts import Attempt

_log = get_logger(__name__)

_OWNER = re.compile(r"runner:.+:(?P<fence>\d+)")
_LAST_S = 1.0


@dataclass(eq=False, slots=True)
class _Item:
    work: TaskWork
    owner: str
    attempt: Attempt | None = None

    @property
    def key(self) -> str:
        return lock_key(self.work.id)


def lock_key(task_id: str) -> str:
    return f"runner:task:{task_id}"


class ItemLocks:
    """The locks of one runner. Safe from any thread."""

    def __init__(
        self,
        store: PersistenceAPI,
        duration_ms: int,
        extend_interval_s: float,
        clock: Clock,
    ) -> None:
        self._store = store
        self._duration_ms = duration_ms
        self._interval_s = extend_interval_s
        self._clock = clock
        self._changed = threading.Condition()
        #: By claim: the same task may be claimed again while an attempt that lost it goes on.
        self._items: dict[Claim, _Item] = {}
        #: To be unlocked by the thread of `kept`.
        self._done: deque[_Item] = deque()
        self._is_kept = False

    def enter(self, work: TaskWork) -> None:
        """Lock a task. Raises NotNow while somebody else has it."""
        task = work.task
        item = _Item(work, f"runner:{task.owner}:{task.fence}")
        meta = LockMetaData(topic=task.task_list_name, handler=task.name, step_id=task.step_id)
        if not self._acquire(item, meta) and not (self._bury(item) and self._acquire(item, meta)):
            held = self._store.check_lock(item.key)
            until = held.expires_at if held is not None else 0
            raise NotNow(f"somebody else holds the lock {item.key}", not_before=until)
        with self._changed:
            self._items[work.claim] = item

    def attach(self, work: TaskWork, attempt: Attempt) -> None:
        """Whom to cancel if the lock is lost."""
        item = self._items.get(work.claim)
        if item is not None:
            item.attempt = attempt

    def leave(self, work: TaskWork) -> None:
        """Unlock a task, soon. Waits only where no thread keeps the locks."""
        with self._changed:
            item = self._items.pop(work.claim, None)
            if item is None:
                return
            if self._is_kept:
                self._done.append(item)
                self._changed.notify_all()
                return
        self._unlock(item)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Extend all locks on a thread of its own until the end of the block."""
        thread = threading.Thread(target=self._keep, name="loop-worker-locks", daemon=True)
        with self._changed:
            self._is_kept = True
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_kept = False
                self._changed.notify_all()
            thread.join(_LAST_S)

    # The thread

    def _keep(self) -> None:
        due = self._clock.monotonic() + self._interval_s
        while True:
            with self._changed:
                left = due - self._clock.monotonic()
                self._clock.wait_for(self._changed, self._has_news, left)
                done, is_kept = list(self._done), self._is_kept
                self._done.clear()
            for each in done:
                self._unlock(each)
            if not is_kept:
                return
            if self._clock.monotonic() >= due:
                due = self._clock.monotonic() + self._interval_s
                self._extend_all()

    def _has_news(self) -> bool:
        return bool(self._done) or not self._is_kept

    def _extend_all(self) -> None:
        with self._changed:
            items = list(self._items.values())
        for each in items:
            try:
                if not self._store.extend_lock(each.key, self._duration_ms, owner=each.owner):
                    self._lose(each)
            except StoreError as error:
                # It holds for a while; the next round may be luckier.
                _log.warning("lock_not_extended", key=each.key, error=str(error))

    def _lose(self, item: _Item) -> None:
        with self._changed:
            if self._items.pop(item.work.claim, None) is None:
                return  # done meanwhile
        _log.warning("lock_lost", key=item.key, task=item.work.label)
        # Before it is cancelled, so that whatever it still says is refused.
        self._store.release_task(item.work.claim)
        if item.attempt is not None:
            item.attempt.cancel()

    # The store

    def _acquire(self, item: _Item, meta: LockMetaData) -> bool:
        return self._store.acquire_lock(item.key, self._duration_ms, meta, owner=item.owner)

    def _bury(self, item: _Item) -> bool:
        """Whether the lock was that of an earlier claim of the task, which is dead."""
        held = self._store.check_lock(item.key)
        if held is None:
            return True
        match = _OWNER.fullmatch(held.owner)
        if match is None or int(match["fence"]) >= item.work.task.fence:
            return False
        return self._store.release_lock(item.key, owner=held.owner)

    def _unlock(self, item: _Item) -> None:
        with suppress(StoreError):  # it ends by itself
            self._store.release_lock(item.key, owner=item.owner)
