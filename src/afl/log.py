"""Logs: structured events for people and machines, without secrets.

- `get_logger(name)` costs nothing until something is logged, and writes through the standard
  `logging`, so an application that embeds afl sees and filters our events as any other's.
- `configure(...)` is called by the command line only; a library never decides where logs go.
- `redact(value)` hides what looks like a secret. Every event passes through it before any
  handler sees it; debug bundles and `afl config show` use it too.

structlog renders; it is imported by `configure`, because that import takes 0.2 s.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, TextIO

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError

LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("auto", "json", "console")

#: What stands in the place of a secret.
HIDDEN = "***"

_EventDict = MutableMapping[str, Any]


class Logger:
    """Logs events with fields: `log.info("program_compiled", sources=3)`."""

    __slots__ = ("_fields", "_target")

    def __init__(self, target: logging.Logger, fields: Mapping[str, object]) -> None:
        self._target = target
        self._fields = fields

    def bind(self, **fields: object) -> Logger:
        """A logger that adds these fields to each of its events."""
        return Logger(self._target, {**self._fields, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._log(logging.ERROR, event, fields)

    def critical(self, event: str, /, **fields: object) -> None:
        self._log(logging.CRITICAL, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error, with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def _log(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if not self._target.isEnabledFor(level):
            return
        facts = {**self._fields, **fields}
        exc_info = _exception_of(facts.pop("exc_info", None))
        message = _Message(redact({**facts, "event": event}))
        if exc_info:
            message["exc_info"] = exc_info
        # The two extras are how structlog's formatter knows an event from a plain record.
        extra = {"_logger": self._target, "_name": logging.getLevelName(level).lower()}
        self._target.log(level, message, exc_info=exc_info, extra=extra, stacklevel=3)


class _Message(dict[str, Any]):
    """An event as the message of a log record: fields for our handler, text for any other."""

    def __str__(self) -> str:
        fields = (f"{k}={v!r}" for k, v in self.items() if k not in ("event", "exc_info"))
        return " ".join([str(self["event"]), *fields])


def _exception_of(given: object) -> Any:
    if isinstance(given, BaseException):
        return (type(given), given, given.__traceback__)
    return (sys.exc_info() if given is True else given) or None


def get_logger(name: str) -> Logger:
    """The logger of a module; call it with `__name__`."""
    return Logger(logging.getLogger(name), {})


class _Handler(logging.StreamHandler[TextIO]):
    """Our handler, to be found again when configured anew."""


def configure(
    level: str = "info",
    format: str = "auto",  # noqa: A002 - the name of the setting
    stream: TextIO | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Send all logs of this process to `stream` (standard error); a later call replaces this one.

    `auto` writes JSON lines, and text for people when the stream is a terminal. Other packages log
    from info upwards, even at debug. Raises ConfigurationError for an unknown level or format.
    """
    _require(level, LEVELS, "level")
    _require(format, FORMATS, "format")
    stream = sys.stderr if stream is None else stream
    is_tty = stream.isatty()
    as_json = format == "json" or (format == "auto" and not is_tty)
    handler = _Handler(stream)
    handler.setFormatter(_formatter(as_json, is_tty, clock))
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("afl").setLevel(number)
    root.setLevel(max(number, logging.INFO))


def _require(value: str, allowed: Iterable[str], name: str) -> None:
    if value not in allowed:
        raise ConfigurationError(f"log {name} is {value!r}; expected one of {', '.join(allowed)}")


def _formatter(as_json: bool, colors: bool, clock: Clock) -> logging.Formatter:
    import structlog

    def stamp(_logger: object, _method: str, event: _EventDict) -> _EventDict:
        event["timestamp"] = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_to_json)
        if as_json
        # The default prints the variables of each frame, secrets included.
        else structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    )
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            stamp,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            # Again and last: tracebacks, and records of other packages, hold secrets too.
            redact_event,
            renderer,
        ]
    )


def _to_json(event: Mapping[str, object], **options: Any) -> str:
    try:
        return json.dumps(event, **options)
    except (TypeError, ValueError):  # a key that JSON cannot have: better flat than lost
        return json.dumps({key: redact(repr(value)) for key, value in event.items()})


def redact_event(_logger: object, _method: str, event: _EventDict) -> _EventDict:
    """`redact` as a structlog processor, for applications that have a chain of their own."""
    return {str(key): value for key, value in redact(event).items()}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words that name a secret wherever they stand in a key.
_SECRET_WORDS = _words(
    "authorization bearer cookie credential jwt passphrase passwd password secret token"
)
#: Those whose plural does, too. `tokens` are counted, not kept.
_SECRET_PLURALS = _SECRET_WORDS - {"token"}
#: Words that name a secret when `key` follows.
_KEY_WORDS = _words("access account api encryption master private secret shared signing storage")
#: Ends of words: PGPASSWORD and dbpassword are one word each.
_SECRET_ENDS = ("password", "passwd", "passphrase", "apikey")
#: A key that ends with one of these is about a secret, and is none.
_ABOUT = _words(
    "at budget count enabled endpoint expires expiry file id index kind len length limit max "
    "method min mode name path policy position present required scheme second size total ttl "
    "type url usage used"
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

# Each pattern starts at a fixed mark or at the start of a word: long texts cost linear time.
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[opsu]_\w{20,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]+)"
)
#: The password of a URL. Not a port; and if it has an unescaped slash it still is a password.
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/:@?#]*):(?!\d{1,5}(?:[/?#\s\"',;)]|$))(?:[^/?#]*|.*)@")
_RUN = re.compile(r"\S+")
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE)
_BASIC = re.compile(r"\b(authorization\W{1,4}basic\s+)[\w.~+/=-]+", re.IGNORECASE)
#: `password=` anywhere, and `"password":` as in JSON. A bare `token:` is prose, as in
#: "unexpected token: }".
_NAME = re.compile(
    r"(?<![\w.-])(?:(?P<name>[\w.-]{1,99})=|(?P<q>[\"'])(?P<key>[\w.-]{1,99})(?P=q)\s*:\s*)"
)
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s&]+")
_DEEPEST = 50


def redact(value: Any) -> Any:
    """The same value with `***` in place of secrets; the original is not touched.

    Hidden are: values under keys that name a secret by word (`api_key`, `resumeToken`; but not
    `max_tokens` or `token_count`), at any depth; in texts, passwords of URLs, bearer tokens,
    `password=…` and keys of well-known shape. An object that would show a secret when printed
    becomes its redacted text. Redacting twice changes nothing more.
    """
    return _redact(value, ())


def _redact(value: Any, parents: tuple[int, ...]) -> Any:
    if isinstance(value, str):
        return _redact_text(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping | list | tuple):
        # Logging must survive any data, so neither a cycle nor depth may end in RecursionError.
        if id(value) in parents or len(parents) >= _DEEPEST:
            return "..."
        return _redact_container(value, (*parents, id(value)))
    return _redact_object(value)


def _redact_container(value: Any, parents: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        return {key: _redact_entry(key, item, parents) for key, item in value.items()}
    items = [_redact(item, parents) for item in value]
    return items if isinstance(value, list) else tuple(items)


def _redact_entry(key: object, value: Any, parents: tuple[int, ...]) -> Any:
    # Whether there is a secret may be seen: `has_password: true`, `token: null`.
    if isinstance(key, str) and not (value is None or isinstance(value, bool)) and is_secret(key):
        return HIDDEN
    return _redact(value, parents)


def _redact_object(value: object) -> object:
    try:
        text = repr(value)
    except Exception:  # somebody else's __repr__
        return f"<{type(value).__name__} that cannot be printed>"
    hidden = _redact_text(text)
    return value if hidden == text else hidden


@lru_cache(maxsize=4096)
def is_secret(key: str) -> bool:
    """Whether a field of this name holds a secret."""
    words = [word.lower() for word in _WORD.findall(key)]
    if not words or words[-1] in _ABOUT or _singular(words[-1]) in _ABOUT:
        return False
    pairs = pairwise(words)
    return (
        any(word in _SECRET_WORDS or _singular(word) in _SECRET_PLURALS for word in words)
        or any(_singular(word).endswith(_SECRET_ENDS) for word in words)
        or any(first in _KEY_WORDS and _singular(second) == "key" for first, second in pairs)
        # `auth_failures` is harmless, and `PWD` alone is the working directory.
        or words[-1] == "auth"
        or (words[-1] == "pwd" and len(words) > 1)
    )


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _redact_text(text: str) -> str:
    text = _SHAPES.sub(HIDDEN, text)
    if "://" in text:
        text = _RUN.sub(_redact_urls, text)
    text = _BASIC.sub(rf"\1{HIDDEN}", _BEARER.sub(rf"\1{HIDDEN}", text))
    return _redact_assigned(text)


def _redact_urls(run: re.Match[str]) -> str:
    # Cut after the last @, so that the pattern finds one whenever it looks for one: a search
    # to the end and in vain for each `://` would cost the square of the length.
    before, at, after = run[0].rpartition("@")
    return _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", before + at) + after


def _redact_assigned(text: str) -> str:
    pieces = []
    done = 0
    for match in _NAME.finditer(text):
        # A name may stand in the value of a harmless one (`url=…?password=…`); only what is
        # hidden already is passed over.
        if match.start() < done or not is_secret(match["name"] or match["key"]):
            continue
        if value := _VALUE.match(text, match.end()):
            pieces += [text[done : value.start()], _hidden_like(value[0])]
            done = value.end()
    return "".join([*pieces, text[done:]])


def _hidden_like(value: str) -> str:
    """Keep the quotes, so that redacted JSON is still JSON."""
    quote = value[0] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else ""
    return f"{quote}{HIDDEN}{quote}"
