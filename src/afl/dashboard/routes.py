"""The pages and what can be done on them, as two tables: HTML, JSON and its document follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from afl.dashboard import acts, views
from afl.dashboard.acts import Done
from afl.dashboard.bodies import (
    AnswerBody,
    DiscardBody,
    HandlerBody,
    Nothing,
    RedriveBody,
    SettleBody,
    SubmitBody,
)
from afl.dashboard.desk import Action, Asked, Desk
from afl.operations.fleet import FleetView
from afl.operations.graphs import RunGraph
from afl.operations.handlers import HandlerView
from afl.operations.mailboxes import MailboxDepth
from afl.operations.overview import Overview
from afl.operations.reading import RunPage, StepView
from afl.operations.sources import SourceLine
from afl.operations.steps import StepPage
from afl.operations.tasks import TaskPage
from afl.runtime.entities import RunnerState, TaskState
from afl.turns.api import TurnState

_Limit = Annotated[int, Meta(ge=1, le=500)]
_Name = Annotated[str, Meta(min_length=1, max_length=300)]
_Cursor = Annotated[str, Meta(min_length=1, max_length=1000)]
_PAGE: Mapping[str, Any] = {"limit": _Limit, "cursor": _Cursor}


@dataclass(frozen=True)
class Look:
    """Something that is shown."""

    path: str
    name: str
    meaning: str
    do: Callable[[Desk, Asked], Any]
    #: Type of what `do` gives.
    answer: Any
    #: Parameters of the query, with their types.
    query: Mapping[str, Any] = field(default_factory=dict)
    #: None: only as JSON.
    template: str | None = None
    #: Whether the page shows the answer; one that reads the same in another form need not.
    is_on_page: bool = True


@dataclass(frozen=True)
class Act:
    """Something that is changed."""

    path: str
    name: str
    meaning: str
    do: Callable[[Desk, Asked], Done]
    #: The page that shows what is wrong, if it cannot be.
    page: str
    body: type = Nothing
    #: Where to look afterwards: `{subject}` is what it was done to, other names are of the path.
    then: str | None = None

    def next_path(self, asked: Asked, done: Done) -> str:
        parts = {**asked.path, "subject": done.subject}
        quoted = {name: quote(text, safe="") for name, text in parts.items()}
        return (self.then or self.page).format(**quoted)


#: Parts of paths that may have slashes in them.
_WITH_SLASHES = ("mailbox",)


def route_of(path: str) -> str:
    """A path of the tables, as the router wants it."""
    for name in _WITH_SLASHES:
        path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
    return path


_RUN, _TASKS, _SERVERS = "/runs/{run}", "/tasks", "/servers"
_HANDLERS, _HANDLER = "/handlers", "/handlers/{facet}"
_TURN, _MAILBOX = "/turns/{turn}", "/mailboxes/{mailbox}"

LOOKS = (
    Look(
        "/overview",
        "show_overview",
        "Everything at a glance: runs, queues, servers, what failed.",
        views.show_overview,
        Overview,
        template="overview.html",
    ),
    Look(
        "/runs",
        "list_runs",
        "Runs, the newest first. `text` is the beginning of an id or of a workflow's name.",
        views.list_runs,
        RunPage,
        {"state": RunnerState, "workflow": _Name, "text": _Name, **_PAGE},
        "runs.html",
    ),
    Look(
        _RUN,
        "show_run",
        "A run.",
        views.show_run,
        views.RunShown,
        template="run.html",
        is_on_page=False,
    ),
    Look(
        f"{_RUN}/steps",
        "list_steps",
        "Steps of a run in the order of their creation.",
        views.list_steps,
        StepPage,
        _PAGE,
    ),
    Look(
        f"{_RUN}/graph",
        "show_graph",
        "The graph of a run's workflow, with the state of each node.",
        views.show_graph,
        RunGraph,
    ),
    Look(
        f"{_RUN}/source",
        "show_source",
        "The text of a run's program, with the lines that are being done.",
        views.show_source,
        list[SourceLine],
    ),
    Look(f"{_RUN}/logs", "show_logs", "The end of a run's log.", views.show_logs, views.LogPage),
    Look("/steps/{step}", "show_step", "A step.", views.show_step, StepView),
    Look(
        "/workflows",
        "list_workflows",
        "Workflows that can be started, with the JSON Schemas of their inputs.",
        views.list_workflows,
        list[views.WorkflowView],
        template="submit.html",
    ),
    Look(
        _TASKS,
        "list_tasks",
        "Tasks, the newest first.",
        views.list_tasks,
        TaskPage,
        {
            "state": TaskState,
            "facet": _Name,
            "task_list": _Name,
            "run": _Name,
            "only_unserved": bool,
            **_PAGE,
        },
        "tasks.html",
    ),
    Look(
        _SERVERS,
        "show_fleet",
        "Servers, those that are alive first.",
        views.show_fleet,
        FleetView,
        template="servers.html",
    ),
    Look(
        _HANDLERS,
        "list_handlers",
        "Handler registrations, by name.",
        views.list_handlers,
        list[HandlerView],
        template="handlers.html",
    ),
    Look(
        _HANDLER,
        "show_handler",
        "A handler registration.",
        views.show_handler,
        HandlerView,
        template="handler.html",
    ),
    Look(
        "/turns",
        "list_turns",
        "Turns, the newest first, and effects that wait for a person.",
        views.list_turns,
        views.TurnsShown,
        {"state": TurnState, "loop": _Name, **_PAGE},
        "turns.html",
    ),
    Look(
        _TURN,
        "show_turn",
        "A turn: its checkpoint, with its journal.",
        views.show_turn,
        dict[str, Any],
        template="turn.html",
    ),
    Look(
        "/mailboxes",
        "list_mailboxes",
        "Mailboxes that hold something.",
        views.list_mailboxes,
        list[MailboxDepth],
        template="mailboxes.html",
    ),
    Look(
        _MAILBOX,
        "show_mailbox",
        "The first messages of a mailbox, and its dead letters.",
        views.show_mailbox,
        views.MailboxShown,
        template="mailbox.html",
    ),
    Look(
        "/actions",
        "list_actions",
        "What was done here, the newest first.",
        views.list_actions,
        list[Action],
        template="actions.html",
    ),
)


ACTS: Sequence[Act] = (
    Act(
        "/runs",
        "submit_run",
        "Start a run. The same key again is the same run.",
        acts.submit_run,
        "/workflows",
        SubmitBody,
        "/runs/{subject}",
    ),
    Act(f"{_RUN}/cancel", "cancel_run", "End a run now.", acts.cancel_run, _RUN),
    Act(f"{_RUN}/pause", "pause_run", "Let nothing more begin.", acts.pause_run, _RUN),
    Act(f"{_RUN}/unpause", "unpause_run", "Let it go on.", acts.unpause_run, _RUN),
    Act(f"{_RUN}/retry", "retry_run", "Try all failed steps again.", acts.retry_run, _RUN),
    Act(
        f"{_RUN}/steps/{{step}}/retry",
        "retry_step",
        "Try a failed step again, and all that failed because of it.",
        acts.retry_step,
        _RUN,
    ),
    Act("/tasks/{task}/retry", "retry_task", "Try a task again.", acts.retry_task, _TASKS),
    Act(
        "/tasks/{task}/discard",
        "discard_task",
        "Give a task up.",
        acts.discard_task,
        _TASKS,
        DiscardBody,
    ),
    Act(
        "/servers/{server}/drain",
        "drain_server",
        "Let a server take no more work.",
        acts.drain_server,
        _SERVERS,
    ),
    Act(
        "/servers/{server}/undrain",
        "undrain_server",
        "Let a server take work again.",
        acts.undrain_server,
        _SERVERS,
    ),
    Act(
        _HANDLERS,
        "add_handler",
        "Register a handler, in place of one that the facet may have.",
        acts.add_handler,
        _HANDLERS,
        HandlerBody,
        "/handlers/{subject}",
    ),
    Act(
        f"{_HANDLER}/verify",
        "verify_handler",
        "Find out whether a handler loads.",
        acts.verify_handler,
        _HANDLER,
    ),
    Act(
        f"{_HANDLER}/enable",
        "enable_handler",
        "Let workers claim its tasks.",
        acts.enable_handler,
        _HANDLER,
    ),
    Act(
        f"{_HANDLER}/disable",
        "disable_handler",
        "Let its tasks wait.",
        acts.disable_handler,
        _HANDLER,
    ),
    Act(
        f"{_HANDLER}/remove",
        "remove_handler",
        "Forget a registration.",
        acts.remove_handler,
        _HANDLER,
        then=_HANDLERS,
    ),
    Act(f"{_TURN}/resume", "resume_turn", "Let a turn go on.", acts.resume_turn, _TURN),
    Act(f"{_TURN}/cancel", "cancel_turn", "End a turn; again is fine.", acts.cancel_turn, _TURN),
    Act(
        f"{_TURN}/answer",
        "answer_turn",
        "Answer the question of a turn.",
        acts.answer_turn,
        _TURN,
        AnswerBody,
    ),
    Act(
        f"{_TURN}/settle",
        "settle_effect",
        "Say what became of an effect: done, failed or again.",
        acts.settle_effect,
        _TURN,
        SettleBody,
    ),
    Act(
        f"{_MAILBOX}/redrive",
        "redrive_mailbox",
        "Send dead letters again.",
        acts.redrive_mailbox,
        _MAILBOX,
        RedriveBody,
    ),
)

PAGES = {each.path: each for each in LOOKS if each.template is not None}
