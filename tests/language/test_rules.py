"""Golden problems: `rules/NAME.afl` has exactly the problems that `rules/NAME.errors.txt` draws.

- `CODE_*` shows one problem in each of its forms, next to code that must not be reported.
- `valid_*` has no problems and no file of them.
- `wild_*` is loose but runs: it has warnings and nothing worse.

The goldens are examined as well: without any one rule, or any one code, some golden must fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from afl.lang.codes import ALL_CODES, Severity
from afl.lang.diagnostics import Diagnostic, render
from afl.lang.names import Names
from afl.lang.parser import parse_text
from afl.lang.validation import RULES, check, validate
from afl.lang.validation.rule import Rule

FOLDER = Path(__file__).parent / "rules"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.afl"))
FAULTY = [name for name in PROGRAMS if name.startswith("AFL")]
VALID = [name for name in PROGRAMS if name.startswith("valid_")]
WILD = [name for name in PROGRAMS if name.startswith("wild_")]

#: The codes of names and rules; those of the text are the parser's.
CHECKED_CODES = sorted(code for code in ALL_CODES if code >= "AFL2")


@cache
def text(name: str) -> str:
    return (FOLDER / f"{name}.afl").read_text("utf-8")


@cache
def expected(name: str) -> str:
    golden = FOLDER / f"{name}.errors.txt"
    return golden.read_text("utf-8") if golden.exists() else ""


@cache
def names_of(name: str) -> Names:
    parsed = parse_text(text(name), f"{name}.afl")
    assert parsed.tree is not None
    assert parsed.problems == []
    return Names(parsed.tree)


def problems_of(name: str, rules: Sequence[Rule] = RULES) -> list[Diagnostic]:
    return check(names_of(name), rules=rules).diagnostics


def drawn(name: str, problems: Iterable[Diagnostic]) -> str:
    texts = {f"{name}.afl": text(name)}
    return "".join(render(each, texts) + "\n" for each in problems)


@pytest.mark.parametrize("name", FAULTY + WILD)
def test_a_program_has_exactly_the_problems_of_its_golden(name: str) -> None:
    assert drawn(name, problems_of(name)) == expected(name)


@pytest.mark.parametrize("name", VALID)
def test_nothing_is_said_about_a_valid_program(name: str) -> None:
    assert drawn(name, problems_of(name)) == ""


@pytest.mark.parametrize("name", WILD)
def test_loose_programs_are_warned_about_and_accepted(name: str) -> None:
    result = check(names_of(name))
    assert result.is_valid
    assert result.warnings


@pytest.mark.parametrize("name", PROGRAMS)
def test_strict_makes_errors_of_warnings_and_changes_nothing_else(name: str) -> None:
    relaxed, strict = problems_of(name), validate(names_of(name).program, strict=True)
    assert strict.diagnostics == [each.as_error() for each in relaxed]
    assert strict.is_valid == (not relaxed)
    assert strict.warnings == []


@pytest.mark.parametrize("name", FAULTY)
def test_a_golden_shows_the_problem_it_is_named_after(name: str) -> None:
    code, _, slug = name.partition("_")
    assert slug
    assert code in {each.code for each in problems_of(name)}


@pytest.mark.parametrize("name", FAULTY)
def test_the_severity_of_a_problem_is_that_of_its_code(name: str) -> None:
    for each in problems_of(name):
        assert each.severity is ALL_CODES[each.code].severity


def test_every_golden_belongs_to_a_program() -> None:
    goldens = {path.name.removesuffix(".errors.txt") for path in FOLDER.glob("*.errors.txt")}
    assert goldens == {*FAULTY, *WILD}
    assert set(PROGRAMS) == goldens | set(VALID)


# The goldens themselves


def fails_without(rules: Sequence[Rule]) -> bool:
    return any(drawn(name, problems_of(name, rules)) != expected(name) for name in PROGRAMS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_some_golden_fails_without_a_rule(rule: Rule) -> None:
    assert fails_without([each for each in RULES if each is not rule])


@pytest.mark.parametrize("code", CHECKED_CODES)
def test_some_golden_fails_without_a_code(code: str) -> None:
    def rest(name: str) -> list[Diagnostic]:
        return [each for each in problems_of(name) if each.code != code]

    assert any(drawn(name, rest(name)) != expected(name) for name in PROGRAMS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_reports_the_codes_it_lists_and_no_others(rule: Rule) -> None:
    reported = {each.code for name in PROGRAMS for each in problems_of(name, [rule])}
    assert reported == {code.id for code in rule.codes}


def test_every_code_of_names_and_rules_belongs_to_a_rule() -> None:
    assert sorted({code.id for rule in RULES for code in rule.codes}) == CHECKED_CODES


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_errors_and_warnings_are_both_among_the_codes() -> None:
    assert {ALL_CODES[code].severity for code in CHECKED_CODES} == set(Severity)
