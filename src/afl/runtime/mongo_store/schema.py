"""The collections of the engine and their indexes.

The key of a record is the `_id` of its document. Every document has a number, `seq`, that grows
with the time it was made: "oldest" and "newest" mean that. Steps, and lines of logs, are numbered
within their run, exactly in the order of the commits. Values that users make are kept as JSON
text: their names may have dots and dollars in them, which mean something to MongoDB.
"""

from __future__ import annotations

from typing import Any

from afl.db.mongo import Collection, Index

COMPONENT = "engine"
VERSION = 2

STEPS, EVENTS, TASKS = "steps", "events", "tasks"
RUNS, FLOWS, WORKFLOWS = "runners", "flows", "workflows"
LOGS, SERVERS, LOCKS = "logs", "servers", "locks"
HANDLERS, SOURCES = "handler_registrations", "afl_sources"
#: What decisions change that have read something for which no other document stands.
GUARDS = "guards"
#: Runs that are gone, and of which there are documents left.
REMOVALS = "removals"

_ENDED: dict[str, Any] = {"state": {"$in": ["completed", "failed", "cancelled"]}}
#: Each index of tasks that wait, and the one of all by age, fits only who asks for the field that
#: it is about. Else the server may choose one that fits less well, with few tasks to try them on.
QUEUED: dict[str, Any] = {"state": "pending", "name": {"$exists": True}}
_QUEUED_BY_SHORT_NAME: dict[str, Any] = {"state": "pending", "short_name": {"$exists": True}}
BY_AGE: dict[str, Any] = {"seq": {"$exists": True}}
_RUNNING: dict[str, Any] = {"state": "running"}
STOPPED_STATES = ("failed", "ignored", "canceled", "dead_letter")
_STRAY: dict[str, Any] = {"is_stray": 1}

COLLECTIONS = (
    Collection(
        STEPS,
        (
            # No index on blocks, containers or states: each would cost every new step a page, and
            # those who ask for them can afford to look through a run.
            Index("run", ("workflow_id", "seq")),
            # Collected at the end of their container, all at once.
            Index("yield", ("container_id",), where={"object_type": "YieldAssignment"}),
            # A statement has one step in a block. The engine's have ids that follow from that;
            # others are compared here.
            Index(
                "stray",
                ("block_id", "statement_id"),
                is_unique=True,
                where={**_STRAY, "statement_id": {"$type": "string"}},
            ),
            Index("stray_of_block", ("block_id",), where=_STRAY),
        ),
    ),
    Collection(
        TASKS,
        (
            Index("seq", ("seq",), where=BY_AGE),
            # The queue: what may be claimed now is one range of each for each name, in its order.
            Index("queue", ("task_list_name", "name", "held", "not_before", "seq"), where=QUEUED),
            Index(
                "short_queue",
                ("task_list_name", "short_name", "held", "not_before", "seq"),
                where=_QUEUED_BY_SHORT_NAME,
            ),
            # A step has one running task. Work of the runtime itself has no step.
            Index(
                "running",
                ("step_id",),
                is_unique=True,
                where={**_RUNNING, "step_id": {"$gt": ""}},
            ),
            # Leases that are over; and those that begin in the future, because the clock was set
            # back.
            Index("lease", ("lease_expires",), where=_RUNNING),
            Index("lease_begin", ("lease_begins",), where=_RUNNING),
            # Tasks that are not the one of their step. Those are found by their steps.
            Index("stray", ("workflow_id",), where=_STRAY),
            # What waits for an operator.
            Index("stopped", ("state", "seq"), where={"state": {"$in": list(STOPPED_STATES)}}),
        ),
    ),
    Collection(EVENTS, (Index("run", ("workflow_id",)),)),
    Collection(
        RUNS,
        (
            Index("run", ("workflow_id", "seq")),
            # A run without a key has no such field.
            Index("key", ("key",), is_unique=True, where={"key": {"$exists": True}}),
            Index("state", ("state", "seq")),
            Index("seq", ("seq",)),
            Index("flow", ("flow_id",)),
            Index("workflow", ("workflow_name", "state", "seq")),
            # What may be removed, oldest first: as the store is told, and as the run itself says.
            Index("ended", ("end_time",), where={**_ENDED, "retain": 0}),
            Index("kept", ("kept_until",), where={**_ENDED, "retain": {"$gt": 0}}),
        ),
    ),
    Collection(FLOWS, (Index("name", ("flow_name",)), Index("path", ("flow_path",)))),
    Collection(WORKFLOWS, (Index("name", ("name",)), Index("flow", ("flow_id",)))),
    Collection(
        LOGS,
        (
            Index("runner", ("runner_id", "order", "seq")),
            Index("arrival", ("runner_id", "seq")),
        ),
    ),
    Collection(SERVERS),
    Collection(LOCKS, (Index("end", ("removed_at",), is_end_of_life=True),)),
    Collection(HANDLERS),
    Collection(SOURCES, (Index("name", ("namespace_name", "version"), is_unique=True),)),
    Collection(GUARDS),
    Collection(REMOVALS),
)
