"""The runtime: stores, the evaluator, and the records they work on.

Every public name is here, loaded when it is first used: who wants one store should not pay for
the drivers of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(("Evaluator", "Pending"), "afl.runtime.evaluator"),
    **dict.fromkeys(("ExecutionResult", "ExecutionStatus"), "afl.runtime.results"),
    "ExecutionContext": "afl.runtime.context",
    "NextClaim": "afl.runtime.claims",
    "MemoryStore": "afl.runtime.memory_store",
    "SqliteStore": "afl.runtime.sql_store",
    **dict.fromkeys(
        ("PersistenceAPI", "IterationChanges", "View", "Claim"), "afl.runtime.persistence"
    ),
    **dict.fromkeys(
        (
            *("TaskDefinition", "TaskState", "EventDefinition", "RunnerDefinition", "RunnerState"),
            *("WorkflowDefinition", "WorkflowMetaData", "FlowDefinition", "FlowIdentity"),
            *("SourceText", "PublishedSource", "HandlerRegistration", "ServerDefinition"),
            *("ServerState", "HandledCount", "LockDefinition", "LockMetaData", "LogDefinition"),
            *("NoteType", "NoteOriginator", "NoteImportance", "Parameter", "UserDefinition"),
        ),
        "afl.runtime.entities",
    ),
    **dict.fromkeys(("StepDefinition", "StepTransition"), "afl.runtime.step"),
    **dict.fromkeys(
        (
            *("StepState", "EventState", "STEP_TRANSITIONS", "BLOCK_TRANSITIONS"),
            *("YIELD_TRANSITIONS", "SCHEMA_TRANSITIONS", "EVENT_TRANSITIONS"),
            *("get_next_state", "select_transitions"),
        ),
        "afl.runtime.states",
    ),
    **dict.fromkeys(
        (
            *("StepId", "BlockId", "EventId", "WorkflowId", "StatementId", "step_id", "block_id"),
            *("event_id", "workflow_id", "generate_id", "VersionInfo", "AttributeValue"),
            *("FacetAttributes", "ObjectType"),
        ),
        "afl.runtime.types",
    ),
    **dict.fromkeys(("EventManager", "EventDispatcher"), "afl.runtime.events"),
    **dict.fromkeys(
        ("ScriptExecutor", "ScriptResult", "ScriptError"), "afl.runtime.script_executor"
    ),
    **dict.fromkeys(
        (
            *("StepFailure", "StepNotFoundError", "RunNotFoundError", "InvalidStepStateError"),
            *("InvalidRunStateError", "StaleFence"),
        ),
        "afl.runtime.errors",
    ),
    **dict.fromkeys(
        (
            *("BaseLoop", "LoopGroup", "LoopRuns", "LoopState", "Runnable"),
            *("ShutdownCoordinator", "Urgency", "wait_until"),
        ),
        "afl.runtime.lifecycle",
    ),
    **dict.fromkeys(
        (
            *("Dependency", "WarmupStep", "http_dependency", "mailbox_dependency"),
            *("model_dependency", "store_dependency"),
        ),
        "afl.runtime.dependencies",
    ),
    "Phase": "afl.runtime.phases",
    **dict.fromkeys(("Replaced", "take_back"), "afl.runtime.signals"),
    "Heartbeat": "afl.runtime.heartbeat",
    **dict.fromkeys(("HealthServer", "Report"), "afl.runtime.health"),
    **dict.fromkeys(("Watchdog", "LoopView", "Stall", "StallStage"), "afl.runtime.watchdog"),
    **dict.fromkeys(
        ("Notice", "SpotNotice", "PreemptionNotice", "FileTrigger"), "afl.runtime.notices"
    ),
    "Metrics": "afl.runtime.metrics",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'afl.runtime' has no attribute '{name}'")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
