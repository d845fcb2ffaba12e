"""A model that follows a script, and speaks as the service of Claude does.

    python model.py 8101

It streams its words, and takes its time: the higher the number of the order, the more. With the
word `talkative` it goes on with its first answer about an order, but for the first orders, until
somebody is in a hurry. `POST /hurry` ends both. Each answer has fresh words and fresh ids of tool
calls, also if it is asked the same again: whoever pays twice, or loses an answer, cannot hide it.
`GET /calls` says how often it was asked, and under which system prompts.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

#: Between two words: for each number of the order, and in a hurry.
WORD_S, QUICK_WORD_S = 0.03, 0.02
#: Orders up to this number are never talked about for long, and no order for more words.
SHORT_ORDERS, MOST_WORDS = 2, 500

Body = dict[str, Any]
prompts: Counter[str] = Counter()
hurry = asyncio.Event()
is_talkative = False


def answer_to(request: Body) -> list[Body]:
    """Refund, then write to the customer, then say so: what comes next follows from what was
    done."""
    order, done = _order_in(request), _done_in(request)
    if not done:
        return [_text(f"Order {order}: I give the money back."), _refund(order)]
    if done == 1:
        return [_text("And I write to them."), _mail(order)]
    return [_text(f"Order {order} is refunded, and the customer knows.")]


def _order_in(request: Body) -> int:
    found = re.search(r"order (\d+)", json.dumps(request["messages"][0]))
    return int(found[1]) if found else 0


def _done_in(request: Body) -> int:
    parts = [part for message in request["messages"] for part in message["content"]]
    return sum(part["type"] == "tool_result" for part in parts)


def _text(text: str) -> Body:
    more = " ".join(uuid4().hex[:6] for _ in range(12))
    return {"type": "text", "text": f"{text} ({more})"}


def _refund(order: int) -> Body:
    return _use("refund", {"order": order, "cents": 1000 + order})


def _mail(order: int) -> Body:
    return _use("send_mail", {"order": order, "text": f"Your money is back. {uuid4().hex[:6]}"})


def _use(tool: str, arguments: Body) -> Body:
    return {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": tool, "input": arguments}


# The protocol


def _message(request: Body, content: list[Body], stop: str | None) -> Body:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }


def _stop_of(content: list[Body]) -> str:
    return "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"


async def _events(request: Body, content: list[Body]) -> AsyncIterator[Body]:
    yield {"type": "message_start", "message": _message(request, [], None)}
    for index, block in enumerate(content):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        async for delta in _spoken(request, block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": _stop_of(content), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


async def _spoken(request: Body, block: Body) -> AsyncIterator[Body]:
    order = _order_in(request)
    for delta in _deltas(block):
        await _think(order)
        yield delta
    if block["type"] == "text" and order > SHORT_ORDERS and not _done_in(request):
        for _ in range(MOST_WORDS):
            if hurry.is_set() or not is_talkative:
                return
            await _think(order)
            yield {"type": "text_delta", "text": f" {uuid4().hex[:6]}"}


async def _think(order: int) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(hurry.wait(), WORD_S * order)
        await asyncio.sleep(QUICK_WORD_S)


def _deltas(block: Body) -> list[Body]:
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    words = re.findall(r"\S+\s*", block["text"])
    return [{"type": "text_delta", "text": each} for each in words]


async def messages(request: Request) -> JSONResponse | StreamingResponse:
    body = await request.json()
    prompts[body.get("system", "")] += 1
    content = answer_to(body)
    events = _events(body, content)
    if body.get("stream"):
        lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" async for each in events)
        return StreamingResponse(lines, media_type="text/event-stream")
    async for _ in events:  # it takes as long to think
        pass
    return JSONResponse(_message(body, content, _stop_of(content)))


async def calls(request: Request) -> JSONResponse:  # noqa: ARG001 - as routes are
    return JSONResponse({"calls": prompts.total(), "prompts": dict(prompts)})


async def be_quick(request: Request) -> JSONResponse:  # noqa: ARG001
    hurry.set()
    return JSONResponse({})


def main(port: str, manner: str = "") -> None:
    global is_talkative
    is_talkative = manner == "talkative"
    routes = [
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/calls", calls),
        Route("/hurry", be_quick, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
