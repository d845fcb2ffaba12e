"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from afl.gateway import problems
from afl.gateway.bodies import (
    InputBody,
    NewTurnBody,
    ProblemBody,
    ResumeBody,
    TurnBody,
    TurnsBody,
)
from afl.gateway.events import OTHERS, ROWS
from afl.gateway.problems import Kind
from afl.gateway.routes import FOLLOW, ROUTES, SUBMIT, Parameter, Route

_BODIES = [NewTurnBody, InputBody, ResumeBody, TurnBody, TurnsBody, ProblemBody]
#: Of the API, not of afl: grows when clients must change.
VERSION = "1"
_REF = "#/components/schemas/{name}"
_HEADER = {"schema": {"type": "string"}}
_RETRY = {"retry-after": {"description": "Seconds until trying again makes sense.", **_HEADER}}
_LOCATION = {"location": {"description": "Where the turn is.", **_HEADER}}


def event_names() -> list[str]:
    return [*dict.fromkeys(each.name for each in ROWS.values()), *OTHERS]


#: Each event of a stream.
_EVENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Where to go on after it."},
        "event": {"enum": event_names()},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


def document(*, needs_token: bool) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components(_BODIES, ref_template=_REF)
    components: dict[str, Any] = {"schemas": schemas}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Turn API",
            "version": VERSION,
            "description": "Submit turns to agents, follow them, answer and cancel them.",
        },
        "paths": _paths(),
        "components": components,
    }
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = defaultdict(dict)
    for route in ROUTES:
        paths[route.path][route.method.lower()] = _operation(route)
    return dict(paths)


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.meaning.partition(". ")[0].rstrip("."),
        "description": route.meaning,
        "responses": {**_answers(route), **_refusals(route.all_problems)},
    }
    parameters = [_parameter(each) for each in route.parameters]
    if "{turn_id}" in route.path:
        schema = {"type": "string", "minLength": 1}
        known = {"name": "turn_id", "in": "path", "required": True, "schema": schema}
        parameters.append({**known, "description": "Id of the turn."})
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": _schema(route.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([parameter.kind])
    schema = msgspec.json.schema(parameter.kind)
    if "$ref" in schema:  # an enumeration: as small as its name
        (schema,) = components.values()
    if parameter.pattern is not None:
        schema["pattern"] = parameter.pattern
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": False,
        "description": parameter.meaning,
        "schema": {key: value for key, value in schema.items() if key != "$defs"},
    }


def _answers(route: Route) -> dict[str, Any]:
    if route is FOLLOW:
        content = {"text/event-stream": {"schema": _EVENT}}
        return {
            "200": {"description": f"Events: {', '.join(event_names())}.", "content": content},
            "204": {"description": "The last event was seen: there is no more."},
        }
    found = {
        "description": HTTPStatus(route.status).phrase,
        "content": {"application/json": {"schema": _schema(route.answer)}},
    }
    return {str(route.status): {**found, "headers": _LOCATION} if route is SUBMIT else found}


def _refusals(kinds: Sequence[Kind]) -> dict[str, Any]:
    by_status: defaultdict[int, list[Kind]] = defaultdict(list)
    for each in kinds:
        by_status[int(each.status)].append(each)
    return {str(status): _refusal(by_status[status]) for status in sorted(by_status)}


def _refusal(kinds: Sequence[Kind]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": "; ".join(f"{each.title} (`{each.type}`)" for each in kinds) + ".",
        "content": {problems.MEDIA_TYPE: {"schema": _schema(ProblemBody)}},
    }
    if any(each.status in (409, 429, 503) for each in kinds):
        found["headers"] = _RETRY
    return found


def _schema(body: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=body.__name__)}
