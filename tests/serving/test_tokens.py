"""Who may use the turn API is read from the settings, or made."""

from __future__ import annotations

import pytest

from afl.config import ServeConfig
from afl.errors import ConfigurationError
from afl.gateway import Role
from afl.serving.tokens import admission, read_tokens

ONE, TWO, THREE = ("secret-0123456789-" + each for each in "abc")
TEXT = f"""
# of the web site
web caller {ONE}
web caller {TWO}
   {THREE}
"""


def test_a_line_is_a_token_with_its_name_and_role() -> None:
    found = [(each.name, each.role, each.secret) for each in read_tokens(TEXT)]
    assert found == [
        ("web", Role.CALLER, ONE),
        ("web", Role.CALLER, TWO),
        ("operator", Role.OPERATOR, THREE),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"web caller {ONE} ; web caller {TWO} ; {THREE}",
        f"web caller {ONE} ;\nweb caller {TWO}\t;\t{THREE} ;",
        f"; web caller {ONE}\n# of ; the ; web site\n\nweb caller {TWO} ; ; {THREE}",
    ],
)
def test_one_line_may_have_several_tokens(text: str) -> None:
    assert read_tokens(text) == read_tokens(TEXT)


def test_a_token_may_have_any_signs_in_it() -> None:
    odd = [f"web caller {ONE};", f"web caller ;{TWO}#", f"#{THREE}"]
    found = [each.secret for each in read_tokens(" ; ".join(odd))]
    assert found == [f"{ONE};", f";{TWO}#", f"#{THREE}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# none\n\n", "there are no tokens"),
        (" ; ;", "there are no tokens"),
        (f"web {ONE}", "line 1 of the tokens has 2 words"),
        (
            f"web caller {ONE}; web caller {TWO}",
            "has 6 words; .* and ' ; ' between two in one line",
        ),
        (f"\nweb king {ONE}", "line 2 of the tokens has no role that there is; expected caller"),
        ("short", "can be guessed"),
    ],
)
def test_what_is_no_token_is_said_and_not_shown(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as refused:
        read_tokens(text)
    assert ONE not in str(refused.value)


def test_without_tokens_one_is_made_for_this_machine() -> None:
    one, other = admission(ServeConfig()), admission(ServeConfig())
    assert one.made is not None
    assert one.made != other.made
    assert [(each.secret, each.role) for each in one.tokens] == [(one.made, Role.OPERATOR)]


def test_given_tokens_are_not_shown_again() -> None:
    assert admission(ServeConfig(tokens=TEXT)).made is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "agents.example.org"])
def test_a_place_that_others_reach_needs_tokens(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"reached from outside.*AFL_SERVE_TOKENS_FILE"):
        admission(ServeConfig(host=host))
    assert admission(ServeConfig(host=host, tokens=ONE)).made is None
