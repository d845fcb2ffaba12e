"""Forms of pages as the bodies that the same changes have in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from afl.dashboard.bodies import (
    AnswerBody,
    HandlerBody,
    RedriveBody,
    SettleBody,
    SubmitBody,
)
from afl.dashboard.desk import Desk
from afl.dashboard.views import offer_of
from afl.errors import UsageError
from afl.gateway import problems
from afl.gateway.problems import Problem
from afl.operations.inputs import parse_inputs
from afl.operations.turns import value_of

CSRF = "csrf"
#: Fields that are the inputs of a run begin so.
INPUT = "input."
#: More would only cost.
_FIELDS = 200


def fields_of(body: bytes) -> dict[str, str]:
    """What a browser sent. Raises Problem."""
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=_FIELDS
        )
    except ValueError:
        raise Problem(problems.INVALID, "this is no form") from None
    return {name: text.replace("\r\n", "\n") for name, text in pairs}


def body_of(desk: Desk, kind: type, fields: Mapping[str, str]) -> Any:
    """The body of a change. Raises Problem, UsageError, NotFound."""
    given = {name: text for name, text in fields.items() if name != CSRF}
    values: dict[str, Any]
    if kind is SubmitBody:
        values = _submitted(desk, given)
    elif kind in (AnswerBody, SettleBody):
        values = {**given, **{name: value_of(given[name]) for name in _VALUES & given.keys()}}
    elif kind is RedriveBody:
        values = {name: [text] for name, text in given.items()}
    elif kind is HandlerBody:
        values = {name: text.strip() for name, text in given.items() if text.strip()}
    else:
        values = dict(given)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(problems.INVALID, str(error)) from None


_VALUES = {"answer", "value"}


def _submitted(desk: Desk, given: Mapping[str, str]) -> dict[str, Any]:
    offer = offer_of(desk, given.get("workflow", ""))
    pairs = [
        f"{name.removeprefix(INPUT)}={text}"
        for name, text in given.items()
        if name.startswith(INPUT) and _is_said(offer.workflow.params, name, text)
    ]
    try:
        inputs = parse_inputs(pairs, None, offer.program, offer.workflow)
    except UsageError as error:
        # As it is called on the command line, from where this is read the same way.
        raise UsageError(str(error).replace("--input ", "", 1)) from None
    others = {name: given[name] for name in ("key", "task_list") if given.get(name)}
    return {"workflow": offer.name, "inputs": inputs, **others}


def _is_said(parameters: Mapping[str, Any], name: str, text: str) -> bool:
    """An empty field says nothing, unless it is for a text without a default."""
    parameter = parameters.get(name.removeprefix(INPUT))
    is_text = getattr(getattr(parameter, "type", None), "name", "") == "String"
    return bool(text) or (is_text and getattr(parameter, "default", None) is None)
