"""Functions as tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated, Any

import pytest

from afl.agents.errors import InvalidArguments
from afl.agents.tools import content_of, tool, tool_of
from afl.errors import UsageError


@dataclass
class Filter:
    tag: str
    newest_first: bool = True


def search(
    query: Annotated[str, "what to look for"],
    filters: list[Filter],
    limit: int = 10,
    *,
    since: date | None = None,
) -> list[Any]:
    """Finds documents.

    Newest first.
    """
    return [query, filters, limit, since]


def test_name_description_and_schema_come_from_the_function() -> None:
    spec = tool_of(search).spec
    assert spec.name == "search"
    assert spec.description == "Finds documents.\n\nNewest first."
    assert spec.schema["required"] == ["query", "filters"]
    properties = spec.schema["properties"]
    assert properties["query"] == {"type": "string", "description": "what to look for"}
    assert properties["limit"] == {"type": "integer", "default": 10}
    assert properties["filters"]["items"] == {"$ref": "#/$defs/Filter"}
    assert spec.schema["$defs"]["Filter"]["required"] == ["tag"]


def test_a_call_gets_arguments_of_the_declared_types() -> None:
    found = tool_of(search).call({"query": "q", "filters": [{"tag": "t"}], "since": "2024-02-29"})
    assert found == ["q", [Filter("t")], 10, date(2024, 2, 29)]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": 1, "filters": []}, {"query": "q", "filters": [{}]}, "query", None],
)
def test_arguments_that_do_not_fit_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidArguments):
        tool_of(search).call(arguments)


def test_a_coroutine_function_is_awaited_by_the_caller() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    plus = tool_of(add, name="plus")
    assert plus.is_async
    assert plus.name == "plus"
    assert asyncio.run(plus.call({"a": 1, "b": 2})) == 3


def test_a_parameter_without_a_type_takes_anything() -> None:
    def show(value):  # type: ignore[no-untyped-def]
        return value

    assert tool_of(show).call({"value": [1, {"a": None}]}) == [1, {"a": None}]


class Bell:
    """Rings."""

    def __call__(self, times: Annotated[int, "how often"], tone: str = "low") -> str:
        return f"{tone} {times}"


def test_an_object_that_can_be_called_is_a_tool() -> None:
    bell = tool_of(Bell(), name="ring")
    assert bell.spec.description == "Rings."
    times = {"type": "integer", "description": "how often"}
    assert bell.spec.schema["properties"]["times"] == times
    assert bell.call({"times": 2}) == "low 2"


@tool(idempotent=True)
def charge(customer: str, amount: int, note: str = "") -> list[Any]:
    """Charge a customer."""
    return [customer, amount, note]


@pytest.mark.parametrize(
    "bound", [partial(charge, "ann"), partial(charge, customer="ann")], ids=["by place", "by name"]
)
def test_what_is_given_beforehand_is_not_for_the_model(bound: Any) -> None:
    made = tool_of(bound)
    assert (made.name, made.spec.description) == ("charge", "Charge a customer.")
    assert list(made.spec.schema["properties"]) == ["amount", "note"]
    assert made.call({"amount": 3, "customer": "bob"}) == ["ann", 3, ""]
    assert made.policy.idempotent


def test_what_is_given_beforehand_need_not_be_json() -> None:
    def find(place: object, what: str) -> bool:
        return place is here and bool(what)

    here = object()
    assert tool_of(partial(find, place=here), name="find").call({"what": "it"}) is True


def star(*names: str) -> None: ...
def stars(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def strange(value: complex) -> None: ...
def unknown(value: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821
def broken(value: "no type") -> None: ...  # type: ignore[valid-type] # noqa: F722


@pytest.mark.parametrize("function", [star, stars, positional, strange, unknown, broken])
def test_what_a_model_cannot_call_is_no_tool(function: Any) -> None:
    with pytest.raises(UsageError, match=f"the tool {function.__name__}|of the tool"):
        tool_of(function)


@pytest.mark.parametrize("thing", [max, 5], ids=repr)
def test_what_says_nothing_about_its_parameters_is_no_tool(thing: Any) -> None:
    with pytest.raises(UsageError, match="of the tool odd are not known"):
        tool_of(thing, name="odd")


def test_what_has_no_name_needs_one() -> None:
    with pytest.raises(UsageError, match="give it one with name="):
        tool_of(Bell())


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 65, "a.b"])
def test_a_tool_has_a_name_that_services_take(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a tool"):
        tool_of(search, name=name)


def test_a_model_reads_results_as_text_or_json() -> None:
    assert content_of("as it is") == "as it is"
    assert content_of({"a": [1, None]}) == '{"a":[1,null]}'
    assert content_of(Filter("t")) == '{"tag":"t","newest_first":true}'
    assert content_of(None) == "null"
    assert content_of(1j) == "1j"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("half \ud83d of it", "half \\ud83d of it"),
        (["\udcff.txt"], "['\\udcff.txt']"),
        (circle(), "[[...]]"),
        (Mute(), "a Mute, which cannot be written as text"),
    ],
    ids=["text", "list", "circle", "mute"],
)
def test_whatever_a_tool_returned_a_model_can_read_something(result: Any, told: str) -> None:
    assert content_of(result) == told
