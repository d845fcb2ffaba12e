"""What runs are made of: programs, published sources and registrations of handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from afl.operations.copying.listing import some_at_once
from afl.operations.copying.progress import Pace, Part, PartReport, facts_of
from afl.runtime.entities import HandlerRegistration, PublishedSource
from afl.runtime.persistence import IterationChanges, PersistenceAPI

R = TypeVar("R")

_ALL = 2**31 - 1


def copy_catalog(source: PersistenceAPI, target: PersistenceAPI, pace: Pace) -> list[PartReport]:
    """Raises Differs, also for what the destination has under the same name."""
    return [
        _copy(
            "flow",
            ((each.uuid, each) for each in source.get_all_flows()),
            target.get_flow,
            lambda some: target.commit(IterationChanges(flows=list(some))),
            pace,
        ),
        _copy(
            "workflow",
            ((each.uuid, each) for each in reversed(source.get_all_workflows(_ALL))),
            target.get_workflow,
            lambda some: target.commit(IterationChanges(workflows=list(some))),
            pace,
        ),
        _copy(
            "source",
            ((_name_of(each), each) for each in source.list_published_sources()),
            lambda name: target.get_source_by_namespace(*name.rsplit("@", 1)),
            lambda some: _each(target.save_published_source, some),
            pace,
        ),
        _copy(
            "handler",
            ((each.facet_name, _unloaded(each)) for each in source.list_handler_registrations()),
            lambda name: _unloaded(target.get_handler_registration(name)),
            lambda some: _each(target.save_handler_registration, some),
            pace,
        ),
    ]


def _copy(
    kind: str,
    records: Iterable[tuple[str, R]],
    get: Callable[[str], R | None],
    add: Callable[[Sequence[R]], object],
    pace: Pace,
) -> PartReport:
    def find(keys: Sequence[str]) -> dict[str, R]:
        found = ((each, get(each)) for each in keys)
        return {key: each for key, each in found if each is not None}

    part, wanted = Part(kind), dict(records)
    pace.began(f"{kind}s", len(wanted))
    for some in some_at_once(wanted.items()):
        part.bring(dict(some), find, add, facts_of)
        pace.went_on(len(some))
    return part.report()


def _each(save: Callable[[R], object], records: Sequence[R]) -> None:
    for each in records:
        save(each)


def _name_of(source: PublishedSource) -> str:
    return f"{source.namespace_name}@{source.version}"


def _unloaded(registration: R) -> R:
    """Without what workers found out about it: others will load it."""
    if isinstance(registration, HandlerRegistration):
        registration.load_error = None
    return registration
