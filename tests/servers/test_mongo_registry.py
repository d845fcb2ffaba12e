"""A runner that finds its handlers in the store, on MongoDB, as people write it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from tests.contracts.mongo_stores import emptied

from afl import compile_source
from afl.runtime import Evaluator, MongoStore
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig

PATIENCE_S = 20.0

PROGRAM = """\
namespace library

event facet Lend(title: String, days: Long) => (receipt: String)

workflow Borrow(title: String) => (receipt: String) andThen {
    lent = Lend(title = $.title, days = 14)
    yield Borrow(receipt = lent.receipt)
}
"""

HANDLER = """\
def lend(payload: dict) -> dict:
    return {"receipt": f"{payload['title']} for {payload['days']} days"}
"""


def test_a_runner_does_what_is_registered_in_the_store(
    mongo_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "desk.py").write_text(HANDLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with MongoStore(emptied(mongo_url)) as store:
        evaluator = Evaluator(persistence=store)
        runner = RegistryRunner(
            persistence=store,
            evaluator=evaluator,
            config=RegistryRunnerConfig(service_name="library-runner"),
        )
        runner.register_handler(
            facet_name="library.Lend", module_uri="shelf.desk", entrypoint="lend"
        )
        running = threading.Thread(target=runner.start, daemon=True)
        running.start()
        run_id = evaluator.submit(compile_source(PROGRAM), "library.Borrow", {"title": "Momo"})
        assert store.wait_for_run(run_id, PATIENCE_S)
        runner.stop()
        running.join(PATIENCE_S)
        assert evaluator.result(run_id).outputs == {"receipt": "Momo for 14 days"}
        (server,) = store.get_all_servers()
        assert server.service_name == "library-runner"
