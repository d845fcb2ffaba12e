"""The reference of the turn API is complete."""

from __future__ import annotations

import re

from tests.docs.pages import REFERENCE, read

from afl.gateway import Limits, Role
from afl.gateway.bodies import TurnBody
from afl.gateway.events import OTHERS, ROWS
from afl.gateway.problems import KINDS
from afl.gateway.routes import ROUTES

PAGE = read(REFERENCE / "turn-api.md")


def rows(title: str) -> list[list[str]]:
    """The cells of the tables of a section, without their heads."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [each.strip("|").split("|") for each in section.splitlines() if each.startswith("|")]
    return [[cell.strip() for cell in each] for each in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_route_and_field_is_there_and_no_other() -> None:
    found = {name for row in rows("Routes") for name in names(row[0])}
    assert found == {
        *(f"{each.method} {each.path}" for each in ROUTES),
        *TurnBody.__struct_fields__,
    }
    statuses = {names(row[0])[0]: row[1] for row in rows("Routes") if " /" in row[0]}
    assert all(
        str(each.status) in statuses[f"{each.method} {each.path}"].split(", ") for each in ROUTES
    )


def test_every_event_is_there_with_who_sees_it() -> None:
    shown = {names(row[0])[0]: row[1] for row in rows("Events") if names(row[0])}
    inside = {each.name for each in ROWS.values() if each.is_inside}
    all_names = {each.name for each in ROWS.values()} | set(OTHERS)
    assert shown == {each: "operators" if each in inside else "all" for each in all_names}


def test_every_problem_is_there_with_its_status() -> None:
    shown = {(row[0], names(row[1])[0]) for row in rows("Problems") if names(row[1])}
    assert shown == {(str(int(each.status)), each.name) for each in KINDS}


def test_every_role_and_limit_is_there() -> None:
    assert {names(row[0])[0] for row in rows("Roles") if names(row[0])} == set(Role)
    shown = {names(row[0])[0]: float(row[1]) for row in rows("Limits") if names(row[0])}
    assert shown == {name: float(getattr(Limits(), name)) for name in Limits.__dataclass_fields__}
