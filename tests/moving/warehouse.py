"""A place that has some of everything in it, and what must be true of its copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from afl import compile_source
from afl.bootstrap import open_store
from afl.mailbox import open_mailbox
from afl.operations import runs
from afl.operations.copying import CopyReport, Watcher, copy_all
from afl.runtime.entities import EventDefinition, PublishedSource, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import EventId, StepId, WorkflowId
from afl.turns import Kind, NewEntry, NewTurn, open_idempotency, open_turns
from afl.turns.api import Ending, TurnState
from afl.turns.idempotency.api import Held, Kept

PROGRAM = compile_source("""
namespace shop

event facet Pay(item: String) => (receipt: String)
event facet Ship(receipt: String) => (parcel: String)

workflow Order(item: String) => (parcel: String) andThen {
    paid = Pay(item = $.item)
    sys.log("paid: " ++ paid.receipt)
    sent = Ship(receipt = paid.receipt)
    yield Order(parcel = sent.parcel)
}
""")
#: How long the claim of somebody who is dead goes on.
_LAPSED_MS = 1
_LONG = b'"' + b"long " * 200 + b'"'


class Shop:
    """The engine on a store."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.evaluator = Evaluator(store)

    def order(self, item: str) -> str:
        return runs.submit(self.evaluator, PROGRAM, "Order", {"item": item}, key=f"order-{item}")

    def claim(self, facet: str, **options: Any) -> TaskDefinition:
        [task] = self.store.claim_tasks([facet], 1, **options)
        return task

    def do(self, facet: str) -> str:
        """Do the next task; its idempotency key."""
        task = self.claim(facet)
        word, given = ("receipt", "item") if facet == "shop.Pay" else ("parcel", "receipt")
        assert task.data is not None
        self.evaluator.complete_task(task, {word: f"{word} of {task.data[given]}"})
        return task.idempotency_key

    def outputs(self, run_id: str) -> dict[str, Any]:
        return dict(self.evaluator.result(WorkflowId(run_id)).outputs)


@contextmanager
def shop_at(url: str) -> Iterator[Shop]:
    with closing(open_store(url)) as store:
        yield Shop(store)


def fill(url: str) -> dict[str, str]:
    """Ids of the runs, by their items. A cup was sent, a pot could not be paid, the worker that
    had the pan died, the jug is paid, and nobody has begun the mug."""
    with shop_at(url) as shop:
        made = {each: shop.order(each) for each in ("cup", "pot")}
        shop.do("shop.Pay")
        shop.do("shop.Ship")
        shop.evaluator.fail_task(shop.claim("shop.Pay"), ValueError("no money"))
        made["pan"] = shop.order("pan")
        shop.claim("shop.Pay", lease_ms=_LAPSED_MS, owner="dead")
        made["jug"] = shop.order("jug")
        task = shop.store.get_pending_tasks()[-1]
        shop.evaluator.continue_step(StepId(task.step_id), {"receipt": "receipt of jug"})
        made["mug"] = shop.order("mug")
        _fill_catalog(shop.store, made["cup"])
        return made


def _fill_catalog(store: PersistenceAPI, run_id: str) -> None:
    store.register_handler("shop.Pay", "file:///shop.py", version="2")
    store.save_published_source(PublishedSource("u", "shop", "namespace shop", ["shop"]))
    event = EventDefinition(
        EventId("event"), StepId("step"), WorkflowId(run_id), payload={"a.b": 1}
    )
    store.save_event(event)


def fill_messages(url: str) -> None:
    """Two that wait, one that was received and given back, and a dead letter."""
    with closing(open_mailbox(url, "letters")) as mailbox:
        for each in ("bad", "first", "second"):
            mailbox.send({"text": each})
        bad, again = mailbox.receive(max_messages=2)
        mailbox.dead_letter(bad, "cannot be read", ValueError("bad"))
        again.nack(visibility_timeout=0)
    with closing(open_idempotency(url)) as keys:
        held = keys.begin("paid", "request")
        assert isinstance(held, Held)
        keys.finish(held, b"receipt")


def fill_turns(url: str) -> tuple[str, str]:
    """One that is over, and one whose process died in the middle."""
    with closing(open_turns(url)) as turns:
        done, open_ = (turns.accept(NewTurn("support", _LONG, key)).id for key in ("a", "b"))
        claim = turns.begin(done, "ann", _LAPSED_MS).claim
        turns.append(claim, [NewEntry(Kind.NOTE, value=_LONG), NewEntry(Kind.NOTE, value=b"1")])
        turns.finish(claim, Ending(TurnState.DONE, result=b'"answer"'))
        claim = turns.begin(open_, "ann", _LAPSED_MS).claim
        turns.append(claim, [NewEntry(Kind.TOOL_INTENT, "pay", "call-1", "{}", _LONG)])
        turns.stream(claim, 1, "call-2", "half a wo")
        return done, open_


def copied(source: str, target: str, watcher: Watcher | None = None, **options: Any) -> CopyReport:
    with closing(open_store(source)) as here, closing(open_store(target)) as there:
        return copy_all(here, source, there, target, watcher=watcher, **options)


def check_messages(url: str) -> None:
    with closing(open_mailbox(url, "letters")) as mailbox:
        assert [each.body["text"] for each in mailbox.dead_letters()] == ["bad"]
        first, second = mailbox.receive(max_messages=9)
        assert (first.body, first.delivery_count) == ({"text": "first"}, 2)
        assert (second.body, second.delivery_count) == ({"text": "second"}, 1)
    with closing(open_idempotency(url)) as keys:
        assert keys.begin("paid", "request") == Kept(b"receipt")
