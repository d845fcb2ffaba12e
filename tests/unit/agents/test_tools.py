"""Functions as tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest

from afl.agents.errors import InvalidArguments
from afl.agents.tools import content_of, tool_of
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

    tool = tool_of(add, name="plus")
    assert tool.is_async
    assert tool.name == "plus"
    assert asyncio.run(tool.call({"a": 1, "b": 2})) == 3


def test_a_parameter_without_a_type_takes_anything() -> None:
    def show(value):  # type: ignore[no-untyped-def]
        return value

    assert tool_of(show).call({"value": [1, {"a": None}]}) == [1, {"a": None}]


def star(*names: str) -> None: ...
def stars(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def strange(value: complex) -> None: ...


@pytest.mark.parametrize("function", [star, stars, positional, strange])
def test_what_a_model_cannot_call_is_no_tool(function: Any) -> None:
    with pytest.raises(UsageError, match=f"the tool {function.__name__}|of the tool"):
        tool_of(function)


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
