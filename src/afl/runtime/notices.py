"""Notices that this machine will soon be taken away: an early SIGTERM.

- `SpotNotice`: EC2 gives Spot instances two minutes.
- `PreemptionNotice`: Google Cloud gives preemptible and Spot machines thirty seconds.
- `FileTrigger`: anybody who can write a file, such as a preStop hook or a node agent.

Each looks again and again on a daemon thread of its own, and tells once.
"""

from __future__ import annotations

import http.client
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.log import get_logger

_log = get_logger(__name__)

#: How long a token of EC2's metadata service is valid; renewed after half of it.
_TOKEN_TTL_S = 21600
#: Answers of a metadata service are short.
_LONGEST_ANSWER = 65536


class Notice(Protocol):
    """A source of notices."""

    def start(self, on_notice: Callable[[str], None]) -> None:
        """Look from now on; call `on_notice` with the reason, once, on a thread of its own."""
        ...

    def stop(self) -> None:
        """Look no more. Waits for nothing, and may be called by `on_notice`."""
        ...


class _Poller(ABC):
    """Looks at intervals until there is a notice."""

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self._has_failed = False

    @abstractmethod
    def _look(self) -> str | None:
        """The reason, if there is a notice. Raises OSError while it cannot be known."""

    def start(self, on_notice: Callable[[str], None]) -> None:
        """Look from now on; call `on_notice` with the reason, once, on a thread of its own.

        Does nothing if it looks already.
        """
        with self._lock:
            if self._stop is not None:
                return
            stop = self._stop = threading.Event()
        name = f"afl-notice-{type(self).__name__}"
        threading.Thread(target=self._run, args=(stop, on_notice), name=name, daemon=True).start()

    def stop(self) -> None:
        """Look no more. Waits for nothing, and may be called by `on_notice`."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None

    def _run(self, stop: threading.Event, on_notice: Callable[[str], None]) -> None:
        while not stop.is_set():
            reason = self._look_safely()
            if reason is not None and not stop.is_set():
                _log.warning("notice_received", source=type(self).__name__, reason=reason)
                self._tell(on_notice, reason)
                return
            self._clock.wait(stop, self._interval_s)

    def _look_safely(self) -> str | None:
        try:
            reason = self._look()
            self._has_failed = False
            return reason
        except Exception as error:
            # Once: a machine elsewhere has no such service, and will not have one later.
            if not self._has_failed:
                _log.warning("notices_not_seen", source=type(self).__name__, reason=str(error))
            self._has_failed = True
            return None

    def _tell(self, on_notice: Callable[[str], None], reason: str) -> None:
        try:
            on_notice(reason)
        except Exception:
            _log.exception("notice_not_taken", source=type(self).__name__, reason=reason)


class SpotNotice(_Poller):
    """The interruption of an EC2 Spot instance, asked of its metadata service (IMDSv2)."""

    def __init__(
        self,
        base_url: str = "http://169.254.169.254",
        *,
        interval_s: float = 5.0,
        timeout_s: float = 2.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(interval_s, clock)
        self._service = _Service(base_url, timeout_s)
        self._token = ""
        self._renew_at = 0.0

    def _look(self) -> str | None:
        answer = self._ask()
        if answer.status == http.client.UNAUTHORIZED:  # the token was revoked before its time
            self._token = ""
            answer = self._ask()
        if answer.status == http.client.NOT_FOUND:
            return None
        return _spot_reason(answer.required())

    def _ask(self) -> _Response:
        if not self._token or self._clock.monotonic() >= self._renew_at:
            self._renew_token()
        headers = {"X-aws-ec2-metadata-token": self._token}
        return self._service.request("GET", "/latest/meta-data/spot/instance-action", headers)

    def _renew_token(self) -> None:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
        self._token = self._service.request("PUT", "/latest/api/token", headers).required()
        self._renew_at = self._clock.monotonic() + _TOKEN_TTL_S / 2


def _spot_reason(text: str) -> str:
    """Whatever the text says, it says that there is an interruption."""
    try:
        facts = json.loads(text)
        return f"EC2 Spot interruption: {facts['action']} at {facts['time']}"
    except (ValueError, KeyError, TypeError):
        return "EC2 Spot interruption"


class PreemptionNotice(_Poller):
    """The preemption of a Google Cloud machine, asked of its metadata server."""

    def __init__(
        self,
        base_url: str = "http://metadata.google.internal",
        *,
        interval_s: float = 1.0,
        timeout_s: float = 2.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(interval_s, clock)
        self._service = _Service(base_url, timeout_s)

    def _look(self) -> str | None:
        path = "/computeMetadata/v1/instance/preempted"
        text = self._service.request("GET", path, {"Metadata-Flavor": "Google"}).required()
        return "Google Cloud preemption" if text.strip().upper() == "TRUE" else None


class FileTrigger(_Poller):
    """A notice for as long as a file exists: also if it did before the start."""

    def __init__(
        self, path: str | Path, *, interval_s: float = 0.5, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(interval_s, clock)
        self._path = Path(path)

    def _look(self) -> str | None:
        return f"the file {self._path} exists" if self._path.exists() else None


class _Response(NamedTuple):
    status: int
    text: str
    place: str

    def required(self) -> str:
        """The text of a success. Raises OSError for anything else."""
        if self.status != http.client.OK:
            raise OSError(f"{self.place} answered {self.status}")
        return self.text


class _Service:
    """A metadata service. Asked directly, since it must not be asked through a proxy."""

    def __init__(self, base_url: str, timeout_s: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigurationError(
                f"the metadata service {base_url!r} must be an address such as "
                "http://169.254.169.254"
            )
        self._host = parts.hostname
        self._port = parts.port or 80
        self._base_path = parts.path.rstrip("/")
        self._timeout_s = timeout_s

    def request(self, method: str, path: str, headers: Mapping[str, str]) -> _Response:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, self._base_path + path, headers=dict(headers))
            response = connection.getresponse()
            text = response.read(_LONGEST_ANSWER).decode(errors="replace")
            return _Response(response.status, text, f"{self._host}:{self._port}{path}")
        except http.client.HTTPException as error:
            raise OSError(f"{self._host}:{self._port} gave no HTTP answer: {error!r}") from error
        finally:
            connection.close()
