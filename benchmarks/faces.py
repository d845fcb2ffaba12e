"""The dashboard: lists of a large store, a large run, and the first load, as browsers get them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from afl.clock import SYSTEM_CLOCK
from afl.runtime.evaluator import Evaluator
from afl.runtime.sql_store import SqliteStore
from benchmarks.large import large_run, many_runs
from benchmarks.measure import judged, percentile

RUNS = 100_000
STEPS = 5_000
REQUESTS = 60
OPENINGS = 5
_TOKEN = "a-token-of-the-benchmark"
_PATIENCE_S = 60.0
_CHROMIUM = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--disable-quic", "--no-first-run"),
]
#: What a person asks lists for. `%s` is where a page goes on.
_LISTS = {
    "overview": "/overview",
    "runs": "/runs",
    "runs_by_state": "/runs?state=failed",
    "runs_by_workflow": "/runs?workflow=big.Few",
    "runs_by_beginning": "/runs?text=0000012a",
    "runs_further_on": "/runs?cursor=%s",
    "tasks": "/tasks",
    "tasks_by_state": "/tasks?state=failed",
}
#: When the page is there, and when all is there that it needs; what came over the wire.
_TIMES = "performance.getEntriesByType('navigation')[0]"
_BYTES = (
    "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
    ".filter(each => !each.name.includes('/live'))"
    ".reduce((sum, each) => sum + each.transferSize, 0)"
)


def run() -> dict[str, Any]:
    return {"lists": _lists(), "browser": _browser()}


# Lists


def _lists() -> dict[str, Any]:
    """Whole answers to requests one after another, beside pages of a store with a few runs."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.db"), Path(folder, "large.db")
        many_runs(small, 200)
        many_runs(large, RUNS)
        few, many = _p95s(small), _p95s(large)
    return {
        "p95": judged(
            max(many.values()),
            100.0,
            unit="ms",
            runs=RUNS,
            each=many,
            with_200_runs=few,
        )
    }


def _p95s(database: Path) -> dict[str, float]:
    with _dashboard(database) as url, _signed_in(url) as client:
        cursor = re.search(r"cursor=([^\"&]+)", client.get("/runs").text)
        assert cursor is not None
        return {name: _p95(client, path.replace("%s", cursor.group(1)))
                for name, path in _LISTS.items()}  # fmt: skip


def _p95(client: httpx.Client, path: str) -> float:
    times = []
    for _ in range(REQUESTS):
        began_at = SYSTEM_CLOCK.monotonic()
        client.get(path).raise_for_status()
        times.append((SYSTEM_CLOCK.monotonic() - began_at) * 1000)
    return round(percentile(sorted(times), 95), 1)


# The browser


def _browser() -> dict[str, Any]:
    """A run that nobody has looked at before, then again; and the login with the first page."""
    path = os.environ.get("AFL_TEST_CHROMIUM") or shutil.which("chromium")
    if path is None:
        return {"missing": "there is no Chromium; name one with AFL_TEST_CHROMIUM"}
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database = Path(folder, "afl.db")
        with closing(SqliteStore(f"sqlite:///{database}")) as store:
            large = large_run(Evaluator(store), STEPS)
        browser = playwright.chromium.launch(executable_path=path, args=_CHROMIUM)
        # Each dashboard opens the run for the first time.
        times = [_opened(browser, database, large) for _ in range(OPENINGS)]
        browser.close()
    first, again, sizes = (sorted(each) for each in zip(*times, strict=True))
    return {
        "large_run": judged(
            percentile(first, 50) / 1000, 1.0, unit="s", steps=STEPS, again_ms=percentile(again, 50)
        ),
        "first_load": judged(sizes[-1] / 1000, 80.0, unit="kB, compressed"),
    }


def _opened(browser: Any, database: Path, run: str) -> tuple[float, float, float]:
    with _dashboard(database) as url:
        page = browser.new_context(base_url=url).new_page()
        page.goto("/")
        size = page.evaluate(_BYTES)
        page.get_by_label("Token").fill(_TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/overview")
        # With what only this page needs: the files of the first one are kept.
        size += page.evaluate(_BYTES)
        times = []
        for _ in range(2):
            page.goto(f"/runs/{run}")
            times.append(round(page.evaluate(f"{_TIMES}.loadEventEnd"), 1))
        page.context.close()
    return times[0], times[1], size


# Processes


@contextmanager
def _dashboard(database: Path) -> Iterator[str]:
    """`afl dashboard` in a process of its own; its address."""
    tokens = database.with_suffix(".tokens")
    tokens.write_text(f"bench operator {_TOKEN}\n")
    command = [sys.executable, "-m", "afl", "dashboard", "--port", "0"]
    with subprocess.Popen(
        [*command, "--store", f"sqlite:///{database}", "--token-file", str(tokens)],
        cwd=database.parent,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            yield _address(process.stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()


def _address(lines: Any) -> str:
    for line in lines:
        if line.startswith("Dashboard: "):
            return str(line.removeprefix("Dashboard: ").strip())
    raise RuntimeError("the dashboard ended before it listened")


@contextmanager
def _signed_in(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=_PATIENCE_S) as client:
        client.post("/login", data={"token": _TOKEN})
        yield client


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))
