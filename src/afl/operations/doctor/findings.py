"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    result: Result
    found: str
    #: What to do about it; empty if nothing has to be done.
    advice: str = ""


def fine(check: str, found: str) -> Finding:
    return Finding(check, Result.OK, found)


def warn(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Result.WARN, found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Result.FAIL, found, advice)
