"""Where debug bundles go, how large they may be, and how long they stay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from afl.errors import UsageError

_MB = 1024 * 1024


@dataclass(frozen=True)
class BundleRetention:
    """What is removed from a folder of bundles; None: no limit. The oldest go first."""

    max_bundles: int | None = None
    max_age_s: float | None = None
    max_total_bytes: int | None = None


@dataclass(frozen=True)
class BundleConfig:
    """One zip for each turn, in the folder `target`; None for none."""

    target: str | None = None
    max_file_size: int = 10 * _MB
    max_total_size: int = 50 * _MB
    #: Whether the zip is compressed.
    compression: bool = True
    retention: BundleRetention | None = None

    @property
    def is_on(self) -> bool:
        return self.target is not None


def chosen_bundle(
    asked: BundleConfig | None, configured: BundleConfig | None
) -> BundleConfig | None:
    """What a request asks for, as far as the loop allows it: None for no bundle.

    A request may come from anywhere, so it names no folders but those below the loop's own.
    Raises UsageError if it does.
    """
    if configured is None or configured.target is None:
        return None
    if asked is None or asked.target is None:
        return configured
    root = Path(configured.target).resolve()
    if not Path(asked.target).resolve().is_relative_to(root):
        raise UsageError(
            f"a bundle cannot go to {asked.target}: this loop keeps bundles below {root}"
        )
    return asked
