"""Functions that act once for each key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.log import get_logger
from afl.turns.effects import current_effect
from afl.turns.idempotency.api import Held, IdempotencyStore, Kept, KeyBusy
from afl.turns.values import decode, digest, encode

R = TypeVar("R")

_log = get_logger(__name__)

#: How often twins look whether the first one is done.
LOOKS = Backoff(initial=0.01, factor=1.5, maximum=0.25)


def idempotent(
    store: IdempotencyStore, *, clock: Clock = SYSTEM_CLOCK
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function act once for each `idempotency_key`, which its callers give by that name.

    Without one, the key of the tool call that they are part of is used; outside of all tools the
    call raises UsageError. Arguments and result must be JSON. The same key with the same arguments
    gives the same result; with others it raises KeyReused. A call that raises has not acted, and
    the next one does. Twins wait.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        name = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def once(*args: Any, idempotency_key: str | None = None, **kwargs: Any) -> Any:
            key = f"{name}:{idempotency_key or _own_key(name)}"
            found = _begun(store, key, digest(encode([args, kwargs])), clock)
            if isinstance(found, Kept):
                return decode(found.answer)
            return _act(store, found, lambda: function(*args, **kwargs), clock)

        return once

    return decorate


def _own_key(name: str) -> str:
    effect = current_effect()
    if effect is None:
        raise UsageError(f"{name} needs an idempotency_key")
    return effect.key


def _begun(store: IdempotencyStore, key: str, request: str, clock: Clock) -> Held | Kept:
    looks = 0
    while True:
        try:
            return store.begin(key, request)
        except KeyBusy:
            looks += 1
            clock.sleep(LOOKS.delay(looks))


def _act(store: IdempotencyStore, held: Held, call: Callable[[], Any], clock: Clock) -> Any:
    with _Keeper(store, held, clock) as keeper:
        try:
            result = call()
            answer = encode(result)
        except BaseException:
            store.release(keeper.stop())
            raise
        if not store.finish(keeper.stop(), answer):
            _log.error("idempotency_key_lost", key=held.key)
    return result


class _Keeper:
    """Renews a lease on a thread of its own, until it is stopped."""

    def __init__(self, store: IdempotencyStore, held: Held, clock: Clock) -> None:
        self._store = store
        self._held = held
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="idempotency-lease", daemon=True)

    def __enter__(self) -> _Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_anything: object) -> None:
        self.stop()

    def stop(self) -> Held:
        self._over.set()
        self._thread.join()
        return self._held

    def _work(self) -> None:
        while not self._clock.wait(self._over, self._store.lease_s / 3):
            longer = self._store.extend(self._held)
            if longer is None:
                return
            self._held = longer
