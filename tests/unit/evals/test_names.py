from __future__ import annotations

import pytest
from tests.docs.pages import REFERENCE, read

import afl.evals


@pytest.mark.parametrize("name", afl.evals.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(afl.evals, name) is not None
    section = read(REFERENCE / "python-api.md").partition("\n## `afl.evals`\n")[2]
    assert f"`{name}" in section.partition("\n## ")[0]


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Evals'"):
        _ = afl.evals.Evals
