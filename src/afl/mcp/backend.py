"""What tools and resources work on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from afl.lang.program import Program
from afl.operations.catalog import Catalog
from afl.operations.texts import compile_text
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_TASK_LIST, PersistenceAPI
from afl.turns.api import TurnStore


@dataclass(frozen=True)
class Options:
    """How the settings want it."""

    task_list: str = DEFAULT_TASK_LIST
    library_paths: Sequence[Path] = ()
    strict: bool = False
    #: Folders, beside the working directory, that handlers may be in.
    handler_paths: Sequence[Path] = ()
    #: Of afl, as clients are told.
    version: str = ""


class Backend:
    """The store, the engine and the programs. Shared by all calls, and safe from any thread."""

    def __init__(
        self,
        store: PersistenceAPI,
        evaluator: Evaluator,
        open_turns: Callable[[], TurnStore],
        programs: Sequence[Program] = (),
        options: Options | None = None,
    ) -> None:
        self.store = store
        self.evaluator = evaluator
        self.options = options or Options()
        self.catalog = Catalog(store, programs)
        self._turns = _Once(open_turns)
        self._waits: set[threading.Event] = set()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._calls = 0

    @property
    def turns(self) -> TurnStore:
        """Opened when first asked for: not every store has turns."""
        return self._turns.get()

    def compiled(self, source: str) -> Program:
        """The program of a text. Raises ParseError or InvalidProgram with all that is wrong."""
        options = self.options
        return compile_text(
            source, library_paths=options.library_paths, strict=options.strict
        ).require()

    @contextmanager
    def waiting(self) -> Iterator[threading.Event]:
        """An event for one wait. It is set when the wait is left, and when the server stops."""
        stop = threading.Event()
        with self._lock:
            self._waits.add(stop)
            if self._is_stopping:
                stop.set()
        try:
            yield stop
        finally:
            stop.set()
            with self._lock:
                self._waits.discard(stop)

    @contextmanager
    def in_hand(self) -> Iterator[None]:
        """While a call is being answered."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    @property
    def calls(self) -> int:
        """Those that are being answered."""
        return self._calls

    def request_stop(self) -> None:
        """Let all who wait for a run answer now. The runs go on."""
        with self._lock:
            self._is_stopping = True
            for each in self._waits:
                each.set()

    def close(self) -> None:
        """Close what was opened here; the store belongs to who gave it."""
        self._turns.close()


@dataclass
class _Once:
    """Opened once, by whoever comes first."""

    _open: Callable[[], TurnStore]
    _opened: TurnStore | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> TurnStore:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
