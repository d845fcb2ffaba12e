"""A model service on loopback that says what a test tells it to, as the real one would say it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias

import anthropic

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """A message, whole or as a stream, whichever is asked for."""

    content: tuple[Body, ...]
    stop_reason: str | None = "end_turn"
    input_tokens: int = 10
    output_tokens: int = 5


def says(text: str, **more: Any) -> Answers:
    return Answers(({"type": "text", "text": text},), **more)


def uses(tool: str, arguments: Any, call_id: str = "toolu_1", **more: Any) -> Answers:
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
    return Answers((block,), **{"stop_reason": "tool_use", **more})


@dataclass(frozen=True)
class Fails:
    status: int
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "told to"


@dataclass(frozen=True)
class Cuts:
    """The connection ends in the middle of this answer; a stream after so many events."""

    answer: Answers
    events: int = 3


@dataclass(frozen=True)
class FailsWithin:
    """A stream that begins well and then reports an error."""

    kind: str


class Hangs:
    """Never answers, as long as the server lives."""


Reply: TypeAlias = Answers | Fails | Cuts | FailsWithin | Hangs
Entry: TypeAlias = Reply | Callable[[Body], Reply]


class ModelServer:
    """Answers requests in the order of its script; the last entry is used again and again."""

    def __init__(self, *script: Entry) -> None:
        self._script = list(script)
        self._lock = threading.Lock()
        self.requests: list[Body] = []
        self.closing = threading.Event()
        self._clients: list[anthropic.Anthropic] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def calls(self) -> int:
        with self._lock:
            return len(self.requests)

    def client(self, **options: Any) -> anthropic.Anthropic:
        """The real client, for this service; closed with it."""
        made = anthropic.Anthropic(base_url=self.url, api_key="key", **options)
        self._clients.append(made)
        return made

    def reply(self, request: Body) -> Reply:
        with self._lock:
            self.requests.append(request)
            entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return entry(request) if callable(entry) else entry

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        for each in self._clients:
            each.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write, one packet: else each answer waits for an acknowledgement

        def do_GET(self) -> None:
            """The list of models: empty, or as the script fails."""
            with suppress(BrokenPipeError, ConnectionResetError):
                reply = server.reply({})
                if isinstance(reply, Answers):
                    self._whole(200, {"data": [], "has_more": False}, {})
                else:
                    self._send(reply, False, {})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            # A client that gave up is gone before the answer.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._send(server.reply(request), bool(request.get("stream")), request)

        def _send(self, reply: Reply, is_stream: bool, request: Body) -> None:
            match reply:
                case Hangs():
                    server.closing.wait()
                    self.close_connection = True
                case Fails(status, kind, headers, message):
                    error = {"type": "error", "error": {"type": kind, "message": message}}
                    self._whole(status, error, headers)
                case Cuts(answer, events):
                    self._cut(answer, events if is_stream else None, request)
                case FailsWithin(kind):
                    begun = _events(says("partly"), request)[:3]
                    error = {"type": "error", "error": {"type": kind, "message": "told to"}}
                    self._stream([*begun, error])
                case Answers():
                    if is_stream:
                        self._stream(_events(reply, request))
                    else:
                        self._whole(200, _message(reply, request), {})

        def _whole(self, status: int, body: Body, headers: Mapping[str, str]) -> None:
            data = json.dumps(body).encode()
            self._head(status, "application/json", {**headers, "content-length": str(len(data))})
            self.wfile.write(data)
            self.wfile.flush()

        def _stream(self, events: list[Body]) -> None:
            self._head(200, "text/event-stream", {"connection": "close"})
            for each in events:
                self.wfile.write(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode())
            self.wfile.flush()
            self.close_connection = True

        def _cut(self, answer: Answers, events: int | None, request: Body) -> None:
            if events is not None:
                self._stream(_events(answer, request)[:events])
                return
            data = json.dumps(_message(answer, request)).encode()
            self._head(200, "application/json", {"content-length": str(len(data))})
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.close_connection = True

        def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests have nothing to say on stderr."""

    return Handler


def _message(answer: Answers, request: Body) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": list(answer.content),
        "stop_reason": answer.stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
    }


def _events(answer: Answers, request: Body) -> list[Body]:
    start = {**_message(answer, request), "content": [], "stop_reason": None}
    events: list[Body] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(answer.content):
        empty, delta = _split(block)
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": answer.stop_reason, "stop_sequence": None}
    usage = {"output_tokens": answer.output_tokens}
    return [
        *events,
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]


def _split(block: Body) -> tuple[Body, Body]:
    """A block as it begins, and the rest of it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    text = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}
