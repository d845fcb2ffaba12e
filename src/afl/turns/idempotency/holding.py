"""Getting a key, and keeping it while one acts: on threads and in event loops."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable
from afl.log import get_logger
from afl.turns.idempotency.api import Held, IdempotencyStore, Kept, KeyBusy

_log = get_logger(__name__)

#: How often twins look whether the first one is done.
_LOOKS = Backoff(initial=0.01, factor=1.5, maximum=0.25)
#: How often an answer that could not be kept is kept again, and when.
_TRIES, _AGAIN = 4, Backoff(initial=0.05, factor=3.0, maximum=1.0)


def begun(store: IdempotencyStore, key: str, request: str, clock: Clock) -> Held | Kept:
    """Wait for twins, then act or take what they got. Raises KeyReused, StoreUnavailable."""
    looks = 0
    while True:
        try:
            return store.begin(key, request)
        except KeyBusy:
            looks += 1
            clock.sleep(_LOOKS.delay(looks))


async def begun_async(
    store: IdempotencyStore, key: str, request: str, *, wait_s: float | None = None
) -> Held | Kept:
    """The same in an event loop; raises KeyBusy after `wait_s` seconds."""
    loop = asyncio.get_running_loop()
    began_at, looks = loop.time(), 0
    while True:
        try:
            return await asyncio.to_thread(store.begin, key, request)
        except KeyBusy:
            if wait_s is not None and loop.time() >= began_at + wait_s:
                raise
        looks += 1
        await asyncio.sleep(_LOOKS.delay(looks))


def keep(store: IdempotencyStore, held: Held, answer: bytes, clock: Clock = SYSTEM_CLOCK) -> None:
    """Keep the answer of who has acted: it is nowhere else, so this tries again for a moment.
    Whoever asked should have it, also if that fails."""
    for tries in range(1, _TRIES + 1):
        try:
            if not store.finish(held, answer):
                _log.error("idempotency_key_lost", key=held.key)
        except StoreUnavailable as problem:
            if tries == _TRIES:
                _log.error("answer_not_kept", key=held.key, error=str(problem))
                return
            clock.sleep(_AGAIN.delay(tries))
        else:
            return


class Keeper:
    """Renews a lease on a thread of its own, from the beginning of a `with` to its end, or until
    it is stopped."""

    def __init__(self, store: IdempotencyStore, held: Held, clock: Clock) -> None:
        self._store = store
        self._held = held
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="idempotency-lease", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_anything: object) -> None:
        self.stop()

    def stop(self) -> Held:
        """What is held then: nothing changes it any more."""
        self._over.set()
        self._thread.join()
        return self._held

    def _work(self) -> None:
        while not self._clock.wait(self._over, self._store.lease_s / 3):
            with suppress(StoreUnavailable):
                longer = self._store.extend(self._held)
                if longer is None:
                    return
                self._held = longer


class AsyncKeeper:
    """The same in an event loop."""

    def __init__(self, store: IdempotencyStore, held: Held) -> None:
        self._store = store
        self._held = held
        self._over = asyncio.Event()

    async def __aenter__(self) -> AsyncKeeper:
        self._task = asyncio.get_running_loop().create_task(self._work())
        return self

    async def __aexit__(self, *_anything: object) -> None:
        self._over.set()

    async def stop(self) -> Held:
        self._over.set()
        await self._task
        return self._held

    async def _work(self) -> None:
        while not await self._is_over():
            with suppress(StoreUnavailable):
                longer = await asyncio.to_thread(self._store.extend, self._held)
                if longer is None:
                    return
                self._held = longer

    async def _is_over(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self._store.lease_s / 3)
        return self._over.is_set()
