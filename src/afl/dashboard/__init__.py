"""The dashboard: pages for people, live, and the same things as JSON. Needs the extra `dashboard`.

Every public name is here, loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    "Dashboard": "afl.dashboard.server",
    **dict.fromkeys(("DashboardApp", "make_app", "mount"), "afl.dashboard.app"),
    "Desk": "afl.dashboard.desk",
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.dashboard.app import DashboardApp as DashboardApp
    from afl.dashboard.app import make_app as make_app
    from afl.dashboard.app import mount as mount
    from afl.dashboard.desk import Desk as Desk
    from afl.dashboard.server import Dashboard as Dashboard


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
