"""How hard the tests of this folder search."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"


def examples(count: int) -> settings:
    """Search through this many examples, in a storm through fifty times as many."""
    return settings(
        max_examples=count * 50 if IS_STORM else count,
        deadline=None,
        # One store holds the runs of all examples: they cannot meet, and opening a file is slow.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
