"""The work of each state. A state without work is not in the table."""

from __future__ import annotations

from afl.runtime.handlers.base import StateHandler
from afl.runtime.handlers.blocks import (
    BlockExecutionBeginHandler,
    BlockExecutionEndHandler,
    StatementBlocksBeginHandler,
    WaitHandler,
)
from afl.runtime.handlers.capture import StatementCaptureHandler
from afl.runtime.handlers.initialization import EventTransmitHandler, FacetInitHandler
from afl.runtime.handlers.scripts import FacetScriptsHandler
from afl.runtime.states import StepState

HANDLERS: dict[str, StateHandler] = {
    StepState.FACET_INIT_BEGIN: FacetInitHandler(),
    StepState.FACET_SCRIPTS_BEGIN: FacetScriptsHandler(),
    StepState.EVENT_TRANSMIT: EventTransmitHandler(),
    StepState.STATEMENT_BLOCKS_BEGIN: StatementBlocksBeginHandler(),
    StepState.STATEMENT_BLOCKS_CONTINUE: WaitHandler(),
    StepState.STATEMENT_CAPTURE_BEGIN: StatementCaptureHandler(),
    StepState.BLOCK_EXECUTION_BEGIN: BlockExecutionBeginHandler(),
    StepState.BLOCK_EXECUTION_CONTINUE: WaitHandler(),
    StepState.BLOCK_EXECUTION_END: BlockExecutionEndHandler(),
}
