"""A turn that is being done: everything that it does goes through its journal.

What the journal has already is not done again. What is new is written before it counts: the
answer of a model before its tools are called, the key of a tool call before the call, its result
before anybody sees it. So whoever is killed, the next one goes on where the journal ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.turns import waits
from afl.turns.api import Ending, Kind, NewEntry, TurnRecord, TurnState, TurnStore
from afl.turns.effects import UNDECLARED, Policy, current_effect
from afl.turns.errors import JournalMismatch, TurnSuspended
from afl.turns.replay import Replay, Wanted
from afl.turns.speech import Speech
from afl.turns.tokens import Tokens
from afl.turns.tool_calls import ToolCalls, ToolUse, left_open
from afl.turns.values import as_kept, decode, encode
from afl.turns.waits import REQUIRED
from afl.turns.writing import JournalWriter, OnThisThread, Successor, Through, blocking


class Turn:
    """One attempt at a turn, which `store` has begun. It makes one call at a time.

    Every call raises StaleTurn once somebody else has the turn, or it was sealed; TurnSuspended
    when it is to go on later; JournalMismatch when the code does not fit what was done before.
    """

    def __init__(
        self,
        store: TurnStore,
        record: TurnRecord,
        *,
        tokens: Tokens | None = None,
        through: Through | None = None,
        clock: Clock = SYSTEM_CLOCK,
        is_detached: bool = True,
        successor: Successor = lambda: None,
    ) -> None:
        entries = store.read(record.id)
        self._writer = JournalWriter(
            store,
            record,
            tokens or Tokens([store.secret()], clock=clock),
            through or OnThisThread(),
            clock,
            known=entries[-1].seq if entries else 0,
            is_detached=is_detached,
            successor=successor,
        )
        self._replay = Replay(record.id, entries)
        self._tools = ToolCalls(self._writer, self._replay)
        #: Of the model that is being asked.
        self._speech: Speech | None = None

    @property
    def id(self) -> str:
        return self._writer.record.id

    @property
    def record(self) -> TurnRecord:
        """As it was after the last write."""
        return self._writer.record

    # What code does in a turn

    def model(self, call: Callable[[], Any], *, name: str = "") -> Any:
        """The answer of a model, which must be JSON; `call` asks for it. What this gives is the
        value of that JSON, also the first time: a tuple is a list, a dataclass a dict.

        Raises UsageError for what cannot be JSON.
        """
        return blocking(self.model_async(_later(call), name=name))

    def stream(self, text: str) -> None:
        """Let whoever follows the turn read what a model says, before its answer is whole: within
        the call of `model`. Never waits; if the call fails, or is made elsewhere, it is void.

        Raises UsageError if no model is being asked.
        """
        if self._speech is None:
            raise UsageError("no model is being asked: stream its words within the call of model")
        self._speech.say(text)

    def hear(self, text: str) -> None:
        """Like `stream`, for who may still listen when nobody is asked any more."""
        if self._speech is not None:
            self._speech.say(text)

    def hear_again(self) -> None:
        """What the model has said in this call is void: it begins anew."""
        if self._speech is not None:
            self._speech.begin_again()

    def tool(
        self,
        name: str,
        arguments: Any,
        call: Callable[[], Any],
        *,
        call_id: str = "",
        policy: Policy = UNDECLARED,
    ) -> Any:
        """What a tool returned, which must be JSON; `call` uses it. What this gives is the value of
        that JSON, like that of `model`.

        Raises ToolFailed if it raises, or did. Raises UsageError for what cannot be JSON: the tool
        has acted then, so the call stays open as if it had been interrupted.
        """
        work = self.tool_async(name, arguments, _later(call), call_id=call_id, policy=policy)
        return blocking(work)

    def remember(self, delta: Any) -> None:
        """Keep a change of what the agent remembers; once, however often the turn is resumed."""
        self._say(Kind.MEMORY, delta)

    @property
    def memory(self) -> list[Any]:
        """What was remembered before this attempt."""
        return [decode(each.value) for each in self._replay.memory]

    def note(self, remark: Any) -> None:
        """Keep a remark for whoever looks at the turn."""
        self._say(Kind.NOTE, remark)

    def sleep(self, seconds: float) -> None:
        """Go on after this time. Long sleeps leave the turn in the store."""
        blocking(self.sleep_async(seconds))

    def wait_for_input(
        self, question: Any, *, timeout_s: float | None = None, default: Any = REQUIRED
    ) -> Any:
        """A person's answer. The turn is left in the store until it comes.

        After `timeout_s` the answer is the default. Raises InputTimedOut if there is none.
        """
        return blocking(self.ask_async(question, timeout_s=timeout_s, default=default))

    @property
    def suspend_requested(self) -> bool:
        """Whether the turn will be left at its next call: end what takes long before that."""
        return self._writer.suspend_requested

    def request_suspend(self, reason: str) -> None:
        """Leave the turn at its next call. From any thread."""
        self._writer.request_suspend(reason)

    # The same for coroutines

    async def model_async(self, call: Callable[[], Awaitable[Any]], *, name: str = "") -> Any:
        wanted = Wanted(Kind.MODEL, name, self._call_id("model"))
        known = self._replay.take(wanted)
        if known is not None:
            return decode(known.last.value)
        await self._writer.boundary()
        call_id = self._replay.unused(wanted.call_id)
        answer, value = await self._said(call, call_id)
        await self._writer.append(NewEntry(Kind.MODEL, name, call_id, value=value))
        return answer

    async def _said(self, call: Callable[[], Awaitable[Any]], call_id: str) -> tuple[Any, bytes]:
        """The answer as it is kept, and that as JSON; what is heard of it meanwhile is for those
        who follow."""
        speech = self._speech = self._writer.speech(call_id)
        try:
            value, answer = as_kept(await call())
        except BaseException:
            speech.give_up()
            raise
        finally:
            self._speech = None
        if speech.end():
            await self._writer.take_back(call_id)
        return answer, value

    async def tool_async(
        self,
        name: str,
        arguments: Any,
        call: Callable[[], Awaitable[Any]],
        *,
        call_id: str = "",
        policy: Policy = UNDECLARED,
    ) -> Any:
        use = ToolUse(name, arguments, call, policy)
        return await self._tools.use(use, self._call_id(call_id or name))

    async def sleep_async(self, seconds: float) -> None:
        await waits.sleep(self._writer, self._replay, self._call_id("sleep"), seconds)

    async def ask_async(
        self, question: Any, *, timeout_s: float | None = None, default: Any = REQUIRED
    ) -> Any:
        call_id = self._call_id("input")
        return await waits.ask(self._writer, self._replay, call_id, question, timeout_s, default)

    # Ends

    async def finish(self, ending: Ending) -> TurnRecord:
        """It is over. Effects that a restart has left open wait for a person."""
        record, last = self.record, left_open(self._replay)
        return await self._writer.end(lambda: self._writer.store.finish(record.claim, ending, last))

    async def mismatched(self, problem: JournalMismatch) -> NoReturn:
        """Leave it to a person. Raises TurnSuspended."""
        await self._writer.wait(str(problem), None, state=TurnState.MISMATCHED)

    async def restart(self, problem: JournalMismatch) -> None:
        """Set aside what does not fit the code. A new `Turn` goes on from what does."""
        await self._writer.append(NewEntry(Kind.RESTART, value=encode(problem.seq - 1)))

    def suspended(self, reason: str, *, is_detached: bool) -> TurnSuspended:
        """What to raise for a turn that was left in another way."""
        return self._writer.suspended(reason, is_detached=is_detached)

    # Inside

    def _say(self, kind: Kind, value: Any) -> None:
        encoded = encode(value)
        if not self._replay.was_said(kind, encoded):
            effect = current_effect()
            call_id = "" if effect is None else effect.call_id
            self._writer.append_now(NewEntry(kind, call_id=call_id, value=encoded))

    def _call_id(self, name: str) -> str:
        """Below the tool that makes the call, if one does."""
        effect = current_effect()
        return self._replay.numbered(name if effect is None else f"{effect.call_id}/{name}")


def _later(call: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    async def run() -> Any:
        return call()

    return run
