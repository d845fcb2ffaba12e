"""Places for mailboxes, one for each backend."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.loops.office import Office

from afl.ids import new_id


@pytest.fixture
def memory_office() -> Iterator[Office]:
    # A place of its own for each test.
    with Office(f"memory:{new_id()}") as office:
        yield office


@pytest.fixture
def sqlite_office() -> Iterator[Office]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    with Office(f"sqlite:///{folder}/afl.db") as office:
        yield office
    # A mailbox whose last message was dropped may be letting go of the file just now.
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_office(redis_url: str) -> Iterator[Office]:
    with Office(redis_url) as office:
        yield office


@pytest.fixture
def postgres_office(postgres_url: str) -> Iterator[Office]:
    with Office(postgres_url) as office:
        yield office


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def anywhere(request: pytest.FixtureRequest) -> Office:
    """On each backend."""
    office: Office = request.getfixturevalue(f"{request.param}_office")
    return office


@pytest.fixture(params=["memory", "sqlite"])
def office(request: pytest.FixtureRequest) -> Office:
    """On those backends that need no server: what is the same for all is tried on these."""
    found: Office = request.getfixturevalue(f"{request.param}_office")
    return found


@pytest.fixture
def events() -> Iterator[Callable[[str], list[dict[str, object]]]]:
    """The facts of all events with a name so far."""
    from afl.telemetry import TELEMETRY, Event

    heard: list[Event] = []
    end = TELEMETRY.subscribe(heard.append)
    yield lambda name: [each.facts() for each in heard if each.name == name]
    end()
