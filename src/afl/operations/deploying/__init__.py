"""Files that deploy a service of afl: every number in them follows from one, the drain deadline.

`render` is pure: from options to texts. Each platform has a module with what is its own, and
templates in the language of the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.errors import UsageError
from afl.operations.deploying import docker, ecs, kubernetes, nomad, systemd
from afl.operations.deploying.options import DeployOptions as DeployOptions
from afl.operations.deploying.options import choice as choice
from afl.operations.deploying.running import Rendered as Rendered

PLATFORMS: Mapping[str, Callable[[DeployOptions], Rendered]] = {
    "kubernetes": kubernetes.render,
    "ecs": ecs.render,
    "nomad": nomad.render,
    "systemd": systemd.render,
    "docker": docker.render,
}
#: Those that take an image from a registry.
_NEED_IMAGE = frozenset({"kubernetes", "ecs", "nomad"})


def render(platform: str, options: DeployOptions) -> Rendered:
    """The files of a deployment. Raises UsageError for an unknown platform, and for what does not
    fit on it."""
    if platform not in PLATFORMS:
        raise UsageError(f"{platform!r} is unknown; expected {', '.join(PLATFORMS)}")
    if platform in _NEED_IMAGE and not options.image:
        raise UsageError(f"{platform} needs an image: --image registry.example.org/agents:1.4.0")
    return PLATFORMS[platform](options)
