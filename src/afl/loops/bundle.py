"""Debug bundles: one zip with all that is known about a turn.

Secrets are redacted. A bundle appears as a whole or not at all, and whatever goes wrong with it is
an event and never the failure of the turn. A file that cannot be made costs no other.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from afl import telemetry
from afl.agents.session import Session
from afl.agents.text import readable
from afl.clock import Clock
from afl.error_text import kind_of, message_of, storable, trace_of
from afl.log import redact
from afl.loops.bundle_config import BundleConfig, BundleRetention

_ROOT = "debug_bundle"
_FORMAT = 1
_README = """\
What is known about one turn of an agent.

request/    what was asked, and what was replied
session/    what had happened before the turn, and after it: one JSON object in each line
logs/       what was logged meanwhile
metrics.json, run_context.json, environment.json
error.json  if it failed
files/      what the sections of the prompt made
manifest.json has the size and the checksum of each file.
"""


class BundleWriter:
    """Collects the files of one bundle, and writes it once. Nothing here raises."""

    def __init__(self, config: BundleConfig, run_id: str, request_id: str, clock: Clock) -> None:
        self._config = config
        self._run_id = run_id
        self._request_id = request_id
        self._clock = clock
        self._created_at = clock.now()
        self._files: dict[str, bytes] = {}
        self._omitted: list[str] = []
        self._logs: list[dict[str, Any]] = []
        #: Where it is, once it is written.
        self.path: Path | None = None

    # Collecting

    def add_json(self, path: str, value: Any) -> None:
        self._collect(path, lambda: _json(value))

    def add_session(self, path: str, session: Session) -> None:
        self._collect(
            path,
            lambda: _json_lines({"type": type(each).__name__, "entry": each} for each in session),
        )

    def add_error(self, error: BaseException) -> None:
        facts = {
            "type": type(error).__qualname__,
            "message": message_of(error),
            "traceback": trace_of(error),
        }
        self.add_json("error.json", facts)

    def add_files(self, files: Callable[[], Mapping[str, bytes]]) -> None:
        def add() -> None:
            for path, content in files().items():
                inner = PurePosixPath(path)
                is_inside = not inner.is_absolute() and ".." not in inner.parts
                name = f"files/{inner if is_inside else inner.name}"
                # Sections may have put anything there.
                self._collect(name, partial(_bytes, content))

        self._guarded(add, "files")

    def _collect(self, path: str, content: Callable[[], bytes]) -> None:
        name = storable(path)
        self._guarded(lambda: self._add(name, content()), name)

    def _add(self, path: str, content: bytes) -> None:
        total = sum(map(len, self._files.values()))
        config = self._config
        if len(content) > config.max_file_size or total + len(content) > config.max_total_size:
            self._omitted.append(path)
        else:
            self._files[path] = content

    @contextmanager
    def logging(self, is_ours: Callable[[], bool]) -> Iterator[None]:
        """Collect what is logged meanwhile, where `is_ours()` holds."""
        tap = _Tap(self._logs, is_ours)
        root = logging.getLogger()
        root.addHandler(tap)
        try:
            yield
        finally:
            root.removeHandler(tap)

    # Writing

    def write(self) -> None:
        """Write the zip, and remove what is too old."""
        self._guarded(self._write)

    def _write(self) -> None:
        assert self._config.target is not None, "only a bundle with a place is written"
        folder = Path(self._config.target)
        folder.mkdir(parents=True, exist_ok=True)
        self._collect("logs/app.jsonl", lambda: _json_lines(self._logs))
        self._collect("environment.json", lambda: _json(_environment()))
        self._collect("README.txt", _README.encode)
        stamp = self._created_at.strftime("%Y%m%dT%H%M%S")
        final = folder / f"{stamp}_{self._run_id}.zip"
        partly = final.with_suffix(f".zip.{os.getpid()}.part")
        try:
            self._write_zip(partly)
            partly.replace(final)
        finally:
            partly.unlink(missing_ok=True)
        self.path = final
        if self._config.retention is not None:
            _retain(folder, self._config.retention, self._clock)

    def _write_zip(self, path: Path) -> None:
        method = zipfile.ZIP_DEFLATED if self._config.compression else zipfile.ZIP_STORED
        with path.open("wb") as file:
            with zipfile.ZipFile(file, "w", method) as bundle:
                for name, content in sorted(self._files.items()):
                    bundle.writestr(f"{_ROOT}/{name}", content)
                bundle.writestr(f"{_ROOT}/manifest.json", _json(self._manifest()))
            file.flush()
            os.fsync(file.fileno())

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "bundle_id": self._run_id,
            "request_id": self._request_id,
            "created_at": self._created_at,
            "files": {
                name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                for name, content in sorted(self._files.items())
            },
            "omitted": self._omitted,
        }

    def _guarded(self, action: Callable[[], object], path: str | None = None) -> None:
        """With the path of what is missing if it fails; None: the whole bundle."""
        try:
            action()
        except Exception as error:
            reason = f"{kind_of(error)}: {message_of(error)}"
            if path is not None:
                self._omitted.append(path)
                reason = f"{path}: {reason}"
            telemetry.emit(
                telemetry.BundleNotWritten(
                    at=self._clock.now(), request=self._request_id, reason=reason
                )
            )


class _Tap(logging.Handler):
    """Keeps log records."""

    def __init__(self, lines: list[dict[str, Any]], is_ours: Callable[[], bool]) -> None:
        super().__init__()
        self._lines = lines
        self._is_ours = is_ours

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_ours():
            self._lines.append(
                {
                    "time": record.created,
                    "level": record.levelname.lower(),
                    "logger": record.name,
                    "message": _message_of(record),
                }
            )


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # arguments that do not fit: whoever logs goes on all the same
        said = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        return f"{said} ({kind_of(error)}: {message_of(error)})"


def _json(value: Any) -> bytes:
    plain = msgspec.to_builtins(value, enc_hook=_printed, str_keys=True)
    return msgspec.json.encode(readable(redact(plain)))


def _json_lines(values: Iterable[Any]) -> bytes:
    return b"\n".join(map(_json, values))


def _printed(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be printed>"


def _bytes(content: Any) -> bytes:
    """Raises TypeError for what has none."""
    return memoryview(content).tobytes()


def _environment() -> dict[str, Any]:
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "pid": os.getpid(),
        "arguments": sys.argv,
        "variables": dict(os.environ),
    }


def _retain(folder: Path, retention: BundleRetention, clock: Clock) -> None:
    """Remove bundles that are too many, too old or too large; the newest one always stays."""
    bundles = sorted(folder.glob("*.zip"), key=lambda each: each.name, reverse=True)
    now, total = clock.now().timestamp(), 0
    for index, each in enumerate(bundles):
        with suppress(FileNotFoundError):  # others may remove them, too
            state = each.stat()
            total += state.st_size
            is_over = (
                _exceeds(index + 1, retention.max_bundles)
                or _exceeds(now - state.st_mtime, retention.max_age_s)
                or _exceeds(total, retention.max_total_bytes)
            )
            if index and is_over:
                each.unlink()


def _exceeds(value: float, limit: float | None) -> bool:
    return limit is not None and value > limit
