"""An HTTP client for tools: it sends the idempotency key of the call that it is part of."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any

from afl.errors import ConfigurationError
from afl.turns.effects import current_effect
from afl.turns.errors import OutcomeUnknown

HEADER = "Idempotency-Key"

#: Answers of what stands between us and the server: it may have acted.
_UNKNOWN = (502, 504)
#: The server does nothing now. It may have acted when it was asked before.
_NOT_NOW = (429, 503)
#: With `Retry-After`: the same request is being done.
_BUSY = 409
#: Errors before anything was sent: the server has not acted.
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")


def _http() -> Any:
    """httpx2, or httpx: whichever is there. They offer the same."""
    for name in ("httpx2", "httpx"):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ConfigurationError(
        "ToolClient needs httpx2, which is not installed: pip install httpx2 (afl[anthropic] "
        "brings it)"
    )


def _keyed(headers: Any) -> dict[str, str]:
    """With the key of the tool call, unless the caller has one."""
    found = dict(headers or {})
    effect = current_effect()
    if effect is not None and HEADER.lower() not in {each.lower() for each in found}:
        found[HEADER] = effect.next_key()
    return found


def _may_have_acted() -> bool:
    """Whether the call was made before, and nobody knows what came of it."""
    effect = current_effect()
    return effect is not None and effect.is_repeat


def _judged(http: Any, method: str, url: Any, error: Exception) -> Exception:
    """What to raise for an error of the network."""
    unsent = tuple(getattr(http, each) for each in _UNSENT)
    if isinstance(error, http.RequestError) and not isinstance(error, unsent):
        return OutcomeUnknown(f"{method} {url} was sent, and not answered: {error!r}")
    if isinstance(error, unsent) and _may_have_acted():
        return OutcomeUnknown(f"{method} {url} was sent before, and cannot be sent now: {error!r}")
    return error


def _require_answer(response: Any) -> Any:
    why = _why_unknown(response)
    if why:
        raise OutcomeUnknown(
            f"{response.request.method} {response.request.url} got {response.status_code}: {why}"
        )
    return response


def _why_unknown(response: Any) -> str:
    """Empty if the server has answered what was asked."""
    status = response.status_code
    if status in _UNKNOWN:
        return "that comes from what is between us and the server"
    if status == _BUSY and "retry-after" in response.headers:
        return "the same request is being done"
    if status in _NOT_NOW and _may_have_acted():
        return "the server may have acted before, and does not look now"
    return ""


class ToolClient:
    """`options` are those of `httpx2.Client`, such as `base_url` and `timeout`.

    Raises OutcomeUnknown if the server may have acted and nobody knows: the turn then asks again
    with the same key, or a person. What could not be sent raises as in httpx, unless the same call
    was sent before.
    """

    def __init__(self, **options: Any) -> None:
        self._http = _http()
        self._client = self._http.Client(**options)

    def request(self, method: str, url: str, *, headers: Any = None, **options: Any) -> Any:
        """The response, as in httpx2."""
        try:
            response = self._client.request(method, url, headers=_keyed(headers), **options)
        except Exception as error:
            raise _judged(self._http, method, url, error) from error
        return _require_answer(response)

    def get(self, url: str, **options: Any) -> Any:
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> Any:
        return self.request("POST", url, **options)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> ToolClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncToolClient:
    """The same for coroutines; `options` are those of `httpx2.AsyncClient`."""

    def __init__(self, **options: Any) -> None:
        self._http = _http()
        self._client = self._http.AsyncClient(**options)

    async def request(self, method: str, url: str, *, headers: Any = None, **options: Any) -> Any:
        keyed = _keyed(headers)
        try:
            response = await self._client.request(method, url, headers=keyed, **options)
        except Exception as error:
            raise _judged(self._http, method, url, error) from error
        return _require_answer(response)

    async def get(self, url: str, **options: Any) -> Any:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> Any:
        return await self.request("POST", url, **options)

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> AsyncToolClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
