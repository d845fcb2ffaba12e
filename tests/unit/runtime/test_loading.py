"""Where handlers are found, and what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from afl.errors import UsageError
from afl.runtime.loading import HandlerTable, handler, load_handlers

FACETS = ["shop.Charge", "shop.WriteNote", "mail.Send"]


@pytest.fixture(autouse=True)
def _unchanged_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, text: str, name: str = "handlers.py") -> str:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return str(path)


def answers(table: HandlerTable, facets: list[str] = FACETS) -> dict[str, object]:
    """What the handler of each facet returns."""
    found = {facet: table.handler_for(facet) for facet in facets}
    return {facet: each.call({}) for facet, each in found.items() if each is not None}


def test_functions_named_like_facets_are_handlers(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        def charge(payload): return 1
        def write_note(payload): return 2
        def Send(payload): return 3
        def helper(payload): return 4
        """,
    )
    table = load_handlers([source], FACETS)
    assert answers(table) == {"shop.Charge": 1, "shop.WriteNote": 2, "mail.Send": 3}
    assert table.names() == ["mail.Send", "shop.Charge", "shop.WriteNote"]


@pytest.mark.parametrize(
    ("facet", "name"),
    [("a.HTTPGet", "http_get"), ("a.GetURL", "get_url"), ("a.S3Put2", "s3_put2"), ("a.x", "x")],
)
def test_names_are_split_where_people_split_them(tmp_path: Path, facet: str, name: str) -> None:
    source = write(tmp_path, f"def {name}(payload): return 1\n")
    assert answers(load_handlers([source], [facet]), [facet]) == {facet: 1}


def test_a_table_wins_over_marks_and_those_over_names(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        import afl
        def charge(payload): return "by name"
        def write_note(payload): return "by name"
        def send(payload): return "by name"
        @afl.handler("shop.Charge")
        @afl.handler("shop.WriteNote")
        def marked(payload): return "by mark"
        HANDLERS = {"shop.Charge": lambda payload: "by table"}
        """,
    )
    assert answers(load_handlers([source], FACETS)) == {
        "shop.Charge": "by table",
        "shop.WriteNote": "by mark",
        "mail.Send": "by name",
    }


def test_a_mark_leaves_the_function_as_it_is() -> None:
    def function(payload: dict[str, int]) -> int:
        return payload["x"]

    assert handler("a.B")(function) is function


def test_short_names_in_a_table_serve_qualified_facets(tmp_path: Path) -> None:
    source = write(tmp_path, 'HANDLERS = {"Charge": lambda payload: 1}\n')
    assert answers(load_handlers([source], FACETS)) == {"shop.Charge": 1}


def test_in_one_table_an_exact_name_wins_over_a_short_one(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        HANDLERS = {"mail.Send": lambda payload: 1, "Send": lambda payload: 2}
        """,
    )
    facets = ["mail.Send", "sms.Send"]
    assert answers(load_handlers([source], facets), facets) == {"mail.Send": 1, "sms.Send": 2}


def test_one_function_in_two_sources_is_no_conflict(tmp_path: Path) -> None:
    text = """
        import afl
        @afl.handler("shop.Charge")
        def take_money(payload): return 1
        """
    write(tmp_path, text, "shared_by_two.py")
    source = write(tmp_path, "from shared_by_two import take_money\n")
    sys.path.insert(0, str(tmp_path))
    assert answers(load_handlers(["shared_by_two", source], FACETS)) == {"shop.Charge": 1}


def test_handle_alone_serves_whatever_nobody_else_does(tmp_path: Path) -> None:
    one = write(tmp_path, "def charge(payload): return 1\n", "one.py")
    rest = write(tmp_path, "def handle(payload): return 'rest'\n", "rest.py")
    assert answers(load_handlers([rest, one], FACETS)) == {
        "shop.Charge": 1,
        "shop.WriteNote": "rest",
        "mail.Send": "rest",
    }


def test_handle_beside_other_handlers_serves_nothing(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        def charge(payload): return 1
        def handle(payload): return 2
        """,
    )
    table = load_handlers([source], FACETS)
    assert table.missing(FACETS) == ["shop.WriteNote", "mail.Send"]


def test_imported_functions_are_no_handlers_by_name(tmp_path: Path) -> None:
    source = write(tmp_path, "from shutil import copy\n")
    assert load_handlers([source], ["files.Copy"]).names() == []


def test_a_name_that_fits_two_facets_must_be_marked(tmp_path: Path) -> None:
    source = write(tmp_path, "def send(payload): return 1\n")
    with pytest.raises(UsageError, match=r'mail.Send or sms.Send; .*@afl.handler\("mail.Send"\)'):
        load_handlers([source], ["mail.Send", "sms.Send"])


def test_two_sources_for_one_facet_are_an_error_that_names_both(tmp_path: Path) -> None:
    one = write(tmp_path, "def charge(payload): return 1\n", "one.py")
    two = write(tmp_path, 'HANDLERS = {"Charge": print}\n', "two.py")
    with pytest.raises(UsageError, match=r"two handlers serve shop.Charge: .*one.py.*two.py"):
        load_handlers([one, two], FACETS)


def test_two_that_serve_everything_are_an_error(tmp_path: Path) -> None:
    one = write(tmp_path, "def handle(payload): return 1\n", "one.py")
    two = write(tmp_path, "def handle(payload): return 2\n", "two.py")
    with pytest.raises(UsageError, match=r"two handlers serve shop.Charge: .*one.py.*two.py"):
        load_handlers([one, two], FACETS)


def test_two_marks_for_one_facet_are_an_error(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        import afl
        @afl.handler("shop.Charge")
        def one(payload): return 1
        @afl.handler("shop.Charge")
        def two(payload): return 2
        """,
    )
    with pytest.raises(UsageError, match=r"two handlers serve shop.Charge: .*: one and .*: two"):
        load_handlers([source], FACETS)


def test_modules_are_found_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_shop").mkdir()
    write(tmp_path / "some_shop", "def charge(payload): return 1\n", "billing.py")
    monkeypatch.chdir(tmp_path)
    assert answers(load_handlers(["some_shop.billing"], FACETS)) == {"shop.Charge": 1}


def test_a_file_imports_its_neighbours_and_takes_no_name(tmp_path: Path) -> None:
    write(tmp_path, "PRICE = 7\n", "neighbour_of_handlers.py")
    source = write(
        tmp_path,
        """
        from neighbour_of_handlers import PRICE
        def charge(payload): return PRICE
        """,
        "json.py",
    )
    assert answers(load_handlers([source], FACETS)) == {"shop.Charge": 7}
    assert sys.modules["json"].__file__ != source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "handlers cannot be loaded from .*: ZeroDivisionError: division by zero"),
        ("def (", "handlers cannot be loaded from .*: SyntaxError"),
        ("raise SystemExit(3)", "handlers cannot be loaded from .*: SystemExit: 3"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: .*nowhere_to_be_found"),
        ("HANDLERS = [1]", "HANDLERS is of type list; make it a dict"),
        ("HANDLERS = {'shop.Charge': 1}", r"HANDLERS\['shop.Charge'\] is of type int"),
    ],
)
def test_what_is_wrong_with_a_source_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_handlers([write(tmp_path, text + "\n")], FACETS)


def test_a_source_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no handler file"):
        load_handlers([str(tmp_path / "none.py")], FACETS)
    with pytest.raises(UsageError, match=r"there is no handler module no_such_place\.at_all"):
        load_handlers(["no_such_place.at_all"], FACETS)


def test_a_facet_without_a_namespace_is_not_for_a_handler_with_one(tmp_path: Path) -> None:
    """Claims do not know that either: the run would wait for ever."""
    source = write(tmp_path, "HANDLERS = {'shop.Pay': print}\n")
    assert load_handlers([source], ["Pay"]).missing(["Pay", "shop.Pay"]) == ["Pay"]


def test_a_short_name_beside_exact_ones_takes_the_rest(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """
        def one(payload): return 1
        def two(payload): return 2
        HANDLERS = {"a.Pay": one, "b.Pay": one, "Pay": two}
        """,
    )
    facets = ["a.Pay", "b.Pay", "c.Pay", "Pay"]
    table = load_handlers([source], facets)
    assert answers(table, facets) == {"a.Pay": 1, "b.Pay": 1, "c.Pay": 2, "Pay": 2}
