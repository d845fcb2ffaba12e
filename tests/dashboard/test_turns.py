"""What of a turn is for whom: readers see each as its caller does, operators what is inside."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest
from tests.dashboard.conftest import (
    OPERATOR,
    READER,
    Site,
    csrf_of,
    first_parts,
    waiting_turns,
)
from tests.turns.secretive import INSIDE, SAID, secretive_turn

from afl.turns import SqliteTurns


@pytest.fixture
def turn_id(site: Site) -> str:
    with closing(SqliteTurns(site.mailboxes)) as store:
        return secretive_turn(store)


def _texts(site: Site, token: str, turn_id: str) -> dict[str, str]:
    """All that a visitor can see of a turn, by the path."""
    api, client = site.api(token), site.signed_in(token)
    pages = ("/turns", f"/turns/{turn_id}")
    return {
        **{f"/api{each}": _shown(api.get(f"/api{each}")) for each in pages},
        **{each: _shown(client.get(each)) for each in pages},
        **{f"live {each}": first_parts(client, each) for each in pages},
    }


def _shown(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


def test_readers_do_not_see_what_is_inside_of_a_turn(site: Site, turn_id: str) -> None:
    for path, text in _texts(site, READER, turn_id).items():
        assert [each for each in INSIDE if each in text] == [], path
        assert turn_id in text, path


def test_operators_see_what_is_inside_of_a_turn(site: Site, turn_id: str) -> None:
    found = _texts(site, OPERATOR, turn_id)
    for path in (f"/api/turns/{turn_id}", f"/turns/{turn_id}", f"live /turns/{turn_id}"):
        assert [each for each in INSIDE if each not in found[path]] == [], path
    for path in ("/api/turns", "/turns", "live /turns"):
        assert "fax-10" in found[path]


def test_readers_see_what_the_caller_of_a_turn_does(site: Site, turn_id: str) -> None:
    found = site.api(READER).get(f"/api/turns/{turn_id}").json()
    kinds = [each["kind"] for each in found["trace"]]
    assert kinds == [
        *("model", "tool_intent", "tool_done", "input_asked", "input_given"),
        *("tool_intent", "tool_unknown"),
    ]
    said = [each["value"] for each in found["trace"] if "value" in each]
    assert said[0]["text"] == SAID
    assert said[1]["question"] == "Which colour?"
    assert said[2] == {"is_given": True}
    assert [each["name"] for each in found["tool_results"]] == ["lookup"]
    assert [set(each) for each in found["pending"]] == [{"call_id", "name", "state"}]
    assert found["request"] == {"say": "my IBAN?"}
    page = site.signed_in(READER).get(f"/turns/{turn_id}").text
    assert SAID in page
    assert "an operator must say" in page


@pytest.mark.parametrize(("typed", "kept"), [("NaN", "NaN"), ("[1, 2]", [1, 2]), ("red", "red")])
def test_what_is_typed_as_an_answer_is_json_or_else_text(
    site: Site, typed: str, kept: object
) -> None:
    asking, _ = waiting_turns(site.mailboxes, "")
    client = site.signed_in()
    form = {"csrf": csrf_of(client.get(f"/turns/{asking}").text), "answer": typed}
    assert client.post(f"/turns/{asking}/answer", data=form).status_code == 303
    trace = site.api().get(f"/api/turns/{asking}").json()["trace"]
    assert [each["value"] for each in trace if each["kind"] == "input_given"] == [kept]
