"""Fleets for the tests of deploys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploys.fleet import Fleet, fleet_in


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as made:
        yield made
