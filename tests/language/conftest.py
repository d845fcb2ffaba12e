"""How hard the property tests of this folder search.

`AFL_TEST_PROFILE=storm` searches twenty times as long as the default, and may.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("AFL_TEST_PROFILE", "default")

# Programs are large values: drawing one may be slow on a busy machine, which is no defect.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=25, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("storm", settings.get_profile("default"), max_examples=500)
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PROFILE != "storm":
        return
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(3600))
