"""Fields of documents as plain values of Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson.int64 import Int64

from afl.db.mongo.transaction import Document


def fields_of(document: Document, names: Iterable[str]) -> tuple[Any, ...]:
    """None for those that are not there. Large numbers come as a kind of the driver's own, which
    others cannot write."""
    values = map(document.get, names)
    return tuple(int(each) if type(each) is Int64 else each for each in values)
