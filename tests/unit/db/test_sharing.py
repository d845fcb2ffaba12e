"""Connections that a process shares: one for each address, for as long as somebody holds it."""

from __future__ import annotations

import gc
import weakref

import pytest

from afl.db.sharing import Held, Registry
from afl.errors import ConfigurationError


class Line(Held):
    def _end(self) -> None: ...


@pytest.fixture
def registry() -> Registry[Line]:
    return Registry()


def opened(registry: Registry[Line], address: str, *settings: object) -> Line:
    return registry.open(address, settings, lambda: Line(address))


def test_whoever_opens_the_same_shares_it_until_the_last_one_closes(
    registry: Registry[Line],
) -> None:
    first, second = opened(registry, "a"), opened(registry, "a")
    assert first is second
    first.close()
    assert opened(registry, "a") is first
    for _ in range(2):
        first.close()
    assert first.is_closed
    assert opened(registry, "a") is not first


def test_other_settings_are_refused_while_it_is_open(registry: Registry[Line]) -> None:
    line = opened(registry, "a", 1)
    with pytest.raises(ConfigurationError, match="other settings"):
        opened(registry, "a", 2)
    line.close()
    assert not opened(registry, "a", 2).is_closed


def test_what_is_closed_is_not_kept_in_memory(registry: Registry[Line]) -> None:
    """Addresses may be made by the thousand, such as one for each client that somebody brings."""
    closed = []
    for each in range(5):
        line = opened(registry, str(each))
        closed.append(weakref.ref(line))
        line.close()
    kept = opened(registry, "kept")
    del line
    gc.collect()
    assert [each() for each in closed] == [None] * 5
    assert opened(registry, "kept") is kept
