"""The tables of the engine, and how they came to be.

Every table has a row number that grows with each new row: "oldest" and "newest" mean that.

Rows of steps and tasks are changed often. Pages have room for the new versions of their rows; and
what changes in a step is in no index, so that changing it costs no index anything.
"""

from __future__ import annotations

from afl.db.migrations import Migration, history

COMPONENT = "engine"

_STEPS = (
    """\
CREATE TABLE afl_step (
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    id text PRIMARY KEY,
    object_type text NOT NULL,
    workflow_id text NOT NULL,
    statement_id text,
    container_type text,
    container_id text,
    block_id text,
    root_id text,
    state text NOT NULL,
    original_state text,
    current_state text,
    flags bigint NOT NULL,
    error text,
    facet_name text NOT NULL,
    params text,
    returns text,
    version text NOT NULL,
    foreach_var text,
    foreach_value text,
    timestamp bigint,
    name text NOT NULL,
    position bigint NOT NULL,
    pending bigint NOT NULL,
    failed bigint NOT NULL,
    depth bigint NOT NULL,
    caught bigint NOT NULL,
    update_order bigint NOT NULL,
    sequence bigint NOT NULL,
    is_stray bigint NOT NULL
) WITH (fillfactor = 70)""",
    # No index on blocks, containers or states: each would cost every new step a page, and those
    # who ask for them can afford to look through a run.
    "CREATE INDEX afl_step_run ON afl_step (workflow_id, seq)",
    # Collected at the end of their container, all at once.
    """\
CREATE INDEX afl_step_yield ON afl_step (container_id) WHERE object_type = 'YieldAssignment'""",
    # A statement has one step in a block. The engine's have ids that follow from that; others are
    # compared here. Steps without a statement are not: NULLs differ.
    "CREATE UNIQUE INDEX afl_step_stray ON afl_step (block_id, statement_id) WHERE is_stray = 1",
)

_TASKS = (
    """\
CREATE TABLE afl_task (
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    uuid text PRIMARY KEY,
    name text NOT NULL,
    runner_id text NOT NULL,
    workflow_id text NOT NULL,
    flow_id text NOT NULL,
    step_id text NOT NULL,
    state text NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    error text,
    task_list_name text NOT NULL,
    data_type text NOT NULL,
    data text,
    owner text NOT NULL,
    lease_expires bigint NOT NULL,
    fence bigint NOT NULL,
    deliveries bigint NOT NULL,
    failures bigint NOT NULL,
    not_before bigint NOT NULL,
    idempotency_key text NOT NULL,
    lease_ms bigint NOT NULL,
    held boolean NOT NULL,
    timeout_ms bigint NOT NULL,
    max_attempts bigint NOT NULL,
    backoff_ms bigint NOT NULL,
    version bigint NOT NULL,
    short_name text NOT NULL,
    is_stray bigint NOT NULL
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0
)""",
    "CREATE INDEX afl_task_seq ON afl_task (seq)",
    # The queue: what may be claimed now is one range of it for each name, in its order, and names
    # that end alike stand together.
    """\
CREATE INDEX afl_task_queue
ON afl_task (task_list_name, short_name, name, held, not_before, seq)
WHERE state = 'pending'""",
    # A step has one running task. Work of the runtime itself has no step.
    """\
CREATE UNIQUE INDEX afl_task_running ON afl_task (step_id)
WHERE state = 'running' AND step_id <> ''""",
    # Leases that are over; and those that begin in the future, because the clock was set back.
    "CREATE INDEX afl_task_lease ON afl_task (lease_expires) WHERE state = 'running'",
    # Each has a condition of its own, so that nobody is tempted to use one in place of the other.
    """\
CREATE INDEX afl_task_leased ON afl_task ((lease_expires - lease_ms))
WHERE state = 'running' AND lease_ms <> 0""",
    # Tasks that are not the one of their step. Those are found by their steps.
    "CREATE INDEX afl_task_stray ON afl_task (workflow_id) WHERE is_stray = 1",
    # What waits for an operator.
    """\
CREATE INDEX afl_task_stopped ON afl_task (state, seq)
WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')""",
)

_EVENTS = (
    """\
CREATE TABLE afl_event (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL,
    step_id text NOT NULL,
    workflow_id text NOT NULL,
    state text NOT NULL,
    event_type text NOT NULL,
    payload text NOT NULL
)""",
    "CREATE UNIQUE INDEX afl_event_id ON afl_event (id)",
    "CREATE INDEX afl_event_run ON afl_event (workflow_id)",
)

_RUNS = (
    """\
CREATE TABLE afl_run (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL,
    workflow_id text NOT NULL,
    workflow text NOT NULL,
    parameters text NOT NULL,
    step_id text,
    "user" text,
    start_time bigint NOT NULL,
    end_time bigint NOT NULL,
    duration bigint NOT NULL,
    retain bigint NOT NULL,
    state text NOT NULL,
    task_list text NOT NULL,
    "key" text,
    error text,
    version bigint NOT NULL,
    flow_id text NOT NULL
)""",
    "CREATE UNIQUE INDEX afl_run_uuid ON afl_run (uuid)",
    "CREATE INDEX afl_run_id ON afl_run (workflow_id, seq)",
    'CREATE UNIQUE INDEX afl_run_key ON afl_run ("key")',
    "CREATE INDEX afl_run_state ON afl_run (state, seq)",
    "CREATE INDEX afl_run_flow ON afl_run (flow_id)",
    # What may be removed, oldest first: as the store is told, and as the run itself says.
    """\
CREATE INDEX afl_run_ended ON afl_run (end_time)
WHERE retain = 0 AND state IN ('completed', 'failed', 'cancelled')""",
    """\
CREATE INDEX afl_run_retained ON afl_run ((end_time + retain))
WHERE retain > 0 AND state IN ('completed', 'failed', 'cancelled')""",
)

_FLOWS = (
    """\
CREATE TABLE afl_flow (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL UNIQUE,
    name text NOT NULL,
    compiled_sources text NOT NULL,
    digest text NOT NULL,
    program text NOT NULL,
    flow_name text NOT NULL,
    flow_path text NOT NULL
)""",
    "CREATE INDEX afl_flow_name ON afl_flow (flow_name)",
    "CREATE INDEX afl_flow_path ON afl_flow (flow_path)",
    """\
CREATE TABLE afl_workflow (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL UNIQUE,
    name text NOT NULL,
    namespace_id text NOT NULL,
    facet_id text NOT NULL,
    flow_id text NOT NULL,
    starting_step text NOT NULL,
    version text NOT NULL,
    metadata text,
    documentation text,
    date bigint NOT NULL
)""",
    "CREATE INDEX afl_workflow_name ON afl_workflow (name)",
    "CREATE INDEX afl_workflow_flow ON afl_workflow (flow_id)",
)

_OTHERS = (
    """\
CREATE TABLE afl_log (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL UNIQUE,
    "order" bigint NOT NULL,
    runner_id text NOT NULL,
    step_id text,
    object_id text NOT NULL,
    object_type text NOT NULL,
    note_originator text NOT NULL,
    note_type text NOT NULL,
    note_importance bigint NOT NULL,
    message text NOT NULL,
    state text NOT NULL,
    line bigint NOT NULL,
    file text NOT NULL,
    details text NOT NULL,
    time bigint NOT NULL
)""",
    'CREATE INDEX afl_log_runner ON afl_log (runner_id, "order")',
    """\
CREATE TABLE afl_server (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL UNIQUE,
    server_group text NOT NULL,
    service_name text NOT NULL,
    server_name text NOT NULL,
    server_ips text NOT NULL,
    start_time bigint NOT NULL,
    ping_time bigint NOT NULL,
    topics text NOT NULL,
    handlers text NOT NULL,
    handled text NOT NULL,
    state text NOT NULL,
    manager text NOT NULL,
    error text,
    http_port bigint NOT NULL,
    version text NOT NULL,
    task_list text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    in_flight bigint NOT NULL,
    wanted text NOT NULL,
    incidents text NOT NULL
) WITH (fillfactor = 50)""",
    """\
CREATE TABLE afl_lock (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    "key" text NOT NULL UNIQUE,
    acquired_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    meta text,
    owner text NOT NULL,
    length_ms bigint NOT NULL
)""",
    """\
CREATE TABLE afl_handler (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    facet_name text NOT NULL UNIQUE,
    module_uri text NOT NULL,
    entrypoint text NOT NULL,
    version text NOT NULL,
    checksum text NOT NULL,
    timeout_ms bigint NOT NULL,
    requirements text NOT NULL,
    metadata text NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    isolation text NOT NULL,
    on_lost text NOT NULL,
    is_enabled boolean NOT NULL,
    load_error text
)""",
    """\
CREATE TABLE afl_source (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL,
    namespace_name text NOT NULL,
    source_text text NOT NULL,
    namespaces_defined text NOT NULL,
    version text NOT NULL,
    published_at bigint NOT NULL,
    origin text NOT NULL,
    checksum text NOT NULL,
    UNIQUE (namespace_name, version)
)""",
    # One row: how often a registration was saved or removed.
    "CREATE TABLE afl_handler_version (version bigint NOT NULL)",
    "INSERT INTO afl_handler_version (version) VALUES (0)",
)

_LISTS = (
    # Found by their beginnings, so in the order of their characters, whatever the language of the
    # database is.
    'ALTER TABLE afl_run ALTER COLUMN workflow_id TYPE text COLLATE "C"',
    'ALTER TABLE afl_task ALTER COLUMN uuid TYPE text COLLATE "C"',
    """ALTER TABLE afl_run ADD COLUMN workflow_name text COLLATE "C" NOT NULL DEFAULT ''""",
    "UPDATE afl_run SET workflow_name = coalesce(workflow::json ->> 'name', '')",
    # Runs of a workflow in a state, newest last.
    "CREATE INDEX afl_run_workflow ON afl_run (workflow_name, state, seq)",
    # In the order of their arrival; whoever wants another one reads all of a run anyway.
    "DROP INDEX afl_log_runner",
    "CREATE INDEX afl_log_runner ON afl_log (runner_id, seq)",
    "ALTER TABLE afl_server ADD COLUMN beat_ms bigint NOT NULL DEFAULT 0",
    "ALTER TABLE afl_server ADD COLUMN finished text NOT NULL DEFAULT '[]'",
)

_PHASES = ("ALTER TABLE afl_server ADD COLUMN phase text NOT NULL DEFAULT ''",)

_REMOVALS = (
    # Runs that are gone, and of which there are rows left.
    """\
CREATE TABLE afl_removal (
    seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL UNIQUE,
    workflow_id text NOT NULL,
    flow_id text NOT NULL
)""",
)

MIGRATIONS = history(
    Migration(1, "tables of the engine", (*_STEPS, *_TASKS, *_EVENTS, *_RUNS, *_FLOWS, *_OTHERS)),
    Migration(2, "lists in pages, and what servers have done", _LISTS),
    Migration(3, "phases of servers", _PHASES),
    Migration(4, "runs that are removed piece by piece", _REMOVALS),
)
