"""Boxes on servers under a machine of receivers and operators."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from afl.clock import FakeClock
from afl.db.postgres import open_postgres
from afl.db.redis import open_redis
from afl.ids import new_id
from afl.mailbox.box import Box
from afl.mailbox.postgres import PostgresBox, prepared
from afl.mailbox.redis import RedisBox
from afl.testing.mailbox_machine import MailboxMachine

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"


class RemoteMachine(MailboxMachine):
    url: ClassVar[str]
    name: str | None = None

    def open_box(self, clock: FakeClock) -> Box[bytes]:
        # All examples share the server.
        self.name = self.name or new_id()
        return self.opened(self.name, clock)

    def opened(self, name: str, clock: FakeClock) -> Box[bytes]:
        raise NotImplementedError


class RedisMachine(RemoteMachine):
    def opened(self, name: str, clock: FakeClock) -> RedisBox:
        return RedisBox(open_redis(self.url), name, offset=lambda: round(clock.monotonic() * 1000))


class PostgresMachine(RemoteMachine):
    def opened(self, name: str, clock: FakeClock) -> PostgresBox:
        database = prepared(open_postgres(self.url))
        return PostgresBox(database, name, offset=lambda: round(clock.monotonic() * 1000))


@pytest.mark.timeout(3600 if IS_STORM else 120)
@pytest.mark.parametrize(
    ("machine", "place"), [(RedisMachine, "redis_url"), (PostgresMachine, "postgres_url")]
)
def test_a_box_keeps_up_with_the_model(
    machine: type[RemoteMachine], place: str, request: pytest.FixtureRequest
) -> None:
    machine.url = request.getfixturevalue(place)
    search = settings(
        max_examples=1000 if IS_STORM else 25,
        stateful_step_count=50,
        # The storm looks elsewhere each time.
        derandomize=not IS_STORM,
        database=None,
        deadline=None,
        # The shortest way to a mistake takes minutes to find: that is for the storm.
        phases=[Phase.generate, Phase.shrink] if IS_STORM else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=search)
