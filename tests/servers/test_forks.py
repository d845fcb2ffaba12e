"""A forked child does not use the connections of its parent."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.servers.conftest import PATIENCE_S

_FORK = """
import os, sys
from afl.errors import StoreMisused
from afl.mailbox import open_mailbox

url = sys.argv[1]
mailbox = open_mailbox(url, "forks")
mailbox.purge()
mailbox.send("of the parent")
mailbox.wait(0)  # from now on it listens, too
child = os.fork()
if not child:
    try:
        mailbox.send("with the connection of the parent")
    except StoreMisused:
        mailbox.close()  # leaves the parent alone
        own = open_mailbox(url, "forks")
        own.send("of the child")
        own.close()
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
bodies = [each.body for each in mailbox.receive(max_messages=10)]
assert bodies == ["of the parent", "of the child"], bodies
mailbox.purge()
mailbox.close()
"""


@pytest.mark.parametrize("place", ["redis_url", "postgres_url"])
def test_a_forked_child_opens_its_own(place: str, request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-c", _FORK, request.getfixturevalue(place)]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
