from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.operations.stage import Stage
from tests.unit.operations.stage import stage as make_stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with make_stage() as found:
        yield found
