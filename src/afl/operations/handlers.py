"""Handler registrations: say where the handler of a facet is, and find out whether it loads.

Workers notice a change at once. Nothing here imports a handler into this process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from afl.backoff import format_duration, parse_duration
from afl.errors import NotFound, UsageError
from afl.lang.diagnostics import suggest
from afl.operations.reading import moment
from afl.runtime.entities import HandlerRegistration, Isolation, OnLost
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.registrations import HandlerLoadError, RegistrationLoader, allowed_places

#: The checksum that is computed here, from the file that is registered.
AUTO = "auto"
_FILE = "file://"
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class HandlerNotFound(NotFound):
    """No handler is registered for this facet."""

    def __init__(self, facet: str, known: Sequence[str]) -> None:
        self.facet = facet
        hint = suggest(facet, known) or "`afl handlers list` shows those there are"
        super().__init__(f"no handler is registered for {facet}; {hint}")


@dataclass(frozen=True)
class NewHandler:
    """What is registered. Raises nothing: `add` checks it."""

    facet: str
    #: A dotted module, a `file://` URI, or the path of a `.py` file.
    module: str
    entrypoint: str = "handle"
    version: str = "1.0.0"
    #: `sha256:…`, any other text, or `auto`.
    checksum: str = ""
    timeout_ms: int = 30_000
    isolation: str = Isolation.THREAD
    on_lost: str = OnLost.REDELIVER
    #: How often it may be tried in all; None: as its metadata says, or once.
    retry_max: int | None = None
    #: The wait before the second try, such as `2s`.
    retry_backoff: str | None = None
    requirements: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HandlerView:
    facet: str
    module_uri: str
    entrypoint: str
    version: str
    checksum: str
    timeout_ms: int
    isolation: str
    on_lost: str
    is_enabled: bool
    requirements: list[str]
    metadata: dict[str, Any]
    created: datetime | None
    updated: datetime | None
    #: Why a worker could not load it: `message`, `server`, `time`. None once one could.
    load_error: dict[str, Any] | None


@dataclass(frozen=True)
class Verdict:
    """How loading a registration went, on this machine and in this folder."""

    facet: str
    module_uri: str
    entrypoint: str
    ok: bool
    #: What is wrong.
    problem: str | None


# Looking


def view(registration: HandlerRegistration) -> HandlerView:
    return HandlerView(
        facet=registration.facet_name,
        module_uri=registration.module_uri,
        entrypoint=registration.entrypoint,
        version=registration.version,
        checksum=registration.checksum,
        timeout_ms=registration.timeout_ms,
        isolation=str(registration.isolation),
        on_lost=str(registration.on_lost),
        is_enabled=registration.is_enabled,
        requirements=list(registration.requirements),
        metadata=dict(registration.metadata),
        created=moment(registration.created),
        updated=moment(registration.updated),
        load_error=registration.load_error,
    )


def list_handlers(store: PersistenceAPI) -> list[HandlerRegistration]:
    """All registrations, by name."""
    return sorted(store.list_handler_registrations(), key=lambda each: each.facet_name)


def find(store: PersistenceAPI, facet: str) -> HandlerRegistration:
    """The registration of a facet. Raises HandlerNotFound."""
    found = store.get_handler_registration(facet)
    if found is None:
        known = [each.facet_name for each in store.list_handler_registrations()]
        raise HandlerNotFound(facet, known)
    return found


# Acting


def add(store: PersistenceAPI, new: NewHandler, places: Sequence[Path] = ()) -> HandlerRegistration:
    """Register a handler, in place of one that the facet may have.

    `places` are the folders, beside the working directory, where a module may be; only the
    checksum `auto` needs them. Raises UsageError for what no worker could use.
    """
    _require_name(new.facet, "a facet")
    _require_name(new.entrypoint, "an entrypoint")
    _require_choice(new.isolation, Isolation, "isolation")
    _require_choice(new.on_lost, OnLost, "on-lost")
    if new.timeout_ms < 0:
        raise UsageError(
            "a timeout cannot be negative; 0 lets the handler take as long as it needs"
        )
    uri = module_uri(new.module)
    return store.register_handler(
        new.facet,
        uri,
        new.entrypoint,
        version=new.version,
        checksum=_checksum(uri, places) if new.checksum == AUTO else new.checksum,
        timeout_ms=new.timeout_ms,
        requirements=new.requirements,
        metadata=_metadata(new),
        isolation=new.isolation,
        on_lost=new.on_lost,
    )


def remove(store: PersistenceAPI, facet: str) -> None:
    """Forget a registration. Tasks of the facet wait until it has another one."""
    if not store.delete_handler_registration(find(store, facet).facet_name):
        raise HandlerNotFound(facet, ())


def enable(store: PersistenceAPI, facet: str, *, is_enabled: bool) -> HandlerRegistration:
    """Let workers claim tasks of a facet, or not: then they wait."""
    changed = replace(find(store, facet), is_enabled=is_enabled, updated=store.now_ms())
    store.save_handler_registration(changed)
    return changed


def _require_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name of {what}; expected names with dots between them")


def _require_choice(value: str, choices: type[Isolation] | type[OnLost], what: str) -> None:
    known = [each.value for each in choices]
    if value not in known:
        raise UsageError(f"{what} '{value}' is unknown; use one of {', '.join(known)}")


def _checksum(uri: str, places: Sequence[Path]) -> str:
    return RegistrationLoader(allowed_places(places)).checksum(uri)


def _metadata(new: NewHandler) -> dict[str, Any]:
    """The metadata with what was said about retries, in the form that workers read."""
    retry: dict[str, Any] = {}
    if new.retry_max is not None:
        if new.retry_max < 1:
            raise UsageError("a handler is tried at least once: --retry-max is 1 or more")
        retry["max"] = new.retry_max
    if new.retry_backoff is not None:
        # Said apart from how often, it would never be used.
        if new.retry_max is None:
            raise UsageError("--retry-backoff says how long to wait; say how often: --retry-max")
        retry["backoff"] = format_duration(parse_duration(new.retry_backoff))
    return {**new.metadata, "retry": retry} if retry else dict(new.metadata)


# Modules


def module_uri(module: str) -> str:
    """The URI of a module as people name it. The path of a file becomes `file://…`."""
    if module.startswith(_FILE):
        return module
    name, colon, function = module.rpartition(":")
    if colon and function.isidentifier():  # as servers of web applications are told
        raise UsageError(
            f"'{module}' names a module and a function in it; give them apart: {name} and "
            f"--entrypoint {function}"
        )
    if module.endswith(".py") or "/" in module:
        path = Path(module).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"there is no handler file {module}")
        return path.as_uri()
    _require_name(module, "a module")
    return module


# Whether it loads


def verify(registration: HandlerRegistration, places: Sequence[Path] = ()) -> Verdict:
    """Load a registration as a worker in this folder would, in a process that ends with that."""
    # Whoever wants a process of its own is loaded in one, and never here.
    is_known = registration.isolation in set(Isolation)
    apart = replace(registration, isolation=Isolation.PROCESS) if is_known else registration
    problem = None
    try:
        RegistrationLoader(allowed_places(places)).load(apart)
    except HandlerLoadError as error:
        problem = str(error)
    return Verdict(
        registration.facet_name,
        registration.module_uri,
        registration.entrypoint,
        problem is None,
        problem,
    )
