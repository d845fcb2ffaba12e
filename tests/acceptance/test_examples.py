"""The programs in `examples` are correct, tidy, and do what they say."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.conftest import Command
from tests.docs.pages import DOCS, ROOT, blocks_of, read

EXAMPLES = ROOT / "examples"
CHECKOUT = EXAMPLES / "checkout"
INBOX = EXAMPLES / "inbox"
PROGRAMS = sorted({each.parent for each in EXAMPLES.rglob("*.afl")})


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda each: each.name)
def test_a_program_has_no_problems_and_the_usual_layout(command: Command, folder: Path) -> None:
    assert command("check", "--strict", str(folder)).code == 0
    assert command("fmt", "--check", str(folder)).code == 0


def test_the_readme_shows_the_receipt_of_the_checkout(command: Command) -> None:
    order = f"@{CHECKOUT / 'order.json'}"
    done = command("run", str(CHECKOUT), "--workflow", "Checkout", "--inputs", order)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 3
    assert done.out in read(ROOT / "README.md")


DECLINED = """
from handlers import pack, refund, write_note


def charge(payload):
    raise ValueError("the card was declined")


HANDLERS = {"Charge": charge, "Refund": refund, "Pack": pack, "WriteNote": write_note}
"""


def test_a_checkout_that_cannot_be_paid_says_so(command: Command) -> None:
    """The catch reads nothing that only a payment would have given."""
    folder = command.folder / "shop"
    text = read(CHECKOUT / "checkout.afl").replace('backoff = "2s"', 'backoff = "0s"')
    command.write("shop/checkout.afl", text)
    command.write("shop/handlers.py", read(CHECKOUT / "handlers.py"))
    declined = command.write("shop/declined.py", DECLINED)
    order = f"@{CHECKOUT / 'order.json'}"
    done = command("run", str(folder), "--inputs", order, "--handlers", str(declined))
    assert done.code == 0, done.err
    assert "Sorry: the card was declined" in done.out


def test_every_letter_of_the_inbox_is_answered(command: Command) -> None:
    letters = f"@{INBOX / 'letters.json'}"
    done = command("run", str(INBOX), "--inputs", letters)
    assert done.code == 0, done.err
    assert done.out == 'replies  ["complaint-a1", "praise-b2", "unknown-c3"]\n'
    assert "To the boss: complaint, letter a1" in done.err
    assert "To the boss: unknown, letter c3" in done.err
    assert "letter b2" not in done.err


@pytest.mark.parametrize("url", ["memory:", "sqlite:///./counted.db"])
def test_the_engine_runs_inside_of_a_program(command: Command, url: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "embedded" / "worker.py"), url],
        cwd=command.folder,
        env=command.environ({}),
        capture_output=True,
        text=True,
        timeout=command.patience_s,
        check=False,
    )
    assert done.stdout == "{'words': [1, 2, 3]}\n", done.stderr
    assert done.returncode == 0


# The tutorial


@pytest.fixture
def letters(command: Command) -> str:
    """The files of the tutorial, as they are at its end, in the folder of the command."""
    for block in blocks_of(DOCS / "tutorial" / "first-workflow.md"):
        if block.file is not None:
            command.write(block.file, block.text)
    return "@letter.json"


def change_handlers(command: Command, old: str, new: str) -> None:
    text = read(command.folder / "handlers.py")
    assert old in text
    command.write("handlers.py", text.replace(old, new))


def names(lines: str, word: str) -> list[str]:
    """What a run tells as done or failed. A handler may print at the same moment, so that its
    line and one of ours are mixed."""
    return sorted(re.findall(rf"\b{word}: (\w+) \(", lines))


def test_the_workflow_of_the_tutorial_answers(command: Command, letters: str) -> None:
    done = command("run", ".", "--inputs", letters)
    assert done.code == 0, done.err
    assert done.out.startswith("id  letter-")
    assert "to Ada: We are sorry about a broken cup." in done.err
    assert names(done.err, "done") == ["called", "reply", "sent", "sorted"]


SENDING_TWICE = """
namespace letters

use office

workflow Twice() => (first: String, second: String) andThen {
    first = office.Send(to = "Ada", text = "Hello")
    second = office.Send(to = "Ada", text = "Hello again")
    yield Twice(first = first.id, second = second.id)
}
"""


def test_two_letters_of_one_run_have_two_ids(command: Command, letters: str) -> None:
    command.write("twice.afl", SENDING_TWICE)
    done = command("run", ".", "--workflow", "Twice", "--json")
    assert done.code == 0, done.err
    sent = json.loads(done.out)["outputs"]
    assert sent["first"] != sent["second"]


SLOWLY = """    print("writing")
    sleep(600)"""


def test_the_workflow_of_the_tutorial_goes_on_after_it_was_stopped(
    command: Command, letters: str
) -> None:
    change_handlers(command, "    sleep(SECONDS)", SLOWLY)
    stopped, told = stop_when_called(command, "run", ".", "--inputs", letters)
    assert stopped == 130
    *_, last = told.splitlines()
    words = last.partition("To go on: afl ")[2].split()
    change_handlers(command, SLOWLY, "    sleep(SECONDS)")
    done = command(*words)
    assert done.code == 0, done.err
    assert done.out.startswith("id  letter-")
    assert "called" not in done.err
    assert names(done.err, "done") == ["reply", "sent"]


def stop_when_called(command: Command, *args: str) -> tuple[int, str]:
    """Start a run, tell it twice to stop while a handler works; its code and what it said."""
    process = subprocess.Popen(
        command.line(*args),
        cwd=command.folder,
        env=command.environ({}),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stderr is not None
            told = list(until(process.stderr, "done: called", "writing"))
            process.send_signal(signal.SIGTERM)
            told += until(process.stderr, "Stopping: ")
            process.send_signal(signal.SIGTERM)
            told += process.stderr
            return process.wait(command.patience_s), "".join(told)
        finally:
            process.kill()


def until(lines: Iterator[str], *wanted: str) -> Iterator[str]:
    """The lines up to the one with which all that is wanted was said."""
    missing = set(wanted)
    for line in lines:
        yield line
        missing -= {each for each in missing if each in line}
        if not missing:
            return
    raise AssertionError(f"{missing} was never said")


def test_the_workflow_of_the_tutorial_catches_an_error(command: Command, letters: str) -> None:
    change_handlers(command, "    sleep(SECONDS)", '    raise ValueError("out of ink")')
    done = command("run", ".", "--inputs", letters)
    assert done.code == 0, done.err
    assert done.out.endswith("problem  out of ink\n")
    assert names(done.err, "failed") == ["reply", "sent"]
    assert "to Ada: We have your letter, but need more time." in done.err
