"""Ids: fresh ones differ, derived ones depend on their parts and nothing else."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.ids import NAMESPACE, is_id, joined, new_id, short_id, stable_id, stable_id_beside

texts = st.lists(st.text(), max_size=5)


def test_fresh_ids_differ() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000


def test_ids_of_one_moment_begin_alike() -> None:
    fresh = [new_id() for _ in range(1000)]
    # They take milliseconds, unless the machine halts us: then there are some more beginnings.
    assert len({each[:4] for each in fresh}) < 500


def test_what_is_shown_of_ids_tells_them_apart() -> None:
    assert len({short_id(new_id()) for _ in range(1000)}) == 1000


@given(texts)
def test_an_id_beside_a_fresh_one_begins_like_it(parts: list[str]) -> None:
    fresh = new_id()
    beside = stable_id_beside(fresh, *parts)
    assert beside[:4] == fresh[:4]
    assert beside == stable_id_beside(fresh, *parts)
    assert uuid.UUID(beside).version == uuid.UUID(fresh).version == 8
    # Those beside it begin like it, too.
    assert stable_id_beside(beside, "further", *parts)[:4] == fresh[:4]


@pytest.mark.parametrize(
    "other", ["", "run-1", "run-number-0018", str(uuid.UUID(int=1 << 127, version=4))]
)
def test_beside_any_other_text_an_id_is_as_alone(other: str) -> None:
    assert stable_id_beside(other, "a", "b") == stable_id("a", "b")


@given(texts)
def test_a_stable_id_is_the_standard_uuid_of_its_parts(parts: list[str]) -> None:
    assert stable_id(*parts) == str(uuid.uuid5(NAMESPACE, joined(*parts)))


@given(texts, texts)
def test_only_equal_parts_have_equal_ids(left: list[str], right: list[str]) -> None:
    assert (stable_id(*left) == stable_id(*right)) == (left == right)


@given(st.lists(st.text("12:/a"), max_size=4), st.lists(st.text("12:/a"), max_size=4))
def test_parts_cannot_imitate_their_separator(left: list[str], right: list[str]) -> None:
    assert (joined(*left) == joined(*right)) == (left == right)


def test_moving_a_slash_between_parts_changes_the_id() -> None:
    assert stable_id("a", "b/c") != stable_id("a/b", "c")


def test_stable_ids_never_change() -> None:
    # Stored programs and side effects refer to these: a change here breaks live data.
    assert stable_id("afl", "Example", "step") == "c64056f3-6801-5627-8d1d-f1cce48e7e73"


def test_ids_of_steps_never_change() -> None:
    # A run that is under way finds its steps by them.
    run = "4f2a91c3-77d0-8a3b-bb75-e1ce34eb3105"
    assert stable_id_beside(run, "step", run, "a") == "4f2abf91-6f0b-8019-bb56-a98cf76117ec"


def test_text_that_is_not_valid_unicode_has_an_id() -> None:
    assert is_id(stable_id("\ud800"))


@given(texts)
def test_what_is_made_here_is_recognised(parts: list[str]) -> None:
    assert is_id(stable_id(*parts))
    assert is_id(new_id())


ID = "3399c7c1-2ba2-473b-bb75-e1ce34eb3105"


@pytest.mark.parametrize(
    "text",
    ["", "step", ID.upper(), ID.replace("-", ""), ID + "\n", f"{{{ID}}}"],
)
def test_other_text_is_no_id(text: str) -> None:
    assert not is_id(text)
