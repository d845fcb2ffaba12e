"""`afl turns`: look at the turns of agents, let them go on, answer them, end them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import Json, Limit, Store, as_json, require_there, settings, write_json

if TYPE_CHECKING:
    from afl.gateway.bodies import TurnBody
    from afl.turns.api import TurnRecord, TurnStore

app = typer.Typer(name="turns", help="Look at turns, and act on them.", no_args_is_help=True)

TurnId = Annotated[
    str,
    typer.Argument(metavar="TURN", help="Its id, or how that begins; `afl turns list` shows."),
]
CallId = Annotated[
    str,
    typer.Option("--call", metavar="ID", help="Which one, if the turn has several; else the last."),
]

#: What the turn API says of a turn for HTTP alone; and what it reads for a single turn only.
_FOR_HTTP = ("links", "resume_token")
_OF_ONE = ("result", "waiting")


@contextmanager
def _opened(context: typer.Context, url: str | None) -> Iterator[TurnStore]:
    from afl.turns.opening import open_turns

    place = settings(context, store_url=url).store.url
    require_there(place)
    with closing(open_turns(place)) as store:
        yield store


@contextmanager
def _chosen(context: typer.Context, url: str | None, turn: str) -> Iterator[tuple[TurnStore, str]]:
    """The store, and the whole id of a turn in it."""
    from afl.operations.finding import find_turn

    with _opened(context, url) as store:
        yield store, find_turn(store, turn)


@app.command("list")
def list_(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="accepted, running, waiting, suspended, mismatched, done, failed or cancelled.",
        ),
    ] = None,
    loop: Annotated[
        str | None, typer.Option("--loop", metavar="NAME", help="Turns of this loop.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="TURN", help="Older ones than this: the next page."),
    ] = None,
    limit: Limit = 50,
    store: Store = None,
    json: Json = False,
) -> None:
    """List turns, newest first."""
    from afl.cli.tables import cut, short, show_table
    from afl.operations.finding import find_turn
    from afl.operations.turns import list_turns

    with _opened(context, store) as found:
        last = None if before is None else find_turn(found, before)
        shown = list_turns(found, loop=loop, state=state, limit=limit, before=last)
    if json:
        write_json([_summary(each) for each in shown])
        return
    rows = [
        (short(each.id), each.loop, each.state, str(each.attempt), str(each.seq), cut(each.reason))
        for each in shown
    ]
    columns = ("turn", "loop", "state", "attempts", "entries", "why")
    show_table(columns, rows, "There are no such turns.")


@app.command()
def show(
    context: typer.Context,
    turn: TurnId,
    store: Store = None,
    json: Annotated[  # noqa: ARG001 - taken as by all others
        bool, typer.Option("--json", help="As without it: a checkpoint is JSON.")
    ] = False,
) -> None:
    """Print the checkpoint of a turn as JSON: what was asked, done, remembered, and is open."""
    from afl.operations.turns import show_turn

    with _chosen(context, store, turn) as (found, turn_id):
        kept = show_turn(found, turn_id)
        now = _view(found, found.get(turn_id))
    entries = {name: [_entry(each) for each in kept[name]] for name in ("trace", "tool_results")}
    write_json({**kept, "turn": now, **entries})


@app.command()
def resume(context: typer.Context, turn: TurnId, store: Store = None, json: Json = False) -> None:
    """Let a turn that waits, is suspended or does not fit its code go on."""
    from afl.operations.turns import resume_turn

    with _chosen(context, store, turn) as (found, turn_id):
        record = resume_turn(found, turn_id)
        _say(found, record, "goes on as soon as a loop of its name runs", json)


@app.command()
def answer(
    context: typer.Context,
    turn: TurnId,
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="JSON, or else text.")],
    question: CallId = "",
    store: Store = None,
    json: Json = False,
) -> None:
    """Answer the question that a turn waits for."""
    from afl.operations.turns import answer_turn, value_of

    with _chosen(context, store, turn) as (found, turn_id):
        record = answer_turn(found, turn_id, value_of(text), question=question)
        _say(found, record, "has its answer", json)


@app.command()
def effects(
    context: typer.Context, limit: Limit = 50, store: Store = None, json: Json = False
) -> None:
    """List effects of which nobody knows whether they happened, oldest first."""
    from dataclasses import asdict

    from afl.cli.tables import cut, show_table
    from afl.operations.reading import moment
    from afl.operations.turns import unknown_effects

    with _opened(context, store) as found:
        shown = unknown_effects(found, limit)
    if json:
        write_json([{**asdict(each), "since": moment(each.since)} for each in shown])
        return
    rows = [
        (each.turn_id, each.call_id, each.tool, cut(as_json(each.arguments)), each.idempotency_key)
        for each in shown
    ]
    columns = ("turn", "call", "tool", "arguments", "idempotency key")
    show_table(columns, rows, "There are no effects to settle.")


@app.command()
def settle(
    context: typer.Context,
    turn: TurnId,
    outcome: Annotated[
        str, typer.Argument(metavar="OUTCOME", help="done, failed, or again if it did not happen.")
    ],
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="What the tool returned, or why it failed."),
    ] = "null",
    call: CallId = "",
    store: Store = None,
    json: Json = False,
) -> None:
    """Say what became of an effect, and let its turn go on."""
    from afl.operations.turns import settle_effect, value_of

    with _chosen(context, store, turn) as (found, turn_id):
        record = settle_effect(found, turn_id, outcome, value_of(value), call_id=call)
        _say(found, record, f"goes on: its effect counts as {outcome}", json)


@app.command()
def cancel(
    context: typer.Context,
    turn: TurnId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What whoever asked is told.")
    ] = "",
    store: Store = None,
    json: Json = False,
) -> None:
    """End a turn, whoever does it."""
    from afl.operations.turns import cancel_turn

    with _chosen(context, store, turn) as (found, turn_id):
        _say(found, cancel_turn(found, turn_id, reason), "is cancelled", json)


# Turns for programs: as the turn API shows them


def _summary(record: TurnRecord) -> dict[str, Any]:
    """A turn in a list."""
    from afl.gateway.bodies import given_key, turn_body

    return _without(turn_body(record, key=given_key(record)), *_FOR_HTTP, *_OF_ONE)


def _view(store: TurnStore, record: TurnRecord) -> dict[str, Any]:
    """A turn by itself."""
    from afl.gateway.bodies import given_key, turn_body
    from afl.operations.turns import open_question

    body = turn_body(
        record,
        key=given_key(record),
        result=None if record.result is None else store.value(record.result),
        waiting=open_question(store, record),
    )
    return _without(body, *_FOR_HTTP)


def _without(body: TurnBody, *names: str) -> dict[str, Any]:
    from msgspec.structs import asdict

    return {name: value for name, value in asdict(body).items() if name not in names}


def _entry(kept: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of a journal for programs: who held the turn meanwhile is not for them."""
    from afl.operations.reading import moment

    shown = {name: value for name, value in kept.items() if name != "fence"}
    return {**shown, "at": moment(kept["at"])}


def _say(store: TurnStore, record: TurnRecord, what: str, json: bool) -> None:
    if json:
        write_json(_view(store, record))
    else:
        typer.echo(f"Turn {record.id} {what}.")
