"""Sessions: what happened, in order and by type."""

from __future__ import annotations

from afl.agents.adapters.scripted import says
from afl.agents.model import ModelRequest, ToolCall, ToolResult, Usage
from afl.agents.session import ModelAnswered, Session, ToolUsed


def test_entries_are_found_by_their_type() -> None:
    session = Session()
    for each in ("a", 1, "b", 2):
        session.append(each)
    assert session.entries == ("a", 1, "b", 2)
    assert session[str] == ("a", "b")
    assert session.latest(int) == 2
    assert session.latest(float) is None
    assert len(session) == 4


def test_what_was_read_does_not_grow() -> None:
    session = Session()
    session.append("a")
    before, walk = session.entries, iter(session)
    session.append("b")
    assert before == ("a",)
    assert list(walk) == ["a"]


def test_a_session_counts_tokens_and_tools() -> None:
    session = Session(tags={"shop": "hats"})
    request = ModelRequest("claude", ())
    for _ in range(2):
        session.append(ModelAnswered(request, says("x", Usage(3, 4))))
    session.append(ToolUsed(ToolCall("1", "count", {}), ToolResult("1", "no", is_error=True)))
    assert session.usage == Usage(6, 8)
    assert [(each.name, each.is_error) for each in session.tool_uses] == [("count", True)]


def test_each_session_has_an_id_of_its_own() -> None:
    assert Session().session_id != Session().session_id
