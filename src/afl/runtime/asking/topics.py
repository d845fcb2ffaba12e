"""What is rung when something changes."""

from __future__ import annotations

#: A handler was registered, changed or removed.
HANDLERS = "handlers"


def run_topic(run_id: str) -> str:
    """Something of the run has changed; by its id, and by that of its record."""
    return f"run:{run_id}"


def server_topic(server_id: str) -> str:
    """Something is asked of the server."""
    return f"server:{server_id}"


def work_topic(task_list: str) -> str:
    """A task of the list may be claimed, now or at a time to come."""
    return f"work:{task_list}"
