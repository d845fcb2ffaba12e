"""Finding records by the beginning of an id.

An id may be given by its first characters, if no other one begins like that. The store finds it by
an index, however many records there are and however old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from afl.errors import NotFound, UsageError
from afl.runtime.entities import RunnerDefinition, ServerDefinition, TaskDefinition
from afl.runtime.errors import RunNotFoundError, TaskNotFoundError
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId
from afl.turns.api import TurnStore
from afl.turns.errors import TurnNotFound

#: Fewer characters fit something by chance.
SHORTEST = 4
#: Ids that are asked for; who gives a beginning of more has to say more anyway.
_ASKED = 100
#: Candidates that a message names.
_NAMED = 3


class ServerNotFound(NotFound):
    """No server has this id."""

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id
        super().__init__(
            f"Server {server_id} not found; `afl servers` shows those there are, and --store names "
            "another store"
        )


class TooShort(NotFound):
    """Nothing has this id, and it is too short to be the beginning of one."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(
            f"no {kind} has the id {text!r}, and as the beginning of one it is too short: give at "
            "least four characters"
        )


def find_run(store: PersistenceAPI, text: str) -> RunnerDefinition:
    """The run with this id, or the one whose id begins so. Raises RunNotFoundError, TooShort,
    UsageError."""
    found = store.get_run(WorkflowId(text))
    if found is not None:
        return found
    full = only_beginning(text, _beginning(store.find_run_ids, text), "run")
    found = store.get_run(WorkflowId(full)) if full is not None else None
    if found is None:
        raise RunNotFoundError(text)
    return found


def find_task(store: PersistenceAPI, text: str) -> TaskDefinition:
    """The task with this id, or the one whose id begins so; the id of a step will do, too.
    Raises TaskNotFoundError, TooShort, UsageError."""
    found = store.get_task(text)
    if found is not None:
        return found
    full = only_beginning(text, _beginning(store.find_task_ids, text), "task")
    found = store.get_task(full) if full is not None else None
    if found is None:
        raise TaskNotFoundError(text)
    return found


def find_step_task(store: PersistenceAPI, text: str) -> TaskDefinition:
    """Like `find_task`, for who may have meant a run as well. Raises NotFound, UsageError."""
    try:
        return find_task(store, text)
    except TooShort:
        raise TooShort(text, "run or step") from None
    except TaskNotFoundError:
        raise NotFound(
            f"neither a run nor a step has the id {text}; `afl runs list` and `afl runs show` "
            "show those there are"
        ) from None


def find_server(store: PersistenceAPI, text: str) -> ServerDefinition:
    """The server with this id, or the one whose id begins so. Raises ServerNotFound, TooShort,
    UsageError."""
    found = store.get_server(text)
    if found is not None:
        return found
    full = only_beginning(text, (each.uuid for each in store.get_all_servers()), "server")
    found = store.get_server(full) if full is not None else None
    if found is None:
        raise ServerNotFound(text)
    return found


def find_turn(store: TurnStore, text: str) -> str:
    """The id of the turn that has it, or whose id begins so. Raises TurnNotFound, TooShort,
    UsageError."""
    found = only_beginning(text, _beginning(store.find_ids, text), "turn")
    if found is None:
        raise TurnNotFound(text)
    return found


def _beginning(find: Callable[[str, int], Sequence[str]], text: str) -> Sequence[str]:
    """The ids that begin like this; nobody looks if that is too short to mean anything."""
    return find(text, _ASKED) if len(text) >= SHORTEST else []


def only_beginning(text: str, ids: Iterable[str], kind: str) -> str | None:
    """The one id that begins like this; None if none does. Raises UsageError for several, and
    TooShort."""
    if len(text) < SHORTEST:
        raise TooShort(text, kind)
    fitting = sorted({each for each in ids if each.startswith(text)})
    if len(fitting) > 1:
        names = ", ".join(fitting[:_NAMED]) + (", …" if len(fitting) > _NAMED else "")
        raise UsageError(f"{text} is the beginning of {len(fitting)} {kind}s: {names}; say more")
    return fitting[0] if fitting else None
