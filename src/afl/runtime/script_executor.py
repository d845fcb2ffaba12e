"""Scripts: a few lines of Python of an AFL program, run in a process of their own.

The process has no environment, an empty folder, no import, no files, few builtins, and limits on
time, memory and output; at the timeout it is killed with all that it started.

This is a safety net against mistakes, not a sandbox for hostile code: Python cannot be one. Run
only programs whose authors you trust; the runtime runs scripts only where an operator has turned
them on.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afl.backoff import format_duration
from afl.errors import AflError

_CHILD = Path(__file__).with_name("script_child.py")
#: Isolated from variables, user folders and site-packages; writes no bytecode.
_FLAGS = ("-I", "-S", "-B")
_MIB = 1024 * 1024


@dataclass(frozen=True)
class ScriptResult:
    """How a script ended: with a result, or with an error that says why not."""

    success: bool
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    #: What it printed, up to the limit.
    output: str = ""
    #: The parameters as the script left them; the caller's own are never touched.
    params: dict[str, Any] = field(default_factory=dict)


class ScriptError(AflError):
    """A script failed; the author of the program must look at it."""

    def __init__(self, message: str, original: BaseException | None = None) -> None:
        super().__init__(message)
        self.original = original


@dataclass(frozen=True)
class ScriptExecutor:
    """Runs scripts, each in a fresh process. Holds no state: one serves all threads."""

    #: Seconds from start to end.
    timeout: float = 30.0
    memory_bytes: int = 512 * _MIB
    #: The most that a script may print, and the most that it may leave in `result` and `params`.
    max_output: int = _MIB

    def execute(
        self, code: str, params: Mapping[str, Any] | None = None, language: str = "python"
    ) -> ScriptResult:
        """Run `code`, which reads `params` and fills `result`. Never raises for what it does."""
        if language != "python":
            return _failed(f"Unsupported script language '{language}': there is only python")
        try:
            request = self._request(code, params or {})
        except (TypeError, ValueError) as error:
            return _failed(f"the parameters of the script are not serializable: {error}")
        return self._run(request)

    def _request(self, code: str, params: Mapping[str, Any]) -> bytes:
        content = {
            "code": code,
            "params": dict(params),
            "max_output": self.max_output,
            "limits": self._limits(),
        }
        return json.dumps(content, allow_nan=False).encode("ascii")

    def _limits(self) -> dict[str, int]:
        """By the names of the module `resource`."""
        return {
            # Beyond the timeout: it only ends a script whose parent died.
            "RLIMIT_CPU": math.ceil(self.timeout) + 1,
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_FSIZE": 0,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 8,
            "RLIMIT_NPROC": 0,
        }

    def _run(self, request: bytes) -> ScriptResult:
        with tempfile.TemporaryDirectory(prefix="afl-script-") as folder:
            process = subprocess.Popen(  # noqa: S603 - our own file, by our own interpreter
                [sys.executable, *_FLAGS, str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd=folder,
                # A group of its own: killed as a whole, and out of reach of Ctrl-C.
                start_new_session=True,
            )
            try:
                out, _ = process.communicate(request, self.timeout)
            except subprocess.TimeoutExpired:
                return _failed(f"the script timed out after {format_duration(self.timeout)}")
            finally:
                _end(process)
        return _understood(out, process.returncode)


def execute_script(
    code: str,
    params: Mapping[str, Any] | None = None,
    language: str = "python",
    timeout: float = 30.0,
) -> dict[str, Any]:
    """The result of a script. Raises ScriptError."""
    outcome = ScriptExecutor(timeout).execute(code, params, language)
    if not outcome.success:
        raise ScriptError(outcome.error or "the script failed")
    return outcome.result


def _failed(error: str, output: str = "") -> ScriptResult:
    return ScriptResult(False, error=error, output=output)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind, however the script ended."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with process:  # closes the pipes and waits
        pass


def _understood(out: bytes, code: int) -> ScriptResult:
    try:
        answer = json.loads(out)
    except ValueError:
        return _failed(
            f"the script was ended from outside ({_manner(code)}), which is how limits on memory "
            "and processor time act"
        )
    if "error" in answer:
        return _failed(answer["error"], answer["output"])
    return ScriptResult(True, answer["result"], output=answer["output"], params=answer["params"])


def _manner(code: int) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
