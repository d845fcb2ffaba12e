"""Giving work back that nobody does any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.errors import StoreUnavailable
from afl.log import get_logger
from afl.work.attempts import Attempt, Attempts
from afl.work.report import Report
from afl.work.source import Source

_log = get_logger(__name__)


class Returns:
    """Releases attempts, which then leave the table; in an outage they wait for `try_again`."""

    def __init__(self, source: Source[Any], attempts: Attempts, report: Report[Any]) -> None:
        self._source = source
        self._attempts = attempts
        self._report = report
        self._waiting: dict[Attempt, None] = {}

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def give_back(self, attempts: Sequence[Attempt]) -> None:
        """In one call and in their order. Nobody else may say how they end."""
        if not attempts:
            return
        try:
            self._source.release([each.work for each in attempts])
        except StoreUnavailable as error:
            self._waiting.update(dict.fromkeys(attempts))
            self._attempts.look_again()
            _log.warning("not_released_yet", count=len(attempts), error=str(error))
            return
        except Exception as error:
            for each in attempts:
                self._report.unrecorded(each, error)
        for each in attempts:
            self._waiting.pop(each, None)
        self._attempts.remove(attempts)

    def try_again(self, more: Sequence[Attempt] = ()) -> None:
        """Give back what could not be given back before, together with these."""
        self.give_back([*self._waiting, *more])
