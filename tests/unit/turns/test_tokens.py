"""Resume tokens: signed, for a time, with keys that can be changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.turns.errors import InvalidToken
from afl.turns.tokens import Tokens

OLD, NEW = b"0123456789abcdef", b"fedcba9876543210"


def test_a_token_names_its_turn() -> None:
    tokens = Tokens([OLD])
    assert tokens.turn_id(tokens.issue("turn-1")) == "turn-1"


def test_a_token_is_good_for_its_time() -> None:
    clock = FakeClock()
    tokens = Tokens([OLD], ttl_s=60, clock=clock)
    token = tokens.issue("turn-1")
    clock.advance(59.9)
    assert tokens.turn_id(token) == "turn-1"
    clock.advance(0.1)
    with pytest.raises(InvalidToken, match="turn-1"):
        tokens.turn_id(token)


def test_keys_are_changed_without_losing_tokens() -> None:
    before, between, after = Tokens([OLD]), Tokens([NEW, OLD]), Tokens([NEW])
    assert between.turn_id(before.issue("turn-1")) == "turn-1"
    assert after.turn_id(between.issue("turn-1")) == "turn-1"
    with pytest.raises(InvalidToken):
        after.turn_id(before.issue("turn-1"))


@given(place=st.integers(0, 200), character=st.characters(), is_added=st.booleans())
def test_a_token_that_was_changed_is_refused(place: int, character: str, is_added: bool) -> None:
    tokens = Tokens([OLD])
    token = tokens.issue("turn-1")
    place %= len(token)
    changed = token[:place] + character + token[place + (not is_added) :]
    if changed != token:
        with pytest.raises(InvalidToken):
            tokens.turn_id(changed)


@given(st.text())
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        Tokens([OLD]).turn_id(text)


@pytest.mark.parametrize("keys", [[], [b"short"], [OLD, b""]])
def test_keys_that_anybody_could_guess_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(ConfigurationError):
        Tokens(keys)
