"""Two instances are replaced under load, by a release with another prompt and another tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest
from tests.deploys.fleet import Fleet, Instance, eventually
from tests.deploys.load import Balancer, Followed, Load, is_one_text
from tests.engine.profile import IS_STORM

from afl.gateway import TurnClient
from afl.turns import Kind, TurnState, TurnStore, open_turns

#: How often both are replaced, and how many customers of each kind there are.
ROUNDS, CUSTOMERS = (20, 12) if IS_STORM else (1, 3)
#: Longer than a load balancer needs to learn who is ready.
SETTLE = "2s"


@dataclass(frozen=True)
class Receipt:
    turns: int
    lost: int
    #: Effects that were done more than once, and those that were never done.
    doubled: int
    missing: int
    gaps: int
    handed_over: int
    raw: dict[str, int]


def receipt_of(load: Load, client: TurnClient, fleet: Fleet, turns: TurnStore) -> Receipt:
    orders = {each.turn_id: each.order for each in load.followed} | load.taken
    counts = Counter((each["effect"], each["order"]) for each in fleet.ledger())
    wanted = {(effect, order) for order in orders.values() for effect in ("refund", "mail")}
    return Receipt(
        turns=len(orders),
        lost=sum(not is_done(turns, each) for each in orders),
        doubled=sum(count - 1 for count in counts.values()),
        missing=len(wanted - counts.keys()),
        gaps=sum(has_gap(each, client) for each in load.followed),
        handed_over=sum(was_handed_over(turns, each) for each in orders),
        raw=dict(load.raw),
    )


def is_done(turns: TurnStore, turn_id: str) -> bool:
    return bool(turn_id) and turns.get(turn_id).state is TurnState.DONE


def was_handed_over(turns: TurnStore, turn_id: str) -> bool:
    return any(each.kind is Kind.HANDED_OVER for each in turns.read(turn_id))


def has_gap(followed: Followed, client: TurnClient) -> bool:
    """Whether somebody saw another stream than is kept, or a text that is not the agent's."""
    seen = [each.id for each in followed.seen]
    kept = [each.id for each in client.turn(followed.turn_id).stream()]
    return seen != kept or not is_one_text(followed.seen)


def replaced(old: Instance, fleet: Fleet, name: str, release: int) -> Instance:
    new = fleet.start(name, drain="15s", **told(release)).wait_until_ready()
    assert old.end() == 0, old.log
    return new


def told(release: int) -> dict[str, str]:
    return {"RELEASE": str(release), "PACE_S": "0.05", "AFL_LIFECYCLE_SETTLE": SETTLE}


def roll(fleet: Fleet, balancer: Balancer, instances: Sequence[Instance]) -> list[Instance]:
    for number in range(1, ROUNDS + 1):
        fresh = []
        for slot, old in enumerate(instances):
            new = replaced(old, fleet, f"{number}-{slot}", release=1 + number % 2)
            balancer.add(new)
            fresh.append(new)
        instances = fresh
    return list(instances)


@pytest.mark.timeout(3600 if IS_STORM else 180)
def test_a_rolling_deploy_under_load_loses_nothing_and_does_nothing_twice(fleet: Fleet) -> None:
    fleet.open_shop()
    instances = [fleet.start(f"0-{slot}", drain="15s", **told(1)) for slot in range(2)]
    with closing(Balancer()) as balancer, closing(open_turns(fleet.store)) as turns:
        for each in instances:
            balancer.add(each.wait_until_ready())
        client = fleet.client(url=balancer.url)
        load = Load(client, balancer.url, CUSTOMERS)
        eventually(lambda: len(load.taken) >= 2, "under load")
        last = roll(fleet, balancer, instances)
        load.stop()
        receipt = receipt_of(load, client, fleet, turns)
    assert receipt.turns > ROUNDS * CUSTOMERS * 2
    assert (receipt.lost, receipt.doubled, receipt.missing, receipt.gaps) == (0, 0, 0, 0), receipt
    assert receipt.handed_over or not IS_STORM, receipt
    # Nobody met a closed door or an error; some may have been asked to come again.
    assert receipt.raw.keys() <= {"POST 202", "GET 200", "POST 503 with Retry-After"}, receipt
    assert all(each.end() == 0 for each in last)
