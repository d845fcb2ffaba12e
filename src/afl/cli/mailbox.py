"""`afl mailbox`: look into mailboxes, and send dead letters again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import Json, as_json, counted, require_there, write_json

if TYPE_CHECKING:
    from afl.operations.mailboxes import MailboxDepth

app = typer.Typer(
    name="mailbox", help="Look into mailboxes, and send dead letters again.", no_args_is_help=True
)


def _there(url: str) -> str:
    if url.lower().startswith("memory:"):
        raise typer.BadParameter("a mailbox in memory is seen by its own process alone")
    require_there(url)
    return url


Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        callback=_there,
        help="Where they are: sqlite:…, postgresql:… or redis:…",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Which one; `afl mailbox list` shows.")]
First = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The first N.")]


@app.command("list")
def list_(url: Url, json: Json = False) -> None:
    """List mailboxes that hold messages or dead letters."""
    from afl.operations.mailboxes import list_mailboxes

    _show_depths(list_mailboxes(url), json)


@app.command()
def depth(url: Url, name: Name = "default", json: Json = False) -> None:
    """Count the messages of a mailbox."""
    from afl.operations.mailboxes import mailbox_depth

    found = mailbox_depth(url, name)
    if json:
        write_json(found)
    else:
        _show_depths([found], json)


def _show_depths(shown: list[MailboxDepth], json: bool) -> None:
    from afl.cli.tables import show_table

    if json:
        write_json(shown)
        return
    rows = [
        (each.name, str(each.ready), str(each.hidden), str(each.dead_letters)) for each in shown
    ]
    columns = ("mailbox", "ready", "hidden", "dead letters")
    show_table(columns, rows, "There are no mailboxes that hold anything.")


@app.command()
def peek(url: Url, name: Name = "default", limit: First = 20, json: Json = False) -> None:
    """Show the first messages of a mailbox. They stay where they are."""
    from afl.cli.tables import clock_time, cut, show_table, span
    from afl.operations.mailboxes import peek_mailbox

    found = peek_mailbox(url, name, limit=limit)
    if json:
        write_json(found)
        return
    rows = [
        (
            each.message_id,
            clock_time(each.enqueued_at),
            str(each.delivery_count),
            span(each.hidden_s) if each.hidden_s else "",
            each.reply_to or "",
            cut(as_json(each.body)),
        )
        for each in found
    ]
    columns = ("message", "sent", "deliveries", "hidden for", "reply to", "body")
    show_table(columns, rows, "" if rows else _nothing(url, name, "messages"))


@app.command("dead-letters")
def dead_letters(url: Url, name: Name = "default", limit: First = 20, json: Json = False) -> None:
    """Show dead letters and their errors. The oldest come first."""
    from afl.cli.tables import clock_time, cut, show_table
    from afl.operations.mailboxes import mailbox_dead_letters

    found = mailbox_dead_letters(url, name, limit=limit)
    if json:
        write_json(found)
        return
    rows = [
        (
            each.message_id,
            clock_time(each.dead_lettered_at),
            str(each.delivery_count),
            cut(each.last_error),
            cut(as_json(each.body)),
        )
        for each in found
    ]
    columns = ("message", "given up", "deliveries", "error", "body")
    show_table(columns, rows, "" if rows else _nothing(url, name, "dead letters"))


def _nothing(url: str, name: str, what: str) -> str:
    """That a mailbox is empty; for one that holds nothing at all, which ones do."""
    from afl.operations.mailboxes import list_mailboxes

    names = [each.name for each in list_mailboxes(url)]
    others = "" if name in names or not names else f" Not empty: {', '.join(names)}."
    return f"Mailbox {name} has no {what}.{others}"


@app.command()
def redrive(
    url: Url,
    name: Name = "default",
    message: Annotated[
        list[str] | None,
        typer.Option("--message", metavar="ID", help="Only this one, not all."),
    ] = None,
    json: Json = False,
) -> None:
    """Send dead letters again. They go to the end of their mailbox, and deliveries count anew."""
    from afl.operations.mailboxes import redrive_mailbox

    count = redrive_mailbox(url, name, message or None)
    if json:
        write_json({"mailbox": name, "redriven": count})
    else:
        typer.echo(f"{counted(count, 'message')} of mailbox {name} will be tried again.")
