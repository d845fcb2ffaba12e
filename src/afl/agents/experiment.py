"""A variant of an agent that is tried out: what `prepare` looks at to do something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Experiment:
    name: str
    #: Which version of prompts to use, for loops that keep several.
    overrides_tag: str = "latest"
    flags: Mapping[str, Any] = field(default_factory=dict)
    owner: str | None = None
    description: str | None = None

    def with_flag(self, flag: str, value: Any) -> Experiment:
        return replace(self, flags={**self.flags, flag: value})

    def with_tag(self, tag: str) -> Experiment:
        return replace(self, overrides_tag=tag)

    def get_flag(self, flag: str, default: Any = None) -> Any:
        return self.flags.get(flag, default)

    def has_flag(self, flag: str) -> bool:
        return flag in self.flags


BASELINE = Experiment("baseline")
CONTROL = Experiment("control")
