"""Turns in a file: made by an older program, and with what no file can keep."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from afl.db.migrations import migrate
from afl.db.sqlite import open_database
from afl.errors import StoreMisused
from afl.turns import Delta, Ending, NewTurn, SqliteTurns, TurnState
from afl.turns.sqlite_schema import COMPONENT, MIGRATIONS

_TURN = """\
INSERT INTO turn (id, loop, state, request, fence, attempt, barren, owner, lease_ms, lease_until,
    reason, seq, created, changed)
VALUES ('t1', 'shop', 'suspended', 'hash', 2, 1, 0, '', 0, 0, 'drained', 1, 1, 1)"""
_ENTRY = """\
INSERT INTO turn_entry VALUES ('t1', 1, 'seal', '', '', '', 1, 1, CAST('"x"' AS BLOB), NULL)"""


def old_file(path: Path) -> None:
    """As the first version has left it."""
    with closing(open_database(path)) as database:
        migrate(database, COMPONENT, MIGRATIONS[:1])
        database.write(lambda tx: tx.execute(_TURN))
        database.write(lambda tx: tx.execute(_ENTRY))


def test_turns_of_an_older_program_go_on(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    old_file(path)
    with closing(SqliteTurns(path)) as store:
        (turn,) = store.list()
        assert (turn.streamed, turn.saying, turn.carrier) == (0, "", "")
        begun = store.begin(turn.id, "ann", 1000)
        store.stream(begun.claim, 1, "model", "hello")
        store.finish(begun.claim, Ending(TurnState.DONE))
        seal, said, mark = store.read_stream(turn.id)
    assert not isinstance(seal, Delta)
    assert [each.text for each in (said, mark) if isinstance(each, Delta)] == ["hello", None]


def test_text_that_is_none_is_refused_and_nothing_else_is_lost(tmp_path: Path) -> None:
    with closing(SqliteTurns(tmp_path / "afl.db")) as store:
        kept = store.accept(NewTurn("shop", b"1"))
        with pytest.raises(StoreMisused, match="not valid Unicode"):
            store.accept(NewTurn("\ud800", b"2"))
        assert [each.id for each in store.list()] == [kept.id]
