"""A service of agents: what is in it, said in a file, and what runs it.

The names here are loaded when they are asked for: whoever declares an app needs no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

_EXPORTS = {
    "App": "afl.serving.app",
    "Service": "afl.serving.service",
    "load_app": "afl.serving.loading",
    "open_service": "afl.serving.service",
}

__all__ = ["App", "Service", "load_app", "open_service"]

if TYPE_CHECKING:
    from afl.serving.app import App as App
    from afl.serving.loading import load_app as load_app
    from afl.serving.service import Service as Service
    from afl.serving.service import open_service as open_service

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
