"""Handlers by name, and workflows whose steps Claude does."""

from __future__ import annotations

from afl.runtime.agent.briefing import LLMHandlerConfig as LLMHandlerConfig
from afl.runtime.agent.claude import ClaudeAgentRunner as ClaudeAgentRunner
from afl.runtime.agent.definitions import ToolDefinition as ToolDefinition
from afl.runtime.agent.definitions import tool_definitions as tool_definitions
from afl.runtime.agent.llm_handler import LLMHandler as LLMHandler
from afl.runtime.agent.registry import ToolRegistry as ToolRegistry

__all__ = [
    "ClaudeAgentRunner",
    "LLMHandler",
    "LLMHandlerConfig",
    "ToolDefinition",
    "ToolRegistry",
    "tool_definitions",
]
