"""What the driver of MongoDB raises, told in words that somebody can act on."""

from __future__ import annotations

import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from afl.db.mongo.errors import translated
from afl.errors import StoreMisused


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("it does not fit", 388),
        BulkWriteError({"writeErrors": [{"index": 9663, "code": 388, "errmsg": "not that many"}]}),
    ],
    ids=["one", "of many"],
)
def test_more_than_fits_into_the_cache_is_told_with_what_to_do(error: OperationFailure) -> None:
    told = translated(error, "mongodb://h:27017/db")
    assert isinstance(told, StoreMisused)
    assert "mongodb://h:27017/db" in str(told)
    assert "cacheSizeGB" in str(told)
