"""Runs that somebody looks at: read whole once, and then only what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from afl.lang.program import Program
from afl.operations.finding import find_run
from afl.operations.graphs import RunGraph, run_graph
from afl.operations.reading import (
    LogLine,
    LogReader,
    RunSummary,
    StepView,
    TimelineRow,
    timeline,
    tree_of,
)
from afl.operations.runs import program_of
from afl.operations.sources import SourceLine, SourceMap, source_map
from afl.operations.watching import RunWatch
from afl.runtime.entities import RunnerDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

#: Boards that are kept; a run is read again if it was pushed out.
_KEPT = 16
#: Lines of a log that are kept, the last ones.
_LINES = 500


class Board:
    """One run, as it was at the last look. One look at a time."""

    def __init__(self, store: PersistenceAPI, run: RunnerDefinition) -> None:
        self._program = program_of(store, run)
        self._source = source_map(self._program)
        self._lock = threading.Lock()
        self._watch = RunWatch(store, run)
        self._logs = LogReader(store, run)
        self._lines: list[LogLine] = []
        self._steps: dict[str, StepView] = {}

    def look(self) -> BoardView:
        """How it stands. Raises RunNotFoundError once the run was removed."""
        with self._lock:
            news = self._watch.look()
            self._steps.update((each.step, each) for each in news.steps)
            self._lines = (self._lines + self._logs.news())[-_LINES:]
            return BoardView(
                self._watch.run,
                news.summary,
                self._program,
                self._source,
                dict(self._steps),
                {key: dict(each) for key, each in self._watch.counts.items()},
                tuple(self._lines),
            )


class BoardView:
    """A run at one moment."""

    def __init__(
        self,
        run: RunnerDefinition,
        summary: RunSummary,
        program: Program,
        source: SourceMap,
        steps: Mapping[str, StepView],
        counts: Mapping[str, Mapping[str, int]],
        logs: tuple[LogLine, ...],
    ) -> None:
        self.run = run
        self.summary = summary
        self.program = program
        self.source = source
        self.steps = steps
        self.counts = counts
        self.logs = logs
        root = tree_of(steps.values())
        # Nobody notes when a step with others inside ended; of the whole run it is known.
        self.root = replace(root, ended=summary.ended) if root is not None and run.is_over else root

    @property
    def inputs(self) -> dict[str, object]:
        return {each.name: each.value for each in self.run.parameters}

    @property
    def outputs(self) -> Mapping[str, object]:
        return {} if self.root is None else self.root.outputs

    def graph(self) -> RunGraph:
        return run_graph(self.program, self.run.workflow.name, self.counts)

    def source_lines(self) -> list[SourceLine]:
        """The text of the program, with where the run is."""
        going_on = ("running", "waiting", "failed")
        return self.source.marked(
            statement
            for statement, states in self.counts.items()
            if any(states.get(each) for each in going_on)
        )

    def rows(self) -> list[TimelineRow]:
        """All steps in reading order."""
        return [] if self.root is None else list(timeline(self.root))


class Boards:
    """The boards of one process. Safe from any thread."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._boards: OrderedDict[str, Board] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, text: str) -> BoardView:
        """The run with this id, or the one whose id begins so. Raises RunNotFoundError."""
        run_id, board = self._board(text)
        try:
            return board.look()
        except Exception:
            # What it had begun to read is lost to it: whoever comes next reads all again.
            with self._lock:
                self._boards.pop(run_id, None)
            raise

    def _board(self, text: str) -> tuple[str, Board]:
        with self._lock:
            if (known := self._boards.get(text)) is not None:
                self._boards.move_to_end(text)
                return text, known
        run = find_run(self._store, text)
        made = Board(self._store, run)
        with self._lock:
            # Whoever was faster wins: both would read the same.
            board = self._boards.setdefault(run.workflow_id, made)
            self._boards.move_to_end(run.workflow_id)
            while len(self._boards) > _KEPT:
                self._boards.popitem(last=False)
        return run.workflow_id, board

    def seen(self, run_id: str) -> int:
        """A number that changes when the run may have; does not ask the database."""
        return self._store.changes_seen(WorkflowId(run_id))
