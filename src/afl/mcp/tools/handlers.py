"""The tool that says where handlers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from afl.errors import UsageError
from afl.mcp import shapes
from afl.mcp.arguments import Arguments, Result
from afl.mcp.backend import Backend
from afl.mcp.missing import required_handler
from afl.mcp.tool import Hints, Tool, in_thread
from afl.operations import handlers

_LOOKS = ("list", "get")


class ManageHandlers(Arguments):
    action: Annotated[
        Literal["list", "get", "register", "delete", "enable", "disable", "verify"],
        Meta(
            description="verify loads the handler as a worker here would, in a process that ends "
            "with that; a disabled handler's tasks wait."
        ),
    ]
    facet_name: Annotated[
        str, Meta(description="Qualified name of the event facet, such as shop.Charge.")
    ] = ""
    module_uri: Annotated[
        str,
        Meta(
            description="A dotted Python module, a .py file, or a file:// URI; workers load it "
            "only from their working directory and from AFL_HANDLER_PATHS."
        ),
    ] = ""
    entrypoint: Annotated[str, Meta(description="The function in it.")] = "handle"
    version: Annotated[str, Meta(description="For people.")] = "1.0.0"
    checksum: Annotated[
        str,
        Meta(
            description="sha256:… is verified before the code runs; auto computes it; another "
            "text only says that the code is new."
        ),
    ] = ""
    timeout_ms: Annotated[int, Meta(ge=0, description="0 is no limit.")] = 30_000
    isolation: Annotated[
        Literal["thread", "process"], Meta(description="A process can be killed.")
    ] = "thread"
    on_lost: Annotated[
        Literal["redeliver", "unknown"],
        Meta(description="What becomes of a task whose worker died: unknown waits for a person."),
    ] = "redeliver"
    requirements: Annotated[list[str], Meta(description="For people.")] = msgspec.field(
        default_factory=list
    )
    metadata: Annotated[
        dict[str, Any], Meta(description="Handed to the handler as _handler_metadata.")
    ] = msgspec.field(default_factory=dict)


class Handlers(Result):
    handlers: (
        Annotated[list[dict[str, Any]], Meta(description="Of list: all, by name.")] | UnsetType
    ) = UNSET
    handler: (
        Annotated[dict[str, Any], Meta(description="The registration as it is now.")] | UnsetType
    ) = UNSET
    loads: Annotated[bool, Meta(description="Of verify: whether it loads.")] | UnsetType = UNSET
    problem: Annotated[str, Meta(description="Of verify: what keeps it.")] | UnsetType = UNSET


def manage_handlers(backend: Backend, given: ManageHandlers) -> Handlers:
    if given.action != "list" and not given.facet_name:
        raise UsageError(f"facet_name is required for {given.action}")
    return _ACTIONS[given.action](backend, given)


def _list(backend: Backend, _given: ManageHandlers) -> Handlers:
    found = handlers.list_handlers(backend.store)
    return Handlers(success=True, handlers=[shapes.handler(each) for each in found])


def _get(backend: Backend, given: ManageHandlers) -> Handlers:
    found = required_handler(backend, given.facet_name)
    return Handlers(success=True, handler=shapes.handler(found))


def _register(backend: Backend, given: ManageHandlers) -> Handlers:
    if not given.module_uri:
        raise UsageError("module_uri is required for register")
    new = handlers.NewHandler(
        given.facet_name,
        given.module_uri,
        given.entrypoint,
        version=given.version,
        checksum=given.checksum,
        timeout_ms=given.timeout_ms,
        isolation=given.isolation,
        on_lost=given.on_lost,
        requirements=given.requirements,
        metadata=given.metadata,
    )
    registered = handlers.add(backend.store, new, backend.options.handler_paths)
    return Handlers(success=True, handler=shapes.handler(registered))


def _delete(backend: Backend, given: ManageHandlers) -> Handlers:
    required_handler(backend, given.facet_name)
    handlers.remove(backend.store, given.facet_name)
    return Handlers(success=True)


def _enable(backend: Backend, given: ManageHandlers) -> Handlers:
    required_handler(backend, given.facet_name)
    is_enabled = given.action == "enable"
    changed = handlers.enable(backend.store, given.facet_name, is_enabled=is_enabled)
    return Handlers(success=True, handler=shapes.handler(changed))


def _verify(backend: Backend, given: ManageHandlers) -> Handlers:
    found = required_handler(backend, given.facet_name)
    verdict = handlers.verify(found, backend.options.handler_paths)
    return Handlers(
        success=True,
        handler=shapes.handler(found),
        loads=verdict.ok,
        problem=verdict.problem or UNSET,
    )


_ACTIONS: dict[str, Callable[[Backend, ManageHandlers], Handlers]] = {
    "list": _list,
    "get": _get,
    "register": _register,
    "delete": _delete,
    "enable": _enable,
    "disable": _enable,
    "verify": _verify,
}

TOOLS = (
    Tool(
        "afl_manage_handlers",
        "Say where handlers are",
        "List, show, register, delete, enable, disable or verify the handlers of event facets: the "
        "Python functions that do their tasks. Workers notice a change at once. Registering names "
        "code that workers will run, so everything but list and get is for the operator.",
        ManageHandlers,
        Handlers,
        in_thread(manage_handlers),
        Hints(is_destructive=True, is_idempotent=True),
        lambda given: given.action not in _LOOKS,
        looks_too=True,
    ),
)
