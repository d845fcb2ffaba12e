"""What the dashboard works on, put together as the settings say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from afl.bootstrap import evaluator
from afl.config import Config
from afl.dashboard.desk import Desk
from afl.lang.program import Program
from afl.runtime.persistence import PersistenceAPI
from afl.turns.opening import open_turns

#: Stores in which mailboxes are found by others, too.
_WITH_MAILBOXES = ("sqlite", "postgresql", "postgres")


@contextmanager
def open_desk(
    config: Config,
    store: PersistenceAPI,
    *,
    programs: Sequence[Program] = (),
    mailboxes: str | None = None,
) -> Iterator[Desk]:
    """For the dashboard of this store. What it opens is closed at the end of the block."""
    desk = Desk(
        store,
        evaluator(store, config),
        open_turns=lambda: open_turns(config.store.url),
        mailboxes=mailboxes or _mailboxes_at(config.store.url),
        programs=programs,
        handler_paths=config.handlers.paths,
        task_list=config.worker.task_list,
    )
    with closing(desk):
        yield desk


def _mailboxes_at(url: str) -> str | None:
    return url if url.partition(":")[0].lower() in _WITH_MAILBOXES else None
