"""Contract suites live in the package; their assertions explain themselves like those of tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("afl.testing")
