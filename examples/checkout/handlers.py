"""Handlers for the event facets of checkout.afl.

A handler gets the arguments of the event as a dict and returns its results as one. These keep
their side effects in memory, so that the example needs nothing else.
"""

from __future__ import annotations

from typing import Any

PAYMENTS: dict[str, float] = {}


def charge(payload: dict[str, Any]) -> dict[str, Any]:
    payment = payment_of(payload["order"])
    # The id comes from the order: charging the same order twice charges it once.
    PAYMENTS.setdefault(payment, payload["amount"])
    return {"payment": payment}


def refund(payload: dict[str, Any]) -> dict[str, Any]:
    PAYMENTS.pop(payment_of(payload["order"]), None)
    return {}


def pack(payload: dict[str, Any]) -> dict[str, Any]:
    return {"parcel": f"{payload['count']} x {payload['sku']}"}


def write_note(payload: dict[str, Any]) -> dict[str, Any]:
    # A worker with a model would ask it; here the note is the same for the same parcels.
    parcels = " and ".join(payload["parcels"])
    return {"text": f"Dear {payload['customer']}, your parcels are on their way: {parcels}."}


def payment_of(order: str) -> str:
    return f"pay-{order}"
