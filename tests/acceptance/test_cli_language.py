"""`afl check`, `compile`, `fmt`, `graph` and `config`: exit codes, streams and files.

What programs mean is tested elsewhere.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.conftest import Command

import afl
from afl.errors import UsageError
from afl.lang.compiler import compile_input
from afl.lang.emitter import emit_json
from afl.lang.sources import CompilerInput, load_files
from afl.operations.programs import write_text

SHOP = """namespace shop {
    event facet Charge(sum: Long) => (id: String)

    workflow Checkout(sum: Long) => (id: String) andThen {
        paid = Charge(sum = $.sum)
        yield Checkout(id = paid.id)
    }
}
"""
UNTIDY = "// ripe\nfacet   Jam( fruit:String )"
TIDY = "// ripe\nfacet Jam(fruit: String)\n"
BROKEN = "facet Jam(fruit String)\n"
LOOSE = "workflow Cook() andThen { a = Peel() }\n"
WRONG = """workflow Cook(egg: String) => (dish: String) andThen {
    pan = Fry(egg = $.eg)
    yield Cook(dish = pan.dish)
}
"""


@pytest.fixture
def command(here: Command) -> Command:
    return here


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """For what only a process of its own can show."""
    return Command(tmp_path)


# The command itself


def test_the_version_is_printed(process: Command) -> None:
    result = process("--version")
    assert (result.code, result.out, result.err) == (0, f"afl {afl.__version__}\n", "")


def test_help_lists_the_commands(command: Command) -> None:
    result = command("--help")
    assert result.code == 0
    for name in ("check", "compile", "fmt", "graph", "config"):
        assert re.search(rf"^  {name}  ", result.out, re.M)


def test_an_unknown_option_is_a_wrong_request(command: Command) -> None:
    result = command("check", "--strikt", "shop.afl")
    assert (result.code, result.out) == (2, "")
    assert "No such option: --strikt" in result.err


def test_an_unknown_command_is_a_wrong_request_with_a_guess(command: Command) -> None:
    result = command("chek", "shop.afl")
    assert (result.code, result.out) == (2, "")
    assert "Did you mean 'check'?" in result.err


# check


def test_a_sound_folder_passes(command: Command) -> None:
    command.write("shop/main.afl", SHOP)
    command.write("shop/more/jam.afl", TIDY)
    result = command("check", "--strict", "shop")
    assert (result.code, result.out, result.err) == (0, "OK: 2 sources, 3 declarations\n", "")


def test_every_problem_is_shown_with_its_place_and_drawing(command: Command) -> None:
    command.write("cook.afl", WRONG)
    result = command("check", "cook.afl")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "cook.afl:2:11: warning[AFL213]: Facet 'Fry' is not declared\n"
        "     2 |     pan = Fry(egg = $.eg)\n"
        "       |           ^^^^^^^^^^^^^^^\n"
        "cook.afl:2:21: error[AFL220]: Invalid input reference '$.eg': "
        "workflow 'Cook' has no parameter 'eg'\n"
        "     2 |     pan = Fry(egg = $.eg)\n"
        "       |                     ^^^^\n"
        "       hint: did you mean 'egg'?\n"
        "1 error, 1 warning\n"
    )


def test_warnings_are_shown_and_pass(command: Command) -> None:
    result = command("check", "-", stdin=LOOSE)
    assert (result.code, result.out) == (0, "OK: 1 source, 1 declaration\n")
    assert result.err.startswith("<stdin>:1:31: warning[AFL213]: ")
    assert result.err.endswith("\n0 errors, 1 warning\n")


def test_strict_rejects_warnings(command: Command) -> None:
    result = command("check", "--strict", "-", stdin=LOOSE)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("<stdin>:1:31: error[AFL213]: ")


def test_strict_may_come_from_the_environment(command: Command) -> None:
    result = command("check", "-", stdin=LOOSE, environ={"AFL_LANGUAGE_STRICT": "true"})
    assert result.code == 1


def test_machines_get_json_and_nothing_else(command: Command) -> None:
    command.write("cook.afl", WRONG)
    result = command("check", "--json", "cook.afl")
    assert (result.code, result.err) == (1, "")
    answer = json.loads(result.out)
    assert answer["ok"] is False
    assert answer["sources"] == ["file://cook.afl"]
    assert answer["diagnostics"][1] == {
        "code": "AFL220",
        "severity": "error",
        "message": "Invalid input reference '$.eg': workflow 'Cook' has no parameter 'eg'",
        "hint": "did you mean 'egg'?",
        "source": "file://cook.afl",
        "line": 2,
        "column": 21,
        "endLine": 2,
        "endColumn": 25,
    }


def test_libraries_are_searched_for_what_is_used(command: Command) -> None:
    command.write("lib/deep/shop.afl", SHOP)
    command.write("lib/loose.afl", "namespace loose { workflow W() andThen { a = Gone() } }")
    command.write("main.afl", "namespace main { use shop use loose facet F() with shop.Charge() }")
    result = command("check", "--library", "lib", "main.afl")
    assert (result.code, result.out, result.err) == (0, "OK: 3 sources, 4 declarations\n", "")


def test_what_no_library_has_is_a_problem_of_the_program(command: Command) -> None:
    command.write("main.afl", "namespace main { use shop }")
    result = command("check", "main.afl")
    assert result.code == 1
    assert "error[AFL210]" in result.err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gone.afl", "Error: File not found: gone.afl\n"),
        ("empty", "Error: No .afl files in folder: empty\n"),
    ],
)
def test_a_path_without_afl_is_a_wrong_request(command: Command, path: str, message: str) -> None:
    command.write("empty/readme.md", "nothing")
    result = command("check", path)
    assert (result.code, result.out, result.err) == (2, "", message)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"facet A()\n \x89PNG\r\n", "photo.afl:2:2: error[AFL120]: This is not UTF-8 text"),
        (b"facet A()\n\x00\x00\x00", "photo.afl:2:1: error[AFL120]: This is not text"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(
    command: Command, content: bytes, place: str
) -> None:
    command.write("photo.afl", content)
    result = command("check", "photo.afl")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(place)


def test_a_file_that_cannot_be_read_is_a_wrong_request(command: Command) -> None:
    # Below a file there is nothing to read, for root neither.
    command.write("shop.afl", SHOP)
    result = command("check", "shop.afl/inner.afl")
    message = "Error: Cannot read shop.afl/inner.afl: Not a directory\n"
    assert (result.code, result.err) == (2, message)


# compile


def test_the_compiled_json_is_that_of_the_library(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.write("shop.afl", SHOP)
    monkeypatch.chdir(command.folder)
    program = compile_input(CompilerInput(load_files(["shop.afl"]))).require()
    result = command("compile", "shop.afl")
    assert (result.code, result.err) == (0, "")
    assert result.out == emit_json(program.tree) + "\n"


def test_compiled_json_can_go_to_a_file_without_places(command: Command) -> None:
    command.write("shop.afl", SHOP)
    command.write("note.afl", LOOSE)
    result = command(
        *("compile", "shop.afl", "note.afl", "--no-locations", "--compact", "-o", "out.json")
    )
    assert (result.code, result.out) == (0, "")
    assert "warning[AFL213]" in result.err
    text = (command.folder / "out.json").read_text("utf-8")
    assert text.count("\n") == 1
    assert '"location"' not in text
    assert [each["name"] for each in json.loads(text)["namespaces"]] == ["shop"]


def test_a_program_with_problems_leaves_the_old_output_alone(command: Command) -> None:
    command.write("cook.afl", WRONG)
    command.write("out.json", "old")
    result = command("compile", "cook.afl", "-o", "out.json")
    assert (result.code, result.out) == (1, "")
    assert (command.folder / "out.json").read_text("utf-8") == "old"


@pytest.mark.parametrize(
    ("output", "reason"), [("gone/out.json", "No such file or directory"), (".", "Is a directory")]
)
def test_output_that_cannot_be_written_is_a_wrong_request(
    command: Command, output: str, reason: str
) -> None:
    result = command("compile", "-", "-o", output, stdin=SHOP)
    assert (result.code, result.out) == (2, "")
    assert f"Error writing output: {output}: {reason}" in result.err
    assert list(command.folder.iterdir()) == []


def test_a_device_is_written_to_and_stays_one(process: Command) -> None:
    result = process("compile", "-", "--compact", "--output", "/dev/stdout", stdin=TIDY)
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["facets"][0]["name"] == "Jam"


def test_output_is_utf8_whatever_the_terminal_speaks(process: Command) -> None:
    text = 'facet Greet(to: String = "Zoë → 世界")\n'
    result = process("compile", "-", stdin=text, environ={"PYTHONIOENCODING": "ascii"})
    assert (result.code, result.err) == (0, "")
    assert "Zoë → 世界" in result.out


def test_a_reader_that_leaves_early_is_no_reason_to_complain(command: Command) -> None:
    command.write("shop.afl", SHOP)
    process = subprocess.Popen(
        command.line("compile", "shop.afl"),
        cwd=command.folder,
        env=command.environ({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        # Closed before the program is compiled: its first word meets a broken pipe.
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.wait(command.patience_s)


# fmt


def test_files_are_formatted_in_place_with_their_rights(command: Command) -> None:
    untidy, tidy = command.write("a.afl", UNTIDY), command.write("b.afl", TIDY)
    untidy.chmod(0o640)
    before = tidy.stat()
    result = command("fmt", ".")
    assert (result.code, result.out, result.err) == (0, "", "formatted a.afl\n")
    assert untidy.read_text("utf-8") == TIDY
    assert untidy.stat().st_mode & 0o777 == 0o640
    assert tidy.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(each.name for each in command.folder.iterdir()) == ["a.afl", "b.afl"]


def test_a_write_that_fails_half_way_leaves_the_old_text_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "a.afl"
    file.write_text(UNTIDY, "utf-8")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"Error writing output: .*No space left on device"):
        write_text(file, TIDY)
    assert file.read_text("utf-8") == UNTIDY
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link_when_its_file_is_formatted(command: Command) -> None:
    real, link = command.write("real/jam.afl", UNTIDY), command.folder / "link.afl"
    link.symlink_to(real)
    assert command("fmt", "link.afl").code == 0
    assert link.is_symlink()
    assert real.read_text("utf-8") == TIDY


def test_checking_the_layout_changes_nothing(command: Command) -> None:
    untidy = command.write("a.afl", UNTIDY)
    command.write("b.afl", TIDY)
    result = command("fmt", "--check", "a.afl", "b.afl")
    assert (result.code, result.out, result.err) == (1, "", "would change a.afl\n")
    assert untidy.read_text("utf-8") == UNTIDY


def test_a_tidy_file_passes_the_check_of_the_layout(command: Command) -> None:
    command.write("b.afl", TIDY)
    result = command("fmt", "--check", "b.afl")
    assert (result.code, result.out, result.err) == (0, "OK: 1 file\n", "")


def test_a_broken_file_is_left_alone_and_others_are_formatted(command: Command) -> None:
    broken, untidy = command.write("a.afl", BROKEN), command.write("b.afl", UNTIDY)
    result = command("fmt", "a.afl", "b.afl")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("a.afl:1:17: error[AFL101]: ")
    assert "formatted b.afl\n" in result.err
    assert broken.read_text("utf-8") == BROKEN
    assert untidy.read_text("utf-8") == TIDY


def test_standard_input_is_formatted_to_standard_output(command: Command) -> None:
    result = command("fmt", "-", stdin=UNTIDY)
    assert (result.code, result.out, result.err) == (0, TIDY, "")


# graph


def test_a_workflow_is_drawn_as_text(command: Command) -> None:
    command.write("shop.afl", SHOP)
    result = command("graph", "shop.afl", "--format", "mermaid")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("\n")
    assert "paid" in result.out
    assert "flowchart" in result.out


def test_a_workflow_is_drawn_as_a_picture_in_a_file(command: Command) -> None:
    command.write("shop.afl", SHOP)
    result = command("graph", "shop.afl", "--workflow", "shop.Checkout", "-o", "shop.svg")
    assert (result.code, result.out, result.err) == (0, "", "")
    picture = (command.folder / "shop.svg").read_text("utf-8")
    assert picture.lstrip().startswith("<svg") or "<svg" in picture[:200]
    assert picture.endswith("</svg>\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workflow", "Refil"), "there is no workflow 'Refil'; did you mean 'Refill'?"),
        (("--workflow", "Close"), "workflow 'Close' is ambiguous: it could be a.Close, b.Close"),
        ((), "say which workflow with --workflow: a.Close, a.Refill, b.Close"),
        (("--workflow", "Refill", "--format", "crayon"), "unknown format 'crayon'"),
    ],
)
def test_a_drawing_that_cannot_be_is_a_wrong_request(
    command: Command, options: tuple[str, ...], message: str
) -> None:
    text = (
        "namespace a { workflow Close() andThen { } workflow Refill() andThen { } }"
        "namespace b { workflow Close() andThen { } }"
    )
    result = command("graph", "-", *options, stdin=text)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {message}")


def test_a_program_with_errors_is_not_drawn(command: Command) -> None:
    result = command("graph", "-", stdin=WRONG)
    assert (result.code, result.out) == (1, "")
    assert "<stdin>:2:21: error[AFL220]" in result.err


# config


def test_settings_are_shown_with_their_origin(command: Command) -> None:
    command.write("afl.toml", '[language]\nlibrary_paths = ["lib"]\n')
    result = command("config", "show", "--json", environ={"AFL_LOG_LEVEL": "debug"})
    assert result.code == 0
    shown = {each["name"]: (each["value"], each["origin"]) for each in json.loads(result.out)}
    assert shown["language.library_paths"] == (["lib"], "afl.toml key language.library_paths")
    assert shown["log.level"] == ("debug", "environment AFL_LOG_LEVEL")
    assert shown["language.strict"] == (False, "default")


def test_settings_that_cannot_be_are_all_refused_at_once(command: Command) -> None:
    command.write("afl.toml", "[language]\nstrickt = true\n")
    result = command("check", "-", stdin=TIDY, environ={"AFL_LOG_LEVEL": "loud"})
    assert (result.code, result.out) == (2, "")
    assert "language.strickt" in result.err
    assert "AFL_LOG_LEVEL" in result.err
