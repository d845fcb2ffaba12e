"""What the tests of turns share."""

from __future__ import annotations

import pytest
from tests.unit.turns.life import Life


@pytest.fixture
def life() -> Life:
    return Life()
