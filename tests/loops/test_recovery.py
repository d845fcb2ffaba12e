"""What becomes of messages when a loop stops, at each stage of their way, on every backend."""

from __future__ import annotations

from typing import Any

from tests.loops.office import Gate, Office, Running, eventually

from afl.loops import AgentLoopRequest
from afl.mailbox import Message


def test_what_is_in_flight_when_the_stop_comes_is_finished_and_acknowledged(
    anywhere: Office,
) -> None:
    gate = Gate()
    (asked,) = anywhere.ask("first")
    loop = anywhere.loop(gate)
    with Running(loop) as running:
        gate.wait_for(1)
        running.stop()
        gate.may_end.set()
    (answer,) = anywhere.answers(1)
    assert (answer.request_id, answer.output, answer.success) == (asked, "first", True)
    assert anywhere.requests.approximate_count() == 0


def test_what_was_received_but_not_begun_is_given_back_at_once_and_in_its_place(
    anywhere: Office,
) -> None:
    begun: list[Any] = []
    anywhere.ask("first", "second", "third", "fourth")
    requests: Any = anywhere.open("requests", AgentLoopRequest[Any])
    loop = anywhere.loop(begun.append, requests=requests, concurrency=3)
    receive = requests.receive

    def receive_then_stop(**options: Any) -> list[Message[Any, Any]]:
        messages: list[Message[Any, Any]] = receive(**options)
        loop.request_stop()
        return messages

    requests.receive = receive_then_stop
    with Running(loop) as running:
        running.join()
    assert begun == []
    # Nobody counts it: a rolling restart must not wear messages out.
    taken = [anywhere.take() for _ in range(4)]
    assert [each.body.request for each in taken] == ["first", "second", "third", "fourth"]
    assert [each.delivery_count for each in taken] == [1, 1, 1, 1]


def test_what_was_never_received_goes_to_another_loop(anywhere: Office) -> None:
    gate = Gate()
    anywhere.ask("first", "second", "third")
    first = anywhere.loop(gate)
    with Running(first) as running:
        gate.wait_for(1)
        running.stop()
        gate.may_end.set()
    assert gate.begun == ["first"]
    with Running(anywhere.loop(str.upper)):
        assert anywhere.outputs(3) == ["first", "SECOND", "THIRD"]


def test_what_a_dead_loop_had_comes_back_when_its_lease_ends(anywhere: Office) -> None:
    (asked,) = anywhere.ask("first")
    lost = anywhere.take(lease_s=0.3)  # and never heard of again
    with Running(anywhere.loop(str.upper)):
        (answer,) = anywhere.answers(1)
    assert answer.request_id == asked
    assert answer.run_context is not None
    assert (lost.delivery_count, answer.run_context.attempt) == (1, 2)


def test_a_turn_may_take_much_longer_than_its_lease(anywhere: Office) -> None:
    """Another loop looks for work all the while."""
    gate = Gate()
    anywhere.ask("first")
    requests: Any = anywhere.open("requests", AgentLoopRequest[Any])
    # Long enough for a busy machine to renew it in time.
    loop = anywhere.loop(gate, requests=requests, lease_s=0.9)
    other = anywhere.loop(str.upper, lease_s=0.9)
    renewals, extend_all = [], requests.extend_all

    def counted(*arguments: Any) -> list[bool]:
        renewals.append(1)
        kept: list[bool] = extend_all(*arguments)
        return kept

    requests.extend_all = counted
    with Running(loop):
        gate.wait_for(1)
        with Running(other):
            eventually(lambda: len(renewals) > 6)  # two leases, and more
            gate.may_end.set()
            assert anywhere.outputs(1) == ["first"]
    assert loop.leases_lost == 0


def test_what_is_not_finished_when_the_time_is_over_is_given_back_unanswered(
    anywhere: Office,
) -> None:
    gate = Gate()
    anywhere.ask("first")
    loop = anywhere.loop(gate)
    with Running(loop) as running:
        gate.wait_for(1)
        running.stop()
        loop.checkpoint()
        running.join()
    assert anywhere.take().delivery_count == 1
    gate.may_end.set()  # a thread that nobody waits for ends now, and says nothing
    assert anywhere.replies.approximate_count() == 0


def test_the_place_may_close_while_a_turn_goes_on(anywhere: Office) -> None:
    gate = Gate()
    anywhere.ask("first")
    requests = anywhere.open("requests", AgentLoopRequest[Any])
    with Running(anywhere.loop(gate, requests=requests)) as running:
        gate.wait_for(1)
        requests.close()
        gate.may_end.set()
        running.join()
    assert anywhere.outputs(1) == ["first"]
    assert anywhere.requests.approximate_count() == 0


def test_an_idle_loop_stops_at_once_whatever_it_waits_for(anywhere: Office) -> None:
    loop = anywhere.loop(str.upper)
    with Running(loop, wait_time_seconds=3600) as running:
        eventually(lambda: loop.running)
        running.stop()
        running.join()


def test_a_request_wakes_an_idle_loop(anywhere: Office) -> None:
    with Running(anywhere.loop(str.upper), wait_time_seconds=3600):
        anywhere.ask("first")
        assert anywhere.outputs(1) == ["FIRST"]
