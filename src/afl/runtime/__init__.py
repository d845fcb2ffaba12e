"""The runtime: stores, the evaluator, and the records they work on.

Every public name is here, loaded when it is first used: who wants one store should not pay for
the drivers of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(("Evaluator", "Pending"), "afl.runtime.evaluator"),
    **dict.fromkeys(("ExecutionResult", "ExecutionStatus"), "afl.runtime.results"),
    "ExecutionContext": "afl.runtime.context",
    **dict.fromkeys(("NextClaim", "RetryPolicy"), "afl.runtime.claims"),
    "MemoryStore": "afl.runtime.memory_store",
    "SqliteStore": "afl.runtime.sql_store",
    "PostgresStore": "afl.runtime.postgres_store",
    "MongoDBConfig": "afl.runtime.mongo_store",
    "MongoStore": "afl.runtime.mongo_store",
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
            *("Isolation", "OnLost"),
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
            *("InvalidRunStateError", "StaleFence", "TaskNotFoundError", "InvalidTaskStateError"),
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
    **dict.fromkeys(("AgentPoller", "AgentPollerConfig"), "afl.runtime.agent_poller"),
    **dict.fromkeys(("RegistryRunner", "RegistryRunnerConfig"), "afl.runtime.registry_runner"),
    **dict.fromkeys(("RunnerService", "RunnerConfig"), "afl.runtime.runner"),
    "HandlerContext": "afl.runtime.dispatch",
    **dict.fromkeys(("AgentLoop", "MainLoop"), "afl.loops.agent_loop"),
    **dict.fromkeys(
        (
            *("AgentLoopRequest", "AgentLoopResult", "AgentLoopConfig", "RunContext"),
            *("MainLoopRequest", "MainLoopResult", "MainLoopConfig", "TurnStatus"),
        ),
        "afl.loops.requests",
    ),
    "MailboxLoop": "afl.loops.loop",
    **dict.fromkeys(
        (
            *("ToolRegistry", "ClaudeAgentRunner", "LLMHandler", "LLMHandlerConfig"),
            *("ToolDefinition", "tool_definitions"),
        ),
        "afl.runtime.agent",
    ),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.loops.agent_loop import AgentLoop as AgentLoop
    from afl.loops.agent_loop import MainLoop as MainLoop
    from afl.loops.loop import MailboxLoop as MailboxLoop
    from afl.loops.requests import AgentLoopConfig as AgentLoopConfig
    from afl.loops.requests import AgentLoopRequest as AgentLoopRequest
    from afl.loops.requests import AgentLoopResult as AgentLoopResult
    from afl.loops.requests import MainLoopConfig as MainLoopConfig
    from afl.loops.requests import MainLoopRequest as MainLoopRequest
    from afl.loops.requests import MainLoopResult as MainLoopResult
    from afl.loops.requests import RunContext as RunContext
    from afl.loops.requests import TurnStatus as TurnStatus
    from afl.runtime.agent import ClaudeAgentRunner as ClaudeAgentRunner
    from afl.runtime.agent import LLMHandler as LLMHandler
    from afl.runtime.agent import LLMHandlerConfig as LLMHandlerConfig
    from afl.runtime.agent import ToolDefinition as ToolDefinition
    from afl.runtime.agent import ToolRegistry as ToolRegistry
    from afl.runtime.agent import tool_definitions as tool_definitions
    from afl.runtime.agent_poller import AgentPoller as AgentPoller
    from afl.runtime.agent_poller import AgentPollerConfig as AgentPollerConfig
    from afl.runtime.claims import NextClaim as NextClaim
    from afl.runtime.claims import RetryPolicy as RetryPolicy
    from afl.runtime.context import ExecutionContext as ExecutionContext
    from afl.runtime.dependencies import Dependency as Dependency
    from afl.runtime.dependencies import WarmupStep as WarmupStep
    from afl.runtime.dependencies import http_dependency as http_dependency
    from afl.runtime.dependencies import mailbox_dependency as mailbox_dependency
    from afl.runtime.dependencies import model_dependency as model_dependency
    from afl.runtime.dependencies import store_dependency as store_dependency
    from afl.runtime.dispatch import HandlerContext as HandlerContext
    from afl.runtime.entities import EventDefinition as EventDefinition
    from afl.runtime.entities import FlowDefinition as FlowDefinition
    from afl.runtime.entities import FlowIdentity as FlowIdentity
    from afl.runtime.entities import HandledCount as HandledCount
    from afl.runtime.entities import HandlerRegistration as HandlerRegistration
    from afl.runtime.entities import Isolation as Isolation
    from afl.runtime.entities import LockDefinition as LockDefinition
    from afl.runtime.entities import LockMetaData as LockMetaData
    from afl.runtime.entities import LogDefinition as LogDefinition
    from afl.runtime.entities import NoteImportance as NoteImportance
    from afl.runtime.entities import NoteOriginator as NoteOriginator
    from afl.runtime.entities import NoteType as NoteType
    from afl.runtime.entities import OnLost as OnLost
    from afl.runtime.entities import Parameter as Parameter
    from afl.runtime.entities import PublishedSource as PublishedSource
    from afl.runtime.entities import RunnerDefinition as RunnerDefinition
    from afl.runtime.entities import RunnerState as RunnerState
    from afl.runtime.entities import ServerDefinition as ServerDefinition
    from afl.runtime.entities import ServerState as ServerState
    from afl.runtime.entities import SourceText as SourceText
    from afl.runtime.entities import TaskDefinition as TaskDefinition
    from afl.runtime.entities import TaskState as TaskState
    from afl.runtime.entities import UserDefinition as UserDefinition
    from afl.runtime.entities import WorkflowDefinition as WorkflowDefinition
    from afl.runtime.entities import WorkflowMetaData as WorkflowMetaData
    from afl.runtime.errors import InvalidRunStateError as InvalidRunStateError
    from afl.runtime.errors import InvalidStepStateError as InvalidStepStateError
    from afl.runtime.errors import InvalidTaskStateError as InvalidTaskStateError
    from afl.runtime.errors import RunNotFoundError as RunNotFoundError
    from afl.runtime.errors import StaleFence as StaleFence
    from afl.runtime.errors import StepFailure as StepFailure
    from afl.runtime.errors import StepNotFoundError as StepNotFoundError
    from afl.runtime.errors import TaskNotFoundError as TaskNotFoundError
    from afl.runtime.evaluator import Evaluator as Evaluator
    from afl.runtime.evaluator import Pending as Pending
    from afl.runtime.events import EventDispatcher as EventDispatcher
    from afl.runtime.events import EventManager as EventManager
    from afl.runtime.health import HealthServer as HealthServer
    from afl.runtime.health import Report as Report
    from afl.runtime.heartbeat import Heartbeat as Heartbeat
    from afl.runtime.lifecycle import BaseLoop as BaseLoop
    from afl.runtime.lifecycle import LoopGroup as LoopGroup
    from afl.runtime.lifecycle import LoopRuns as LoopRuns
    from afl.runtime.lifecycle import LoopState as LoopState
    from afl.runtime.lifecycle import Runnable as Runnable
    from afl.runtime.lifecycle import ShutdownCoordinator as ShutdownCoordinator
    from afl.runtime.lifecycle import Urgency as Urgency
    from afl.runtime.lifecycle import wait_until as wait_until
    from afl.runtime.memory_store import MemoryStore as MemoryStore
    from afl.runtime.metrics import Metrics as Metrics
    from afl.runtime.mongo_store import MongoDBConfig as MongoDBConfig
    from afl.runtime.mongo_store import MongoStore as MongoStore
    from afl.runtime.notices import FileTrigger as FileTrigger
    from afl.runtime.notices import Notice as Notice
    from afl.runtime.notices import PreemptionNotice as PreemptionNotice
    from afl.runtime.notices import SpotNotice as SpotNotice
    from afl.runtime.persistence import Claim as Claim
    from afl.runtime.persistence import IterationChanges as IterationChanges
    from afl.runtime.persistence import PersistenceAPI as PersistenceAPI
    from afl.runtime.persistence import View as View
    from afl.runtime.phases import Phase as Phase
    from afl.runtime.postgres_store import PostgresStore as PostgresStore
    from afl.runtime.registry_runner import RegistryRunner as RegistryRunner
    from afl.runtime.registry_runner import RegistryRunnerConfig as RegistryRunnerConfig
    from afl.runtime.results import ExecutionResult as ExecutionResult
    from afl.runtime.results import ExecutionStatus as ExecutionStatus
    from afl.runtime.runner import RunnerConfig as RunnerConfig
    from afl.runtime.runner import RunnerService as RunnerService
    from afl.runtime.script_executor import ScriptError as ScriptError
    from afl.runtime.script_executor import ScriptExecutor as ScriptExecutor
    from afl.runtime.script_executor import ScriptResult as ScriptResult
    from afl.runtime.signals import Replaced as Replaced
    from afl.runtime.signals import take_back as take_back
    from afl.runtime.sql_store import SqliteStore as SqliteStore
    from afl.runtime.states import BLOCK_TRANSITIONS as BLOCK_TRANSITIONS
    from afl.runtime.states import EVENT_TRANSITIONS as EVENT_TRANSITIONS
    from afl.runtime.states import SCHEMA_TRANSITIONS as SCHEMA_TRANSITIONS
    from afl.runtime.states import STEP_TRANSITIONS as STEP_TRANSITIONS
    from afl.runtime.states import YIELD_TRANSITIONS as YIELD_TRANSITIONS
    from afl.runtime.states import EventState as EventState
    from afl.runtime.states import StepState as StepState
    from afl.runtime.states import get_next_state as get_next_state
    from afl.runtime.states import select_transitions as select_transitions
    from afl.runtime.step import StepDefinition as StepDefinition
    from afl.runtime.step import StepTransition as StepTransition
    from afl.runtime.types import AttributeValue as AttributeValue
    from afl.runtime.types import BlockId as BlockId
    from afl.runtime.types import EventId as EventId
    from afl.runtime.types import FacetAttributes as FacetAttributes
    from afl.runtime.types import ObjectType as ObjectType
    from afl.runtime.types import StatementId as StatementId
    from afl.runtime.types import StepId as StepId
    from afl.runtime.types import VersionInfo as VersionInfo
    from afl.runtime.types import WorkflowId as WorkflowId
    from afl.runtime.types import block_id as block_id
    from afl.runtime.types import event_id as event_id
    from afl.runtime.types import generate_id as generate_id
    from afl.runtime.types import step_id as step_id
    from afl.runtime.types import workflow_id as workflow_id
    from afl.runtime.watchdog import LoopView as LoopView
    from afl.runtime.watchdog import Stall as Stall
    from afl.runtime.watchdog import StallStage as StallStage
    from afl.runtime.watchdog import Watchdog as Watchdog


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
