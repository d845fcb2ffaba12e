"""Names of tools."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from afl.mcp.naming import free_name, tool_names

_PART = st.text("abAB_é1", min_size=1, max_size=30)
_NAMES = st.lists(st.lists(_PART, min_size=1, max_size=4).map(".".join), unique=True, max_size=12)


@given(_NAMES, st.sets(_PART, max_size=3))
def test_each_workflow_has_one_name_that_models_accept(
    workflows: list[str], taken: set[str]
) -> None:
    names = tool_names(workflows, taken)
    assert sorted(names.values()) == sorted(workflows)
    assert not taken & set(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in names)
    assert tool_names(list(reversed(workflows)), taken) == names


def test_a_name_is_short_if_it_is_alone_and_else_has_its_namespace() -> None:
    assert tool_names(["shop.Pay", "shop.Send", "post.Send", "Top"]) == {
        "Pay": "shop.Pay",
        "shop_Send": "shop.Send",
        "post_Send": "post.Send",
        "Top": "Top",
    }


def test_a_tool_of_ours_keeps_its_name() -> None:
    assert tool_names(["x.afl_runs"], ["afl_runs"]) == {"x_afl_runs": "x.afl_runs"}


def test_an_argument_of_ours_makes_way() -> None:
    assert free_name("wait", ["other"]) == "wait"
    assert free_name("wait", ["wait", "afl_wait"]) == "afl_afl_wait"
