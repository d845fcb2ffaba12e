"""The example of an agent that answers customers does what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.loops.office import PATIENCE_S, Office

import afl

SUPPORT = Path(__file__).parents[2] / "examples" / "support-loop" / "support.py"


def test_customers_are_answered_and_the_server_stops_when_told(sqlite_office: Office) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(afl.__file__).parents[1])}
    environ.pop("ANTHROPIC_API_KEY", None)
    line = [sys.executable, str(SUPPORT)]
    with subprocess.Popen([*line, "serve", sqlite_office.url], env=environ) as server:
        try:
            done = subprocess.run(
                [*line, "ask", sqlite_office.url, "Where is order 7?"],
                env=environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.stdout == "Your order is on a ship near Norway.\n", done.stderr
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()
