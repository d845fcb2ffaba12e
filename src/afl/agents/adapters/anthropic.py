"""Claude, through the official client. Nothing else in the package talks to it.

The client's own retries are off: here they are counted, spread, told, and a service that asks one
caller to wait is heard by all callers of this process. The client takes seconds to import, so that
happens at the first use.
"""

from __future__ import annotations

import inspect
import math
import threading
from typing import Any

from afl.agents.adapters import anthropic_wire as wire
from afl.agents.adapters.anthropic_errors import (
    described,
    is_of_service,
    is_there,
    is_transient,
    retry_after,
)
from afl.agents.adapters.pauses import Pause, shared_pause
from afl.agents.budget import Budget
from afl.agents.errors import ModelRefused, ModelUnavailable
from afl.agents.listening import Listener, QuickListener
from afl.agents.model import ModelAnswer, ModelRequest
from afl.backoff import Backoff, format_duration
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.telemetry import TELEMETRY, ModelCalled, ModelCallRetried, Telemetry

_BACKOFF = Backoff(initial=0.5, factor=2.0, maximum=30.0, jitter=0.5)
_PING_S = 10.0


class AnthropicAdapter:
    """Answers requests with Claude. Safe from any thread.

    Without a `client`, one is made as the SDK does it: the key is in ANTHROPIC_API_KEY. What
    fails for a moment is tried `max_attempts` times in all, unless the service wants a longer
    pause than `longest_wait_s`.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        base_url: str | None = None,
        budget: Budget | None = None,
        timeout_s: float = 600.0,
        max_attempts: int = 5,
        backoff: Backoff = _BACKOFF,
        longest_wait_s: float = 300.0,
        clock: Clock = SYSTEM_CLOCK,
        telemetry: Telemetry = TELEMETRY,
    ) -> None:
        if max_attempts < 1:
            raise UsageError(f"max_attempts is {max_attempts}; expected at least 1")
        self._given = client
        self._base_url = base_url
        self.budget = budget or Budget()
        self.timeout_s = timeout_s
        self.max_attempts = max_attempts
        self.backoff = backoff
        self.longest_wait_s = longest_wait_s
        self.clock = clock
        self.telemetry = telemetry
        self._lock = threading.Lock()
        self._client: Any = None
        self._async_client: Any = None
        #: Made here, so closed here.
        self._own: list[Any] = []
        self._pause: Pause | None = None

    # Answers

    def prepare(self) -> None:
        """Make the client now. Raises UsageError if the package or the key is missing."""
        self._sync()

    def ping(self) -> None:
        """Ask whether the service is there and takes the key, which costs nothing. Raises
        ModelUnavailable."""
        client = self._sync()
        try:
            client.models.list(limit=1, timeout=_PING_S)
        except Exception as error:
            if not is_there(error):
                raise ModelUnavailable(described(error)) from error

    def answer(self, request: ModelRequest) -> ModelAnswer:
        client, arguments = self._sync(), wire.arguments_of(request)
        call = _Call(self, request)
        while True:
            self._wait(call)
            try:
                return call.answered(client.messages.create(**arguments, timeout=call.time_left()))
            except Exception as error:
                self.clock.sleep(call.failed(error))

    async def answer_async(self, request: ModelRequest) -> ModelAnswer:
        client, arguments = self._async(), wire.arguments_of(request)
        call = _Call(self, request)
        while True:
            while (seconds := call.begin()) > 0:
                await self.clock.async_sleep(seconds)
            try:
                return call.answered(
                    await client.messages.create(**arguments, timeout=call.time_left())
                )
            except Exception as error:
                await self.clock.async_sleep(call.failed(error))

    def stream(self, request: ModelRequest, on_text: Listener) -> ModelAnswer:
        """Like `answer`; text is handed on as it comes. Once some was, nothing is tried again,
        because it would come twice; unless the listener can take it back."""
        client, arguments = self._sync(), wire.arguments_of(request)
        call = _Call(self, request, on_text)
        while True:
            self._wait(call)
            try:
                with client.messages.stream(**arguments, timeout=call.time_left()) as stream:
                    for event in stream:
                        call.hear(event)
                    return call.answered(wire.heard(stream))
            except Exception as error:
                self.clock.sleep(call.failed(error))

    async def stream_async(self, request: ModelRequest, on_text: QuickListener) -> ModelAnswer:
        client, arguments = self._async(), wire.arguments_of(request)
        call = _Call(self, request, on_text)
        while True:
            while (seconds := call.begin()) > 0:
                await self.clock.async_sleep(seconds)
            try:
                streaming = client.messages.stream(**arguments, timeout=call.time_left())
                async with streaming as stream:
                    async for event in stream:
                        call.hear(event)
                    return call.answered(wire.heard(stream))
            except Exception as error:
                await self.clock.async_sleep(call.failed(error))

    def close(self) -> None:
        """Close the connections of clients that were made here. Coroutines leave none open."""
        with self._lock:
            own, self._own = self._own, []
            self._client = None
        for each in own:
            each.close()

    def _wait(self, call: _Call) -> None:
        while (seconds := call.begin()) > 0:
            self.clock.sleep(seconds)

    # Clients

    @property
    def pause(self) -> Pause:
        assert self._pause is not None, "made with the client"
        return self._pause

    def _sync(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._made(is_async=False)
            return self._client

    def _async(self) -> Any:
        with self._lock:
            if self._async_client is None:
                self._async_client = self._made(is_async=True)
            return self._async_client

    def _made(self, *, is_async: bool) -> Any:
        given = self._given
        if given is None:
            client = _kind(is_async)(max_retries=0, **self._options(), **_connections(is_async))
            _require_key(client)
        else:
            client = given if _is_async(given) == is_async else _twin(given)
        if client is not given and not is_async:
            self._own.append(client)
        if hasattr(client, "with_options"):
            client = client.with_options(max_retries=0, **self._options())
        self._pause = self._pause or shared_pause(
            self.clock, str(getattr(client, "base_url", "")), _credential(client)
        )
        return client

    def _options(self) -> dict[str, Any]:
        return {} if self._base_url is None else {"base_url": self._base_url}


class _Call:
    """One request and its attempts. Decides; its caller waits and calls."""

    def __init__(
        self, adapter: AnthropicAdapter, request: ModelRequest, listener: Listener | None = None
    ) -> None:
        self._adapter = adapter
        self._listener = listener
        self._model = request.model
        self._attempt = 0
        self._started = adapter.clock.monotonic()
        self._limit = request.timeout_s
        #: When this attempt must have an answer.
        self._ends_at = math.inf
        #: A part of the answer is with the listener.
        self._was_heard = False

    def begin(self) -> float:
        """Seconds to wait before asking again; 0: the attempt has begun. Raises BudgetExceeded,
        and ModelUnavailable if there is no time for that."""
        seconds = self._adapter.pause.left()
        if seconds > 0:
            self._require_time(seconds, "the service asks for a pause")
            return seconds
        self._adapter.budget.begin(self._model)
        self._attempt += 1
        return 0.0

    def time_left(self) -> float:
        """How long the service may take to say something."""
        longest = self._adapter.timeout_s
        if self._limit is not None:
            # A timeout of nothing would mean none at all to some.
            longest = max(0.001, min(longest, self._limit - self._elapsed()))
        self._ends_at = self._adapter.clock.monotonic() + longest
        return longest

    def hear(self, event: Any) -> None:
        """A part of a stream. Each comes in time for the client, however many there are: that it
        ends in time is seen to here. Raises Truncated."""
        if self._adapter.clock.monotonic() > self._ends_at:
            raise wire.Truncated("the answer takes longer than it may")
        if event.type == "text" and self._listener is not None:
            self._was_heard = True
            self._listener(event.text)

    def _take_back(self) -> bool:
        """Whether the answer may begin anew."""
        if not self._was_heard:
            return True
        if not isinstance(self._listener, QuickListener):
            return False
        self._listener.begin_again()
        self._was_heard = False
        return True

    def answered(self, message: Any) -> ModelAnswer:
        """The answer, counted and told. Raises Truncated."""
        answer = wire.answer_of(message)
        usage = answer.usage
        self._adapter.budget.record(self._model, usage)
        self._adapter.telemetry.emit(
            ModelCalled(
                at=self._adapter.clock.now(),
                model=self._model,
                input_tokens=usage.total - usage.output_tokens,
                output_tokens=usage.output_tokens,
                duration_s=self._elapsed(),
                attempts=self._attempt,
            )
        )
        return answer

    def failed(self, error: Exception) -> float:
        """Seconds to wait before the next attempt. Raises if there is none."""
        if not is_of_service(error):
            raise error
        reason = described(error)
        if not is_transient(error):
            raise ModelRefused(
                f"{self._model} cannot be asked: the service refuses with {reason}"
            ) from error
        if self._attempt >= self._adapter.max_attempts or not self._take_back():
            raise ModelUnavailable(
                f"{self._model} gave no answer in {self._attempt} attempts; the last ended with "
                f"{reason}"
            ) from error
        wanted = retry_after(error, self._adapter.clock)
        self._adapter.pause.ask(wanted)
        seconds = max(wanted, self._adapter.backoff.delay(self._attempt))
        self._require_time(seconds, reason)
        self._adapter.telemetry.emit(
            ModelCallRetried(
                at=self._adapter.clock.now(),
                model=self._model,
                attempt=self._attempt,
                wait_s=seconds,
                error=reason,
            )
        )
        return seconds

    def _require_time(self, seconds: float, reason: str) -> None:
        longest = self._adapter.longest_wait_s
        if self._limit is not None:
            longest = min(longest, self._limit - self._elapsed())
        if seconds > longest:
            raise ModelUnavailable(
                f"{self._model} can be asked again in {format_duration(round(seconds, 3))}, which "
                f"is longer than may be waited: {reason}"
            )

    def _elapsed(self) -> float:
        return self._adapter.clock.monotonic() - self._started


def _package() -> Any:
    try:
        import anthropic
    except ImportError as error:
        raise UsageError(
            "Claude needs the package anthropic, which is not here; pip install 'afl[anthropic]'"
        ) from error
    return anthropic


def _kind(is_async: bool) -> Any:
    package = _package()
    return package.AsyncAnthropic if is_async else package.Anthropic


def _require_key(client: Any) -> None:
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise UsageError(
            "Claude needs a key and there is none; set ANTHROPIC_API_KEY, or pass "
            "anthropic_client=anthropic.Anthropic(api_key=…) (pip install 'afl[anthropic]')"
        )


def _credential(client: Any) -> int:
    # Limits belong to an account. Hashed, so that no key lies about.
    return hash((getattr(client, "api_key", None), getattr(client, "auth_token", None)))


def _connections(is_async: bool) -> dict[str, Any]:
    if not is_async:
        return {}
    # A connection belongs to the event loop it was made on, and a handler may be run on another
    # one next time; so none is kept. As many as are asked for: thousands may wait at once.
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return {"http_client": _package().DefaultAsyncHttpxClient(limits=limits)}


def _is_async(client: Any) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(client.messages.create))


def _twin(client: Any) -> Any:
    """A client like the given one, for the other way of calling."""
    is_async = not _is_async(client)
    if not hasattr(client, "credentials"):
        kind = "an asynchronous" if is_async else "a synchronous"
        raise UsageError(f"{type(client).__name__} cannot be used here; pass {kind} client")
    return _kind(is_async)(
        api_key=client.api_key,
        auth_token=client.auth_token,
        credentials=client.credentials,
        base_url=client.base_url,
        timeout=client.timeout,
        **_connections(is_async),
    )
