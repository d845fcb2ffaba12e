"""Worker processes that are kept alive, and harmed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOT = Path(__file__).parents[2]
#: Longer than any process takes to come and go, on a busy machine too.
PATIENCE_S = 60.0


class WorkerProcess:
    """One worker, on the file in the folder or the store at another `place`."""

    def __init__(self, folder: Path, port: int, **options: Any) -> None:
        module = "tests.workers.effects_process"
        place = str(options.pop("place", folder / "afl.db"))
        command = [sys.executable, "-m", module, place, str(port)]
        self._log = (folder / "workers.log").open("ab")
        self._process = subprocess.Popen(
            [*command, json.dumps(options)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def wait_until_ready(self) -> WorkerProcess:
        """For signals."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self._log_text()
        return self

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """How it ended; negative if a signal ended it."""
        with self._process, self._log:
            return self._process.wait(PATIENCE_S)

    def _log_text(self) -> str:
        return Path(self._log.name).read_text()


class Crew:
    """Some workers on one store; whoever ends is replaced."""

    def __init__(
        self, folder: Path, port: int, harms: Sequence[int], size: int = 4, **options: Any
    ) -> None:
        self._folder = folder
        self._port = port
        self._options = options
        self._harms = harms
        self._random = random.Random(5)
        self._halted: dict[int, int] = {}
        self.harmed: dict[int, int] = dict.fromkeys(harms, 0)
        # Together: each of them takes long to start.
        self._workers = [self._start() for _ in range(size)]
        for each in self._workers:
            each.wait_until_ready()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._all_go_on()
        for each in self._workers:
            each.signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        codes = [each.wait() for each in self._workers]
        if kind is None:
            assert codes == [0] * len(codes)

    def harm(self) -> None:
        """Do something bad to one of them; who was halted for long enough goes on."""
        for place, rounds in list(self._halted.items()):
            self._halted[place] = rounds - 1
            if rounds <= 1:
                self._go_on(place)
        place = self._random.randrange(len(self._workers))
        if place in self._halted:
            return
        number = self._random.choice(self._harms)
        self.harmed[number] += 1
        if number == signal.SIGTERM:
            # Who was halted in the middle of a commit would keep it from writing its last.
            self._all_go_on()
        self._workers[place].signal(number)
        if number == signal.SIGSTOP:
            self._halted[place] = self._random.randint(1, 3)
        else:
            self._replace(place, 0 if number == signal.SIGTERM else -number)

    def _replace(self, place: int, code: int) -> None:
        assert self._workers[place].wait() == code
        self._workers[place] = self._start().wait_until_ready()

    def _all_go_on(self) -> None:
        for place in list(self._halted):
            self._go_on(place)

    def _go_on(self, place: int) -> None:
        del self._halted[place]
        self._workers[place].signal(signal.SIGCONT)

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._folder, self._port, **self._options)
