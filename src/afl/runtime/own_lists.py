"""Task lists that belong to one run: who started it does its tasks, and no worker takes them."""

from __future__ import annotations

from afl.ids import new_id

#: They start like this.
OWN_LIST = "run:"


def own_task_list() -> str:
    """A fresh task list for one run."""
    return f"{OWN_LIST}{new_id()}"
