"""Loops over mailboxes: agents that receive requests and reply.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    "MailboxLoop": "afl.loops.loop",
    **dict.fromkeys(("AgentLoop", "MainLoop"), "afl.loops.agent_loop"),
    **dict.fromkeys(
        (
            *("AgentLoopRequest", "AgentLoopResult", "AgentLoopConfig", "RunContext"),
            *("MainLoopRequest", "MainLoopResult", "MainLoopConfig", "TurnStatus"),
        ),
        "afl.loops.requests",
    ),
    **dict.fromkeys(("BundleConfig", "BundleRetention"), "afl.loops.bundle_config"),
    **dict.fromkeys(
        ("BundleContext", "LoopRequestState", "LoopRawResponse", "LoopFinalResponse"),
        "afl.loops.execution",
    ),
    **dict.fromkeys(("Turn", "current_turn"), "afl.loops.turn"),
    **dict.fromkeys(("GivenUp", "ReplyNotSent"), "afl.loops.mailbox_source"),
    "Durability": "afl.loops.durable",
    "tool": "afl.agents.tools",
    "Experiment": "afl.agents.experiment",
    **dict.fromkeys(("Deadline", "DeadlineExceeded"), "afl.agents.deadline"),
    "TurnBudget": "afl.agents.turn_budget",
    "Prompt": "afl.agents.prompt",
    "PromptResponse": "afl.agents.evaluation",
    **dict.fromkeys(("MarkdownSection", "ToolsSection", "ResourceSection"), "afl.agents.sections"),
    **dict.fromkeys(("Session", "ModelAnswered", "ToolUsed"), "afl.agents.session"),
    **dict.fromkeys(("TurnRecorder", "TurnSuspended", "TurnCancelled"), "afl.agents.recording"),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.agents.deadline import Deadline as Deadline
    from afl.agents.deadline import DeadlineExceeded as DeadlineExceeded
    from afl.agents.evaluation import PromptResponse as PromptResponse
    from afl.agents.experiment import Experiment as Experiment
    from afl.agents.prompt import Prompt as Prompt
    from afl.agents.recording import TurnCancelled as TurnCancelled
    from afl.agents.recording import TurnRecorder as TurnRecorder
    from afl.agents.recording import TurnSuspended as TurnSuspended
    from afl.agents.sections import MarkdownSection as MarkdownSection
    from afl.agents.sections import ResourceSection as ResourceSection
    from afl.agents.sections import ToolsSection as ToolsSection
    from afl.agents.session import ModelAnswered as ModelAnswered
    from afl.agents.session import Session as Session
    from afl.agents.session import ToolUsed as ToolUsed
    from afl.agents.tools import tool as tool
    from afl.agents.turn_budget import TurnBudget as TurnBudget
    from afl.loops.agent_loop import AgentLoop as AgentLoop
    from afl.loops.agent_loop import MainLoop as MainLoop
    from afl.loops.bundle_config import BundleConfig as BundleConfig
    from afl.loops.bundle_config import BundleRetention as BundleRetention
    from afl.loops.durable import Durability as Durability
    from afl.loops.execution import BundleContext as BundleContext
    from afl.loops.execution import LoopFinalResponse as LoopFinalResponse
    from afl.loops.execution import LoopRawResponse as LoopRawResponse
    from afl.loops.execution import LoopRequestState as LoopRequestState
    from afl.loops.loop import MailboxLoop as MailboxLoop
    from afl.loops.mailbox_source import GivenUp as GivenUp
    from afl.loops.mailbox_source import ReplyNotSent as ReplyNotSent
    from afl.loops.requests import AgentLoopConfig as AgentLoopConfig
    from afl.loops.requests import AgentLoopRequest as AgentLoopRequest
    from afl.loops.requests import AgentLoopResult as AgentLoopResult
    from afl.loops.requests import MainLoopConfig as MainLoopConfig
    from afl.loops.requests import MainLoopRequest as MainLoopRequest
    from afl.loops.requests import MainLoopResult as MainLoopResult
    from afl.loops.requests import RunContext as RunContext
    from afl.loops.requests import TurnStatus as TurnStatus
    from afl.loops.turn import Turn as Turn
    from afl.loops.turn import current_turn as current_turn


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
