"""Handlers for the event facets of inbox.afl, one of each kind that there is."""

from __future__ import annotations

import sys
from typing import Any

import afl
from afl.runtime.dispatch import HandlerContext

TOPICS = {"broken": "complaint", "invoice": "billing", "thank": "praise"}


async def sort(payload: dict[str, Any]) -> dict[str, Any]:
    """Asynchronous, as a call to a model would be. Raises for a letter that it cannot sort."""
    words = payload["text"].lower()
    topics = [topic for word, topic in TOPICS.items() if word in words]
    if not topics:
        raise ValueError("this letter is about nothing that I know")
    return {"topic": topics[0], "urgent": "now" in words}


def call(payload: dict[str, Any], context: HandlerContext) -> None:
    """Results may be left out where a facet has none."""
    context.log(f"called {payload['who']}")
    print(f"To {payload['who']}: {payload['about']}", file=sys.stderr)


@afl.handler("inbox.Reply")
def send_reply(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
    """The key is the same for every attempt: a mail service that knows it sends one letter."""
    message = {"to": payload["to"], "about": payload["topic"], "key": context.idempotency_key}
    return {"id": f"{payload['topic']}-{payload['letter']}", "message": message}
