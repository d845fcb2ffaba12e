"""Workers whose clocks are wrong by many leases: leases run on the clock of the server."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.contracts import mongo_stores, postgres_stores
from tests.engine.ledger import Ledger
from tests.engine.places import open_at
from tests.engine.profile import IS_STORM
from tests.servers.test_store_faults import check, submit
from tests.workers.crew import Crew

from afl.runtime.lifecycle import wait_until

TASKS, LONGEST_MS = (1000, 300) if IS_STORM else (30, 60)
#: Many leases; and one that is long beside any pause of this machine.
WRONG_S, LEASE_MS = 15 * 60, 60_000
PATIENCE_S = 600.0 if IS_STORM else 60.0

pytestmark = pytest.mark.timeout(3600 if IS_STORM else 120)


@pytest.fixture(params=["postgres", "mongo"])
def place(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return mongo_stores.emptied(url) if request.param == "mongo" else postgres_stores.emptied(url)


def test_nothing_is_taken_from_a_worker_by_one_whose_clock_is_ahead(
    tmp_path: Path, ledger: Ledger, place: str
) -> None:
    options = {"max_concurrent": 2, "lease_ms": LEASE_MS, "drain_s": 30, "place": place}
    with open_at(place) as store:
        run_id = submit(store, TASKS, LONGEST_MS)
        wrong = [
            Crew(tmp_path, ledger.port, [signal.SIGTERM], size=1, ahead_s=each, **options)
            for each in (WRONG_S, -WRONG_S)
        ]
        with wrong[0], wrong[1]:
            assert store.wait_for_run(run_id, PATIENCE_S)
        check(store, ledger, run_id, TASKS)
        assert {each.deliveries for each in ledger.entries(run_id)} == {1}


def test_work_of_a_dead_worker_whose_clock_was_ahead_is_done_by_one_who_is_behind(
    tmp_path: Path, ledger: Ledger, place: str
) -> None:
    """By its own clock that one would have to wait for half an hour."""
    options = {"max_concurrent": 2, "lease_ms": 1000, "drain_s": 30, "place": place}
    with open_at(place) as store:
        ahead = Crew(tmp_path, ledger.port, [signal.SIGKILL], size=1, ahead_s=WRONG_S, **options)
        with ahead:
            run_id = submit(store, 6, 200)
            assert wait_until(lambda: len(ledger.entries(run_id)) >= 2, timeout=PATIENCE_S)
            behind = Crew(
                tmp_path, ledger.port, [signal.SIGTERM], size=1, ahead_s=-WRONG_S, **options
            )
            with behind:
                ahead.harm()
                assert store.wait_for_run(run_id, PATIENCE_S)
        check(store, ledger, run_id, 6)
