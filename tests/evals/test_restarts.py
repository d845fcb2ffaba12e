"""Processes that evaluate are killed and replaced: every sample has one result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.evals.scene import dataset_of
from tests.loops.office import PATIENCE_S

import afl
from afl.evals import (
    BASELINE,
    EvalRequest,
    EvalResult,
    collect_results,
    open_results,
    submit_dataset,
)
from afl.ids import new_id
from afl.mailbox import open_mailbox

ROOT = Path(__file__).parents[2]
SAMPLES = ["a", "b", "c", "stuck", "d", "e", "f"]


class Process:
    def __init__(self, url: str, name: str, manner: str) -> None:
        environ = {**os.environ, "PYTHONPATH": f"{Path(afl.__file__).parents[1]}:{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.evals.eval_process", url, name, manner],
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=ROOT,
        )
        self.begun: list[str] = []

    def wait_until_begun(self, sample: str) -> None:
        assert self._process.stdout is not None
        while self.begun[-1:] != [sample]:
            line = self._process.stdout.readline()
            assert line, f"it ended: {self.begun}"
            self.begun.append(line.strip())

    def end(self, signum: signal.Signals) -> int:
        self._process.send_signal(signum)
        rest, _ = self._process.communicate(timeout=PATIENCE_S)
        self.begun += rest.split()
        return self._process.returncode


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/afl.db"
    else:
        yield request.getfixturevalue(f"{request.param}_url")


def test_a_killed_process_loses_no_result_and_repeats_none(url: str) -> None:
    mark = new_id()
    with ExitStack() as stack:
        requests = stack.enter_context(
            closing(open_mailbox(url, f"samples {mark}", body_type=EvalRequest[str, str]))
        )
        answers = stack.enter_context(
            closing(open_mailbox(url, f"answers {mark}", body_type=EvalResult))
        )
        results = stack.enter_context(closing(open_results(url)))
        sent = submit_dataset(
            dataset_of(*SAMPLES), BASELINE, requests, reply_to=answers, evaluation_id=mark
        )
        first = Process(url, requests.name, "hangs")
        first.wait_until_begun("stuck")
        assert len(results.results(mark)) == 3
        first.end(signal.SIGKILL)
        second = Process(url, requests.name, "lives")
        report = collect_results(answers, len(sent), timeout_seconds=PATIENCE_S)
        assert second.end(signal.SIGTERM) == 0
        assert (report.missing, report.pass_rate) == (0, 1.0)
        assert len(results.results(mark)) == len(SAMPLES)
    begun = Counter(first.begun + second.begun)
    assert begun == {each: 2 if each == "stuck" else 1 for each in SAMPLES}
