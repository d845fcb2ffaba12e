"""`afl eval` as people and pipelines use it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Command
from tests.loops.office import PATIENCE_S, eventually

from afl.ids import new_id

AGENT = """\
import subprocess
from dataclasses import dataclass
from pathlib import Path

from afl.clock import SYSTEM_CLOCK
from afl.evals import Score
from afl.loops import AgentLoop, Prompt, Session
from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.mailbox import InMemoryMailbox


def capitals(text: str) -> str:
    print("on its way")
    subprocess.run(["echo", "by a program"], check=True)
    if text == "boom":
        raise ValueError("cannot")
    return text.upper()


loop = AgentLoop.from_function(capitals, requests=InMemoryMailbox())


@dataclass
class Question:
    text: str


def ask(question: Question) -> str:
    return question.text.upper()


class Variant(AgentLoop[Question, str]):
    def __init__(self) -> None:
        adapter = ScriptedAdapter(default=lambda request: says(request.messages[0].parts[0].text))
        super().__init__(adapter=adapter, requests=InMemoryMailbox())

    def prepare(self, request: Question, *, experiment=None):
        word = experiment.get_flag("word", "nothing")
        return Prompt(f"{request.text} {word} {experiment.overrides_tag}"), Session()


def ledger(text: str) -> str:
    with open("ledger", "a") as file:
        file.write(text + "\\n")
    while text == "d" and not Path("go").exists():
        SYSTEM_CLOCK.sleep(0.01)
    return text.upper()


def is_short(output, expected):
    return Score(1.0 if len(output) < 2 else 0.5, len(output) < 2, f"{len(output)} letters")
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    made = Command(tmp_path)
    made.write("agent.py", AGENT)
    made.write("cases.jsonl", cases(a="A", b="B", c="C", d="D", e="E", f="F"))
    return made


def cases(**expected: Any) -> str:
    lines = [{"id": each, "input": each, "expected": value} for each, value in expected.items()]
    return "".join(json.dumps(each) + "\n" for each in lines)


def evaluated(command: Command, *args: str, agent: str = "agent:loop") -> Any:
    done = command("eval", "cases.jsonl", "--agent", agent, "--json", *args)
    assert done.code in (0, 1), done.err
    return json.loads(done.out)


def passed(report: Any) -> dict[str, bool]:
    return {each["sample_id"]: each["score"]["passed"] for each in report["results"]}


def test_the_table_says_how_good_an_agent_is(command: Command) -> None:
    command.write("cases.jsonl", cases(a="A", b="x", boom="BOOM", c="C"))
    done = command("eval", "cases.jsonl", "--agent", "agent:loop", "--name", "first")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if line]
    assert lines[0] == ["evaluation", "first"]
    assert lines[2][:5] == ["baseline", "2", "of", "4", "50.0%"]
    assert 'b       baseline    failed  expected "x", got "B"' in done.out
    assert "boom    baseline    error   cannot" in done.out
    assert "passed: a (baseline)" in done.err
    for each in ("on its way\n", "by a program\n"):
        assert (each in done.out, each in done.err) == (False, True)


def test_machines_get_json_alone(command: Command) -> None:
    report = evaluated(command, "--name", "first")
    assert report["evaluation"] == "first"
    assert passed(report) == dict.fromkeys("abcdef", True)
    (numbers,) = report["experiments"]
    assert (numbers["name"], numbers["samples"], numbers["pass_rate"]) == ("baseline", 6, 1.0)
    low, high = numbers["pass_rate_interval"]
    assert 0.5 < low < high == 1.0


def test_inputs_have_the_type_that_the_agent_takes(command: Command) -> None:
    command.write("cases.jsonl", '{"id": "1", "input": {"text": "a"}, "expected": "A"}\n')
    assert passed(evaluated(command, agent="agent:ask")) == {"1": True}
    command.write("cases.jsonl", '\n{"id": "1", "input": {"txt": "a"}, "expected": "A"}\n')
    done = command("eval", "cases.jsonl", "--agent", "agent:ask")
    assert done.code == 2
    assert "cases.jsonl:2: Object missing required field `text` - at `$.input`" in done.err


def test_an_evaluator_of_ones_own(command: Command) -> None:
    report = evaluated(command, "--evaluator", "agent:is_short")
    assert report["results"][0]["score"] == {"value": 1.0, "passed": True, "reason": "1 letters"}


def test_experiments_are_tried_and_compared(command: Command) -> None:
    lines = [{"id": str(n), "input": {"text": "a"}, "expected": "a yes v2"} for n in range(6)]
    command.write("cases.jsonl", "\n".join(map(json.dumps, lines)))
    args = ("--experiment", "old", "--experiment", "new@v2,word=yes", "--baseline", "old")
    report = evaluated(command, *args, agent="agent:Variant")
    rates = {each["name"]: each["pass_rate"] for each in report["experiments"]}
    assert rates == {"old": 0.0, "new": 1.0}
    (comparison,) = report["comparisons"]
    assert (comparison["baseline"], comparison["experiment"]) == ("old", "new")
    assert comparison["pass_rate_delta"] == 1.0
    assert comparison["p_value"] == 0.03125
    assert comparison["is_significant"] is True
    done = command("eval", "cases.jsonl", "--agent", "agent:Variant", *args)
    assert "6        +100.0%  6         0         0.031  better" in done.out
    assert "Not compared" not in done.out


def test_an_evaluation_is_compared_with_a_file_and_with_another_one(command: Command) -> None:
    before = command("eval", "cases.jsonl", "--agent", "agent:loop", "--json", "--name", "old")
    command.write("old.json", before.out)
    command.write("cases.jsonl", cases(a="A", b="B", c="x", d="D", e="E", f="F"))
    for baseline in ("old.json", "old"):
        report = evaluated(command, "--baseline", baseline)
        (comparison,) = report["comparisons"]
        assert comparison["worsened"] == ["c"]
        assert comparison["is_significant"] is False


def test_a_comparison_says_how_many_samples_it_is_about(command: Command) -> None:
    command.write("cases.jsonl", cases(a="A", b="B", c="C"))
    evaluated(command, "--name", "old")
    command.write("cases.jsonl", cases(c="C", d="D"))
    done = command("eval", "cases.jsonl", "--agent", "agent:loop", "--baseline", "old")
    lines = [line.split() for line in done.out.splitlines()]
    assert ["old", "baseline", "1", "+0.0%", "0", "0", "1.000", "may", "be", "chance"] in lines
    assert "Not compared: 3 samples that only old or only baseline has." in done.out


def test_a_baseline_that_nothing_can_be_compared_with_is_refused_before_the_work(
    command: Command,
) -> None:
    evaluated(command, "--name", "old")
    command.write("cases.jsonl", cases(x="X"))
    done = command("eval", "cases.jsonl", "--agent", "agent:loop", "--baseline", "old")
    assert (done.code, "on its way" in done.err) == (2, False)
    assert "old and baseline have no samples in common" in done.err


def test_the_results_of_one_agent_are_not_shown_as_those_of_another(command: Command) -> None:
    command.write("go", "")
    evaluated(command, "--name", "one")
    for args, words in (
        (("--agent", "agent:ledger"), "has results with the agent agent:loop"),
        (("--agent", "agent:loop", "--evaluator", "contains"), "with the evaluator exact_match"),
    ):
        done = command("eval", "cases.jsonl", "--name", "one", *args)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
        assert "give another --name to evaluate with" in done.err
    assert len(evaluated(command, "--name", "one")["results"]) == 6


@pytest.mark.parametrize(("least", "code"), [("0.5", 0), ("0.51", 1)])
def test_too_few_samples_that_pass_are_a_failure(command: Command, least: str, code: int) -> None:
    command.write("cases.jsonl", cases(a="A", b="x"))
    done = command("eval", "cases.jsonl", "--agent", "agent:loop", "--min-pass-rate", least)
    assert done.code == code
    assert ("baseline: 50.0% passed, less than 51.0%" in done.err) is bool(code)


def test_an_agent_that_crashes_does_not_reach_the_rate(command: Command) -> None:
    command.write("cases.jsonl", cases(a="A", boom="BOOM"))
    done = command("eval", "cases.jsonl", "--agent", "agent:loop", "--min-pass-rate", "0.9")
    assert done.code == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["cases.jsonl", "--agent", "nowhere:loop"], "No module named 'nowhere'"),
        (["none.jsonl", "--agent", "agent:loop"], "none.jsonl cannot be read"),
        (["cases.jsonl", "--agent", "agent:loop", "--baseline", "old"], "no baseline 'old'"),
    ],
)
def test_a_wrong_request_is_found_before_anything_starts(
    command: Command, args: list[str], words: str
) -> None:
    done = command("eval", *args)
    assert done.code == 2
    assert words in done.err
    assert "on its way" not in done.err


# Interrupted evaluations


class Interrupted:
    """An evaluation whose fourth sample does not end."""

    def __init__(self, command: Command, name: str = "long") -> None:
        self.command = command
        self.args = ("eval", "cases.jsonl", "--agent", "agent:ledger", "--name", name)
        self.process = subprocess.Popen(
            command.line(*self.args, "--concurrency", "1"),
            cwd=command.folder,
            env=command.environ({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        eventually(lambda: self.begun[-1:] == ["d"])

    @property
    def begun(self) -> list[str]:
        path = self.command.folder / "ledger"
        return path.read_text().split() if path.exists() else []

    def go(self) -> None:
        self.command.write("go", "")

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, err.decode()

    def again(self) -> Any:
        self.go()
        done = self.command(*self.args, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)


def test_samples_with_a_result_are_not_done_again_after_a_kill(command: Command) -> None:
    evaluation = Interrupted(command)
    evaluation.process.kill()
    evaluation.end()
    assert passed(evaluation.again()) == dict.fromkeys("abcdef", True)
    assert sorted(evaluation.begun) == sorted("abcd" + "def")


def test_the_first_signal_lets_the_sample_in_hand_end(command: Command) -> None:
    evaluation = Interrupted(command)
    evaluation.process.send_signal(signal.SIGTERM)
    assert evaluation.process.stderr is not None
    while b"Stopping: waiting for 1 sample" not in evaluation.process.stderr.readline():
        assert evaluation.process.poll() is None
    evaluation.go()
    code, err = evaluation.end()
    assert code == 130
    assert "give the same command with --name long" in err
    assert passed(evaluation.again()) == dict.fromkeys("abcdef", True)
    assert sorted(evaluation.begun) == sorted("abcdef")


def test_the_second_signal_gives_the_sample_up(command: Command) -> None:
    evaluation = Interrupted(command)
    evaluation.process.send_signal(signal.SIGINT)
    assert evaluation.process.stderr is not None
    while b"Stopping: waiting for 1 sample" not in evaluation.process.stderr.readline():
        assert evaluation.process.poll() is None
    evaluation.process.send_signal(signal.SIGINT)
    code, _ = evaluation.end()
    assert code == 130
    assert passed(evaluation.again()) == dict.fromkeys("abcdef", True)
    assert sorted(evaluation.begun) == sorted("abcd" + "def")


def test_an_evaluation_that_is_complete_is_only_shown_again(command: Command) -> None:
    command.write("go", "")
    first = evaluated(command, "--name", "one", agent="agent:ledger")
    again = evaluated(command, "--name", "one", agent="agent:ledger")
    assert again == first
    assert len((command.folder / "ledger").read_text().split()) == 6


def test_errors_are_tried_again_for_who_asks(command: Command) -> None:
    command.write("cases.jsonl", cases(a="A", boom="BOOM"))
    assert evaluated(command, "--name", "one")["experiments"][0]["errors"] == 1
    command.write("agent.py", AGENT.replace('text == "boom"', "False"))
    assert evaluated(command, "--name", "one")["experiments"][0]["errors"] == 1
    report = evaluated(command, "--name", "one", "--retry-errors")
    assert report["experiments"][0]["errors"] == 0


def test_results_may_be_kept_elsewhere(command: Command, redis_url: str) -> None:
    name = new_id()
    command.write("go", "")
    for _ in range(2):
        args = ("--name", name, "--store", redis_url)
        assert len(evaluated(command, *args, agent="agent:ledger")["results"]) == 6
    assert len((command.folder / "ledger").read_text().split()) == 6
