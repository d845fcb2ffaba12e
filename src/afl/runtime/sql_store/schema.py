"""The tables of the engine, and how they came to be.

Every table has a row number that grows with each new row: "oldest" and "newest" mean that. Rows
are kept in its order, so new ones touch the same few pages; keeping them by their random ids
instead was measured and is slower.
"""

from __future__ import annotations

from afl.db.migrations import Migration, history

COMPONENT = "engine"

_STEPS = (
    """\
CREATE TABLE step (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    object_type TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    statement_id TEXT,
    container_type TEXT,
    container_id TEXT,
    block_id TEXT,
    root_id TEXT,
    state TEXT NOT NULL,
    original_state TEXT,
    current_state TEXT,
    flags INTEGER NOT NULL,
    error TEXT,
    facet_name TEXT NOT NULL,
    params TEXT,
    returns TEXT,
    version TEXT NOT NULL,
    foreach_var TEXT,
    foreach_value TEXT,
    timestamp INTEGER,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    caught INTEGER NOT NULL,
    update_order INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    is_stray INTEGER NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX step_id ON step (id)",
    # No index on blocks, containers or states: each would cost every step a page of each commit,
    # and those who ask for them can afford to look through a run.
    "CREATE INDEX step_run ON step (workflow_id)",
    # Collected at the end of their container, all at once.
    """\
CREATE INDEX step_yield ON step (container_id) WHERE object_type = 'YieldAssignment'""",
    # A statement has one step in a block. The engine's have ids that follow from that; others are
    # compared here. Steps without a statement are not: NULLs differ.
    "CREATE UNIQUE INDEX step_stray ON step (block_id, statement_id) WHERE is_stray = 1",
)

_TASKS = (
    """\
CREATE TABLE task (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    runner_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    flow_id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    state TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    error TEXT,
    task_list_name TEXT NOT NULL,
    data_type TEXT NOT NULL,
    data TEXT,
    owner TEXT NOT NULL,
    lease_expires INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    lease_ms INTEGER NOT NULL,
    held INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    backoff_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    short_name TEXT NOT NULL,
    is_stray INTEGER NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX task_id ON task (uuid)",
    # The queue: what may be claimed now is one range of it for each name, and names that end
    # alike stand together.
    """\
CREATE INDEX task_queue ON task (task_list_name, short_name, name, held, not_before)
WHERE state = 'pending'""",
    # Whoever claims looks through all of these, for a lease that is over: there are never many.
    # A step lends no second task while it has one here.
    """\
CREATE INDEX task_running ON task (step_id, lease_expires, lease_ms)
WHERE state = 'running'""",
    # Tasks that are not the one of their step. Those are found by their steps.
    "CREATE INDEX task_stray ON task (workflow_id) WHERE is_stray = 1",
    # What waits for an operator.
    """\
CREATE INDEX task_stopped ON task (state)
WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')""",
)

_EVENTS = (
    """\
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    state TEXT NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX event_id ON event (id)",
    "CREATE INDEX event_run ON event (workflow_id)",
)

_RUNS = (
    """\
CREATE TABLE run (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    parameters TEXT NOT NULL,
    step_id TEXT,
    user TEXT,
    start_time INTEGER NOT NULL,
    end_time INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    retain INTEGER NOT NULL,
    state TEXT NOT NULL,
    task_list TEXT NOT NULL,
    "key" TEXT,
    error TEXT,
    version INTEGER NOT NULL,
    flow_id TEXT NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX run_uuid ON run (uuid)",
    "CREATE INDEX run_id ON run (workflow_id)",
    'CREATE UNIQUE INDEX run_key ON run ("key")',
    "CREATE INDEX run_state ON run (state)",
    "CREATE INDEX run_flow ON run (flow_id)",
    # What may be removed, oldest first: as the store is told, and as the run itself says.
    """\
CREATE INDEX run_ended ON run (end_time)
WHERE retain = 0 AND state IN ('completed', 'failed', 'cancelled')""",
    """\
CREATE INDEX run_retained ON run (end_time + retain)
WHERE retain > 0 AND state IN ('completed', 'failed', 'cancelled')""",
)

_FLOWS = (
    """\
CREATE TABLE flow (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    compiled_sources TEXT NOT NULL,
    digest TEXT NOT NULL,
    program TEXT NOT NULL,
    flow_name TEXT NOT NULL,
    flow_path TEXT NOT NULL
) STRICT""",
    "CREATE INDEX flow_name ON flow (flow_name)",
    "CREATE INDEX flow_path ON flow (flow_path)",
    """\
CREATE TABLE workflow (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    namespace_id TEXT NOT NULL,
    facet_id TEXT NOT NULL,
    flow_id TEXT NOT NULL,
    starting_step TEXT NOT NULL,
    version TEXT NOT NULL,
    metadata TEXT,
    documentation TEXT,
    date INTEGER NOT NULL
) STRICT""",
    "CREATE INDEX workflow_name ON workflow (name)",
    "CREATE INDEX workflow_flow ON workflow (flow_id)",
)

_OTHERS = (
    """\
CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    "order" INTEGER NOT NULL,
    runner_id TEXT NOT NULL,
    step_id TEXT,
    object_id TEXT NOT NULL,
    object_type TEXT NOT NULL,
    note_originator TEXT NOT NULL,
    note_type TEXT NOT NULL,
    note_importance INTEGER NOT NULL,
    message TEXT NOT NULL,
    state TEXT NOT NULL,
    line INTEGER NOT NULL,
    file TEXT NOT NULL,
    details TEXT NOT NULL,
    time INTEGER NOT NULL
) STRICT""",
    'CREATE INDEX log_runner ON log (runner_id, "order")',
    """\
CREATE TABLE server (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    server_group TEXT NOT NULL,
    service_name TEXT NOT NULL,
    server_name TEXT NOT NULL,
    server_ips TEXT NOT NULL,
    start_time INTEGER NOT NULL,
    ping_time INTEGER NOT NULL,
    topics TEXT NOT NULL,
    handlers TEXT NOT NULL,
    handled TEXT NOT NULL,
    state TEXT NOT NULL,
    manager TEXT NOT NULL,
    error TEXT,
    http_port INTEGER NOT NULL,
    version TEXT NOT NULL
) STRICT""",
    """\
CREATE TABLE lock (
    seq INTEGER PRIMARY KEY,
    "key" TEXT NOT NULL UNIQUE,
    acquired_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    meta TEXT,
    owner TEXT NOT NULL,
    length_ms INTEGER NOT NULL
) STRICT""",
    """\
CREATE TABLE handler (
    seq INTEGER PRIMARY KEY,
    facet_name TEXT NOT NULL UNIQUE,
    module_uri TEXT NOT NULL,
    entrypoint TEXT NOT NULL,
    version TEXT NOT NULL,
    checksum TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    requirements TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL
) STRICT""",
    """\
CREATE TABLE source (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,
    namespace_name TEXT NOT NULL,
    source_text TEXT NOT NULL,
    namespaces_defined TEXT NOT NULL,
    version TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    origin TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (namespace_name, version)
) STRICT""",
)

_WORKERS = (
    "ALTER TABLE server ADD COLUMN task_list TEXT NOT NULL DEFAULT 'default'",
    "ALTER TABLE server ADD COLUMN host TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE server ADD COLUMN pid INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE server ADD COLUMN in_flight INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE server ADD COLUMN wanted TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE server ADD COLUMN incidents TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE handler ADD COLUMN isolation TEXT NOT NULL DEFAULT 'thread'",
    "ALTER TABLE handler ADD COLUMN on_lost TEXT NOT NULL DEFAULT 'redeliver'",
    "ALTER TABLE handler ADD COLUMN is_enabled INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE handler ADD COLUMN load_error TEXT",
    # One row: how often a registration was saved or removed.
    "CREATE TABLE handler_version (version INTEGER NOT NULL) STRICT",
    "INSERT INTO handler_version (version) VALUES (0)",
)

_LISTS = (
    "ALTER TABLE run ADD COLUMN workflow_name TEXT NOT NULL DEFAULT ''",
    "UPDATE run SET workflow_name = coalesce(workflow ->> '$.name', '')",
    # Runs of a workflow in a state, newest last.
    "CREATE INDEX run_workflow ON run (workflow_name, state)",
    # In the order of their arrival; whoever wants another one reads all of a run anyway.
    "DROP INDEX log_runner",
    "CREATE INDEX log_runner ON log (runner_id)",
    "ALTER TABLE server ADD COLUMN beat_ms INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE server ADD COLUMN finished TEXT NOT NULL DEFAULT '[]'",
)

_PHASES = ("ALTER TABLE server ADD COLUMN phase TEXT NOT NULL DEFAULT ''",)

_REMOVALS = (
    # Runs that are gone, and of which there are rows left.
    """\
CREATE TABLE removal (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    workflow_id TEXT NOT NULL,
    flow_id TEXT NOT NULL
) STRICT""",
)

#: The conditions of indexes on what has ended, in words that SQLite compares one by one. A list
#: behind IN it would copy into a table of its own for each row that is written, before and after:
#: that took half of the time of ending a task and its run.
STOPPED = "(state = 'failed' OR state = 'ignored' OR state = 'canceled' OR state = 'dead_letter')"
ENDED = "(state = 'completed' OR state = 'failed' OR state = 'cancelled')"

_PLAIN_CONDITIONS = (
    "DROP INDEX task_stopped",
    f"CREATE INDEX task_stopped ON task (state) WHERE {STOPPED}",
    "DROP INDEX run_ended",
    f"CREATE INDEX run_ended ON run (end_time) WHERE retain = 0 AND {ENDED}",
    "DROP INDEX run_retained",
    f"CREATE INDEX run_retained ON run (end_time + retain) WHERE retain > 0 AND {ENDED}",
)

MIGRATIONS = history(
    Migration(1, "tables of the engine", (*_STEPS, *_TASKS, *_EVENTS, *_RUNS, *_FLOWS, *_OTHERS)),
    Migration(2, "what workers say and are told", _WORKERS),
    Migration(3, "lists in pages, and what servers have done", _LISTS),
    Migration(4, "phases of servers", _PHASES),
    Migration(5, "runs that are removed piece by piece", _REMOVALS),
    Migration(6, "indexes on what has ended, without lists", _PLAIN_CONDITIONS),
)
