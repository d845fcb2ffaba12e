"""A way to a server that can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Proxy:
    """Passes bytes on, between clients and a server on this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_passable = True
        #: Cut the connection on which the next answer comes, instead of passing it on. Once.
        self.loses_next_answer = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones until it is mended."""
        with self._lock:
            self._is_passable = False
            pairs, self._pairs = self._pairs, []
        for each in (end for pair in pairs for end in pair):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def mend(self) -> None:
        self._is_passable = True

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._connect(self._listening.accept()[0])

    def _connect(self, client: socket.socket) -> None:
        with self._lock:
            server = self._reach_server()
            if server is None:
                client.close()
                return
            self._pairs.append((client, server))
        for ends in ((client, server), (server, client)):
            threading.Thread(target=self._pass_on, args=(*ends, client), daemon=True).start()

    def _reach_server(self) -> socket.socket | None:
        if self._is_passable:
            with suppress(OSError):  # it is down
                return socket.create_connection(("127.0.0.1", self._target))
        return None

    def _pass_on(self, source: socket.socket, target: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if target is client and self.loses_next_answer:
                    self.loses_next_answer = False
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
