"""The laboratory: processes that may be killed, by the hundred.

One server process has everything imported and no database open; it forks a child for each job, so
a process costs milliseconds and begins as fresh as it can. Run as a module it is the server; it
takes orders as lines of JSON, and ends, with all of its children, when nobody gives any more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.engine.cases import ALL_CASES, expected
from tests.engine.jobs import JOBS

_ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL


class Lab:
    """Starts the server; ends it and all that it started at the end of a `with`."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.engine.lab"]
        self._server = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def start(self, job: str, *args: Any, **options: Any) -> int:
        """Begin a job in a process of its own; its process id, which stays taken until `wait`."""
        pid = self._order("start", job, args, options)
        assert isinstance(pid, int)
        return pid

    def wait(self, pid: int) -> tuple[int, Any]:
        """The exit code of a job, negative if a signal ended it, and what it returned.

        Raises AssertionError with the traceback of a job that raised.
        """
        code, answer = self._order("wait", pid)
        assert code in (0, KILLED), answer
        return code, answer

    def run(self, job: str, *args: Any, **options: Any) -> tuple[int, Any]:
        return self.wait(self.start(job, *args, **options))

    def _order(self, *order: Any) -> Any:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


# The server


class _Server:
    def __init__(self) -> None:
        #: Of each child, where its answer comes from.
        self._children: dict[int, int] = {}

    def serve(self) -> None:
        try:
            for line in sys.stdin:
                verb, *order = json.loads(line)
                answer = self._start(*order) if verb == "start" else self._wait(*order)
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
        finally:
            for pid in list(self._children):
                os.kill(pid, signal.SIGKILL)
                self._wait(pid)

    def _start(self, job: str, args: list[Any], options: dict[str, Any]) -> int:
        source, target = os.pipe()
        pid = os.fork()
        if pid == 0:
            _be_child(target, job, args, options)
        os.close(target)
        self._children[pid] = source
        return pid

    def _wait(self, pid: int) -> tuple[int, Any]:
        with os.fdopen(self._children.pop(pid), encoding="utf-8") as source:
            answer = source.read()
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), json.loads(answer) if answer else None


def _be_child(target: int, job: str, args: list[Any], options: dict[str, Any]) -> None:
    """Never returns: the child must not go on as a second server."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # that pipe is for the answers of the server
    code = 1
    try:
        answer: Any = JOBS[job](*args, **options)
        code = 0
    except BaseException:
        answer = traceback.format_exc()
    with os.fdopen(target, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os._exit(code)


def main() -> None:
    # Once for all children: programs are compiled, and what must come of them is known.
    for case in ALL_CASES:
        expected(case.name)
    _Server().serve()


if __name__ == "__main__":
    main()
