"""Servers and registrations, and hearing of what is new about them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from afl.runtime.asking.access import R, R_contra, Storing, W, W_contra
from afl.runtime.asking.topics import HANDLERS, server_topic
from afl.runtime.entities import HandlerRegistration, ServerDefinition


class Catalog(Protocol[R_contra, W_contra]):
    def server(self, reader: R_contra, server_id: str, /) -> ServerDefinition | None: ...

    def ask_server(self, tx: W_contra, server_id: str, wanted: str, /) -> bool: ...

    def report_incident(
        self, tx: W_contra, server_id: str, incident: Mapping[str, Any], /
    ) -> bool: ...

    def handler(self, reader: R_contra, facet_name: str, /) -> HandlerRegistration | None: ...

    def handlers(self, reader: R_contra, /) -> list[HandlerRegistration]: ...

    def handlers_version(self, reader: R_contra, /) -> int: ...

    def save_handler(self, tx: W_contra, registration: HandlerRegistration, /) -> None: ...

    def delete_handler(self, tx: W_contra, facet_name: str, /) -> bool: ...

    def set_load_error(
        self, tx: W_contra, registration: HandlerRegistration, error: Mapping[str, Any] | None, /
    ) -> bool: ...


class AskedCatalog(Storing[R, W]):
    _catalog: Catalog[R, W]

    # Servers

    def get_server(self, server_id: str) -> ServerDefinition | None:
        return self._read(self._catalog.server, server_id)

    def ask_server(self, server_id: str, wanted: str) -> bool:
        return self._write(self._catalog.ask_server, server_id, wanted)

    def attend_server(self, server_id: str, told: Callable[[], None]) -> Callable[[], None]:
        self._require_open()
        return self.database.bell.attend(self._heard_as(server_topic(server_id)), told)

    def report_incident(self, server_id: str, incident: Mapping[str, Any]) -> bool:
        return self._write(self._catalog.report_incident, server_id, incident)

    # Registrations

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        self._write(self._catalog.save_handler, registration)

    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None:
        return self._read(self._catalog.handler, facet_name)

    def list_handler_registrations(self) -> list[HandlerRegistration]:
        return self._read(self._catalog.handlers)

    def delete_handler_registration(self, facet_name: str) -> bool:
        return self._write(self._catalog.delete_handler, facet_name)

    def set_load_error(
        self, registration: HandlerRegistration, error: Mapping[str, Any] | None
    ) -> bool:
        return self._write(self._catalog.set_load_error, registration, error)

    def registrations_version(self) -> int:
        return self._read(self._catalog.handlers_version)

    def wait_for_registrations(
        self, seen: int, timeout: float | None = None, *, stop: threading.Event | None = None
    ) -> bool:
        def seconds_left(reader: R) -> float:
            return math.inf if self._catalog.handlers_version(reader) == seen else 0

        return self._wait(HANDLERS, seconds_left, timeout, stop)
