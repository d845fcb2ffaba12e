"""The words that a model is asked with."""

from __future__ import annotations

import pytest

from afl.runtime.agent.prompts import fill, parameters_of, usual_prompt, usual_system, with_task

VALUES = {"name": "Ada", "n": 3, "list": [1, "ä"], "none": None}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Hello {name}", "Hello Ada"),
        ("{n} times {list}", '3 times [1, "ä"]'),
        ("{none}", "null"),
        ("{{name}} is {name}", "{name} is Ada"),
        ("{{{name}}}", "{Ada}"),
        ("{unknown} stays", "{unknown} stays"),
        ('{"json": {n}}', '{"json": 3}'),
        ("{ name }", "{ name }"),
        ("", ""),
    ],
)
def test_a_template_is_filled(template: str, expected: str) -> None:
    assert fill(template, VALUES) == expected


def test_a_value_is_never_taken_for_a_placeholder() -> None:
    assert fill("{a}{b}", {"a": "{b}", "b": "{{a}}"}) == "{b}{{a}}"


def test_what_the_runtime_adds_to_a_payload_is_no_parameter() -> None:
    assert parameters_of({"a": 1, "_facet_name": "F", "_handler_metadata": {}}) == {"a": 1}


def test_a_step_without_a_prompt_is_described() -> None:
    assert usual_prompt("shop.Pay", {"amount": 5}) == "Step: shop.Pay\nParameters:\n- amount: 5"
    assert usual_prompt("shop.Pay", {}) == "Step: shop.Pay"
    assert usual_prompt("", {}) == "There are no parameters."
    assert "of the workflow shop.Buy" in usual_system("shop.Buy")


def test_the_task_of_the_run_follows_the_system_text() -> None:
    assert with_task("You pay.", None) == "You pay."
    assert with_task("You pay.", "Save money.").endswith("a part of: Save money.")
