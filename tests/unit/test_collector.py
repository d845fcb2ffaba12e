"""The garbage collector looks as seldom as it may, and afterwards as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from afl.collector import collector_paused, collector_rare


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield before
    gc.set_threshold(*before)
    gc.freeze()  # again: what was frozen for all tests is not any more


def test_a_process_that_serves_looks_seldom_and_only_at_what_is_new() -> None:
    before = gc.get_threshold()
    gc.unfreeze()
    with collector_rare():
        assert gc.get_threshold() == (20_000, *before[1:])
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("chosen", [0, 50_000])
def test_a_choice_of_the_application_is_kept(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    with collector_rare():
        assert gc.get_threshold() == (chosen, 10, 10)


def test_a_pause_ends_with_its_block_and_not_with_an_inner_one() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
