"""Backoff: how long to wait before trying again, and durations as people write them.

`Backoff` is a value: it sleeps nowhere and remembers nothing, so whoever retries counts the
attempts. Durations are float seconds inside the program and text such as `250ms` or `1h30m`
outside it.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from decimal import Decimal, localcontext

from afl.errors import ConfigurationError, UsageError

_DURATION = re.compile(
    r"(?:(?P<d>\d+(?:\.\d+)?)d)?"
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?"
    r"(?:(?P<m>\d+(?:\.\d+)?)m)?"
    r"(?:(?P<s>\d+(?:\.\d+)?)s)?"
    r"(?:(?P<ms>\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_UNIT_S = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
#: Enough digits for the exact sum of any two finite floats, so that text and number agree.
_DIGITS = 700


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing waits: `initial`, times `factor` for each further attempt, at most `maximum` seconds.

    `jitter` is the share of each wait left to chance: 0 none, 1 the whole wait ("full jitter",
    which spreads a crowd that failed together best). Jitter only shortens.
    Raises ConfigurationError if the numbers make no sense together.
    """

    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _require(self.initial >= 0, "initial", self.initial, "0 or more seconds")
        _require(self.factor >= 1, "factor", self.factor, "1 or more")
        _require(0 <= self.jitter <= 1, "jitter", self.jitter, "a share from 0 to 1")
        _require(
            self.maximum >= self.initial,
            "maximum",
            self.maximum,
            f"at least initial, which is {self.initial}",
        )

    def delay(self, attempt: int, rng: random.Random | None = None) -> float:
        """Seconds to wait after attempt number `attempt` (the first is 1) has failed.

        The same `rng` state gives the same delay. Raises UsageError for attempts before the first.
        """
        if attempt < 1:
            raise UsageError(f"attempts are counted from 1, not {attempt}")
        longest = self._without_jitter(attempt)
        if not self.jitter:
            return longest
        chance = random.random() if rng is None else rng.random()  # noqa: S311 - spreads load only
        return longest * (1 - self.jitter * chance)

    def _without_jitter(self, attempt: int) -> float:
        try:
            return min(self.initial * float(self.factor) ** (attempt - 1), self.maximum)
        except OverflowError:  # grown beyond any float, so beyond the maximum, unless from nothing
            return self.maximum if self.initial else 0.0


def _require(holds: bool, name: str, value: float, expected: str) -> None:
    if not (holds and math.isfinite(value)):
        raise ConfigurationError(f"backoff {name} is {value}; expected {expected}")


def parse_duration(value: str | float) -> float:
    """Seconds in `250ms`, `5s`, `2m`, `1h30m`, `1.5d`, or in a number of seconds.

    Units go from large to small, each at most once. Raises ConfigurationError for anything else,
    and for what is negative or not finite.
    """
    seconds = _parse_text(value.strip()) if isinstance(value, str) else _parse_number(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise ConfigurationError(
            f"{value!r} is not a duration; expected such as 250ms, 5s, 2m, 1h30m, "
            "or a number of seconds"
        )
    return seconds


def _parse_number(value: float) -> float | None:
    # A bool is an int to Python, but nobody means "one second" by true.
    return None if isinstance(value, bool) else float(value)


def _parse_text(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        return None
    with localcontext(prec=_DIGITS):
        parts = [Decimal(n) * _UNIT_S[unit] for unit, n in match.groupdict().items() if n]
        return float(sum(parts, Decimal(0)))


def format_duration(seconds: float) -> str:
    """Text with the largest units that fit, which `parse_duration` reads back exactly.

    Raises ConfigurationError for what is no duration.
    """
    parse_duration(seconds)
    if seconds == 0:
        return "0s"
    with localcontext(prec=_DIGITS):
        rest = Decimal(repr(float(seconds)))
        text = ""
        for unit in ("d", "h", "m"):
            count, rest = divmod(rest, _UNIT_S[unit])
            text += f"{count:f}{unit}" if count else ""
        return text + _format_seconds(rest)


def _format_seconds(rest: Decimal) -> str:
    if not rest:
        return ""
    if rest < 1:
        return f"{_plain(rest * 1000)}ms"
    return f"{_plain(rest)}s"


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
