"""Calls of tools: their effects happen once, or a person is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from afl.backoff import Backoff
from afl.log import get_logger
from afl.turns.api import Kind, NewEntry
from afl.turns.effects import (
    Done,
    Effect,
    NotDone,
    Policy,
    causing,
    current_effect,
    effect_key,
    plan_key,
)
from afl.turns.errors import (
    JournalMismatch,
    JournalUnavailable,
    OutcomeUnknown,
    StaleTurn,
    ToolFailed,
    TurnCancelled,
    TurnSuspended,
)
from afl.turns.replay import Call, Intent, Replay, Wanted, intent_of
from afl.turns.values import as_kept, decode, digest, encode
from afl.turns.writing import JournalWriter

_log = get_logger(__name__)

#: How often a call whose answer was lost is made again at once, and when it is after that.
_BACKOFF = Backoff(initial=0.2, factor=3.0, maximum=5.0, jitter=0.2)
_TRIES = 3
_LATER_MS = 30_000
#: The turn is left while the tool runs: nothing is known about the call.
_LEAVING = (TurnSuspended, TurnCancelled, StaleTurn, JournalMismatch, JournalUnavailable)
_INTERRUPTED = (Kind.TOOL_AGAIN, Kind.TOOL_PAUSED)


@dataclass(frozen=True)
class ToolUse:
    """What the code wants of a tool."""

    name: str
    arguments: Any
    call: Callable[[], Awaitable[Any]]
    policy: Policy


class ToolCalls:
    def __init__(self, writer: JournalWriter, replay: Replay) -> None:
        self._writer = writer
        self._replay = replay

    async def use(self, use: ToolUse, call_id: str) -> Any:
        """The result, from the journal or from the tool. Raises ToolFailed, TurnSuspended."""
        given = digest(encode(use.arguments))
        wanted = Wanted(Kind.TOOL_INTENT, use.name, call_id, given)
        call = self._replay.take(wanted)
        may_be_done = call is not None and call.state not in _INTERRUPTED
        if call is None:
            call, may_be_done = await self._intend(wanted, use.arguments)
        if call.is_final:
            return _result(call)
        found = await self._found_out(call, use.policy) if may_be_done else None
        if found is not None:
            return found.value
        if call.state is not Kind.TOOL_INTENT:
            await self._writer.append(_about(call, Kind.TOOL_INTENT, call.first.value))
        return await self._issue(call, use, is_repeat=may_be_done and use.policy.idempotent)

    async def _intend(self, wanted: Wanted, arguments: Any) -> tuple[Call, bool]:
        """Write down that the tool is about to be called; and whether that may have happened
        before, when the turn was planned in another way."""
        await self._writer.boundary()
        call_id = self._replay.unused(wanted.call_id)
        before = self._replay.planned_before(wanted)
        turn_id = self._writer.record.id
        intent = Intent(
            effect_key(turn_id, call_id) if before is None else intent_of(before.first).key,
            plan_key(turn_id, wanted.name, wanted.arguments),
            arguments,
            None if before is None else before.call_id,
        )
        facts = (wanted.name, call_id, wanted.arguments)
        entries = [NewEntry(Kind.TOOL_INTENT, *facts, encode(intent))]
        if before is not None and before.is_final:
            entries.append(NewEntry(before.last.kind, *facts, before.last.value))
        written = await self._writer.append(*entries)
        may_be_done = before is not None and before.state not in _INTERRUPTED
        return Call(written[0], written[-1]), may_be_done

    # Calls that may have been made

    async def _found_out(self, call: Call, policy: Policy) -> Done | None:
        """What came of it; None if it is to be made under its old key. Raises TurnSuspended if
        nobody knows."""
        is_known_unknown = call.state is Kind.TOOL_UNKNOWN
        if policy.idempotent and not is_known_unknown:
            return None
        found = None if is_known_unknown else await self._reconciled(call, policy)
        if isinstance(found, Done):
            return await self._done(call, found.value)
        if isinstance(found, NotDone):
            return None
        unknown = _about(call, Kind.TOOL_UNKNOWN, call.first.value)
        reason = f"waits: nobody knows whether {call.first.name} ({call.call_id}) was done"
        return await self._writer.wait(reason, None, *([] if is_known_unknown else [unknown]))

    async def _reconciled(self, call: Call, policy: Policy) -> Any:
        reconcile, key = policy.reconcile, intent_of(call.first).key
        if reconcile is None:
            return None
        try:
            return await self._writer.do(lambda: reconcile(key))
        except Exception as error:
            _log.warning("effect_not_reconciled", tool=call.first.name, key=key, error=str(error))
            return None

    # Making them

    async def _issue(self, call: Call, use: ToolUse, *, is_repeat: bool) -> Any:
        for tries in range(1, _TRIES + 1):
            done = await self._attempted(call, use, is_repeat=is_repeat)
            done = done or await self._found_out(call, use.policy)
            if done is not None:
                return done.value
            is_repeat = use.policy.idempotent
            pause_s = _BACKOFF.delay(tries)
            await self._writer.do(partial(self._writer.clock.sleep, pause_s))
        return await self._writer.wait(f"waits for {use.name}, which gave no answer", _LATER_MS)

    async def _attempted(self, call: Call, use: ToolUse, *, is_repeat: bool) -> Done | None:
        """None if the tool cannot tell whether it was done. Raises ToolFailed."""
        facts = (call.call_id, intent_of(call.first).key, call.first.name, current_effect())
        effect = Effect(*facts, is_repeat=is_repeat)
        try:
            with causing(effect):
                result = await use.call()
        except _LEAVING:
            raise
        except Exception as error:
            if _settles_nothing(error, effect):
                _log.warning("effect_unknown", tool=use.name, key=effect.key, error=str(error))
                return None
            text = str(error) or type(error).__name__
            value, text = as_kept(text)
            await self._writer.append(_about(call, Kind.TOOL_FAILED, value))
            raise ToolFailed(text) from error
        return await self._done(call, result)

    async def _done(self, call: Call, result: Any) -> Done:
        """Raises UsageError if the result cannot be kept. The tool has not failed then, so its call
        stays open: whoever resumes finds out, or asks a person."""
        value, kept = as_kept(result)
        await self._writer.append(_about(call, Kind.TOOL_DONE, value))
        return Done(kept)


def _settles_nothing(error: Exception, effect: Effect) -> bool:
    """A server that cannot be reached now may have acted when it was asked before."""
    return isinstance(error, OutcomeUnknown) or (effect.is_repeat and isinstance(error, OSError))


def _about(call: Call, kind: Kind, value: bytes) -> NewEntry:
    return NewEntry(kind, call.first.name, call.call_id, call.first.arguments, value)


def left_open(replay: Replay) -> list[NewEntry]:
    """Effects from before a restart that nobody came back to: a person must look."""
    return [_about(each, Kind.TOOL_UNKNOWN, each.first.value) for each in replay.left_open]


def _result(call: Call) -> Any:
    value = decode(call.last.value)
    if call.state is Kind.TOOL_FAILED:
        raise ToolFailed(str(value))
    return value
