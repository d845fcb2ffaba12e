"""The Python face: submit runs and wait for them.

    with Client("sqlite:///./afl.db") as client:
        run = client.submit(Path("shop.afl"), "Checkout", {"order": "o1"})
        print(run.result(timeout=60))

A client starts runs and looks at them; workers do their tasks. What needs nobody else runs at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from afl import bootstrap
from afl.config import Config, SettingsError, load_config
from afl.lang.compiler import compile_source
from afl.lang.program import Program
from afl.lang.sources import FolderLibrary
from afl.operations import runs
from afl.operations.programs import compile_paths
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_TASK_LIST, PersistenceAPI

#: A program, AFL text, the path of a file with it, or compiled JSON as a dict. A `str` is text if
#: it has a `{`, a `(` or a line end; a file of such a name can be given as a Path.
AnyProgram: TypeAlias = "Program | str | Path | Mapping[str, Any]"


class Run:
    """One run. Holds only its id: whatever is asked is read from the store."""

    def __init__(self, store: PersistenceAPI, evaluator: Evaluator, run_id: str) -> None:
        self._store = store
        self._evaluator = evaluator
        self._id = run_id

    @property
    def id(self) -> str:
        return self._id

    def status(self) -> RunnerState:
        """Where it stands: running, paused, completed, failed or cancelled."""
        return RunnerState(runs.status(self._store, self._id).state)

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Its outputs, when it is over. Raises RunFailed with the original message,
        RunCancelled, or TimeoutError after `timeout` seconds."""
        return runs.result(self._store, self._evaluator, self._id, timeout)

    def cancel(self) -> None:
        runs.cancel(self._evaluator, self._id)

    def pause(self) -> None:
        """Let nobody begin anything more; what is being done is finished."""
        runs.pause(self._evaluator, self._id)

    def unpause(self) -> None:
        runs.unpause(self._evaluator, self._id)

    def __repr__(self) -> str:
        return f"<Run {self._id}>"


class Client:
    """A connection to a store: `url`, or what the settings say. Close it, or use it in `with`."""

    def __init__(self, url: str | None = None) -> None:
        self._config = _settings(url)
        self._store = bootstrap.open_store(self._config.store.url)
        self._evaluator = bootstrap.evaluator(self._store, self._config)

    @property
    def store(self) -> PersistenceAPI:
        return self._store

    def submit(
        self,
        program: AnyProgram,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        key: str | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
    ) -> Run:
        """Start a run; it is durable when this returns. The same `key` twice is one run.

        Raises what is wrong with the program, the name or the inputs; then nothing has started.
        """
        compiled = self._compiled(program)
        run_id = runs.submit(
            self._evaluator, compiled, workflow, inputs, key=key, task_list=task_list
        )
        return self._run(run_id)

    def run(self, run_id: str) -> Run:
        """A run that exists. Raises RunNotFoundError."""
        return self._run(runs.status(self._store, run_id).workflow_id)

    def _run(self, run_id: str) -> Run:
        return Run(self._store, self._evaluator, run_id)

    def _compiled(self, program: AnyProgram) -> Program:
        if isinstance(program, Program):
            return program
        if isinstance(program, Mapping):
            return Program.from_dict(program)
        language = self._config.language
        if isinstance(program, str) and _is_text(program):
            libraries = [FolderLibrary([each]) for each in language.library_paths]
            return compile_source(program, strict=language.strict, libraries=libraries)
        return compile_paths(
            [str(program)], library_paths=language.library_paths, strict=language.strict
        ).require()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _is_text(program: str) -> bool:
    """Whether it is AFL, and not the path of a file: every program that runs has these."""
    return any(sign in program for sign in "{(\n")


def _settings(url: str | None) -> Config:
    """The settings with this URL. Nobody gave a flag, so none is blamed. Raises SettingsError."""
    try:
        return load_config(flags={"store.url": url})
    except SettingsError as error:
        problems = (
            replace(each, origin="argument url") if each.origin.startswith("flag") else each
            for each in error.problems
        )
        raise SettingsError(tuple(problems)) from None
