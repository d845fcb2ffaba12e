"""Waiting in a turn: for a time, or for a person. It costs nothing meanwhile."""

from __future__ import annotations

from typing import Any

from afl.turns.api import Kind, NewEntry
from afl.turns.errors import AlreadyAnswered, InputTimedOut
from afl.turns.replay import Call, Replay, Wanted
from afl.turns.values import decode, digest, encode
from afl.turns.writing import JournalWriter

#: Shorter sleeps keep their thread: leaving the turn takes about as long.
_SHORT_MS = 1000
REQUIRED: Any = object()


async def sleep(writer: JournalWriter, replay: Replay, call_id: str, seconds: float) -> None:
    known = replay.take(Wanted(Kind.SLEEP, "", call_id))
    now = await writer.now_ms()
    until: int = decode(known.last.value) if known else now + round(seconds * 1000)
    entries = []
    if known is None:
        await writer.boundary()
        new = NewEntry(Kind.SLEEP, call_id=replay.unused(call_id), value=encode(until))
        entries.append(new)
    left = until - now
    if left > _SHORT_MS:
        await writer.wait(f"sleeps for {left / 1000:g} s", left, *entries)
    if entries:
        await writer.append(*entries)
    await writer.do(lambda: writer.clock.sleep(left / 1000))


async def ask(
    writer: JournalWriter,
    replay: Replay,
    call_id: str,
    question: Any,
    timeout_s: float | None,
    default: Any,
) -> Any:
    wanted = Wanted(Kind.INPUT_ASKED, "", call_id, digest(encode(question)))
    known = replay.take(wanted)
    if known is None:
        await writer.boundary()
        due = None if timeout_s is None else round(timeout_s * 1000)
        value = encode({"question": question, "due_in": due})
        facts = ("", replay.unused(call_id), wanted.arguments, value)
        await writer.wait("waits for an answer", due, NewEntry(Kind.INPUT_ASKED, *facts))
    if known.state is Kind.INPUT_GIVEN:
        return decode(known.last.value)
    if known.state is Kind.INPUT_ASKED:
        await _require_late(writer, known)
        try:
            await writer.append(NewEntry(Kind.INPUT_EXPIRED, call_id=known.call_id))
        except AlreadyAnswered:  # since the journal was read
            return await _answer(writer, known)
    if default is REQUIRED:
        raise InputTimedOut(f"nobody has answered the question {known.call_id} in time")
    return default


async def _answer(writer: JournalWriter, asked: Call) -> Any:
    later = await writer.read(asked.first.seq)
    facts = (Kind.INPUT_GIVEN, asked.call_id)
    return next(decode(each.value) for each in later if (each.kind, each.call_id) == facts)


async def _require_late(writer: JournalWriter, asked: Call) -> None:
    """Wait on unless the time of the question is over."""
    due_in = decode(asked.first.value)["due_in"]
    left = None if due_in is None else asked.first.at + due_in - await writer.now_ms()
    if left is None or left > 0:
        await writer.wait("waits for an answer", left)
