"""What all tests share: servers, which start when the first test asks for them, and a clean
import path."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Nothing of what is imported and collected now is garbage: looking for it, again and again, takes
# a fifth of the time. It looks again when the tests begin, then seldom, and not at all of this.
gc.disable()

# Before anything of it is imported: suites of the package explain themselves like tests.
pytest.register_assert_rewrite("afl.testing")

from afl.testing.servers import MongoServer, PostgresServer, ValkeyServer  # noqa: E402
from afl.testing.servers.server import memory_folder  # noqa: E402

# All servers of tests are here and speak plainly: to read the authorities of the whole world for
# each client takes longer than what most clients then do. This folder has none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# Files of tests are in memory, where there is enough of it: they survive a kill as elsewhere, and
# nobody pulls the plug.
if "TMPDIR" not in os.environ and (memory := memory_folder()):
    os.environ["TMPDIR"] = tempfile.tempdir = memory

# As in a terminal, also for all that tests start: in a background job SIGINT is ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example has to be quick: machines that have other things to do are no mistake.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
    gc.enable()


@pytest.fixture(autouse=True)
def _imports_are_forgotten() -> Iterator[None]:
    """Handlers of one test, in a folder of its own, must not be found by another."""
    path = list(sys.path)
    yield
    added = tuple(f"{each}{os.sep}" for each in set(sys.path) - set(path) if each)
    if added:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(added):
                del sys.modules[name]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Valkey, or the server that AFL_TEST_REDIS_URL names."""
    if given := os.environ.get("AFL_TEST_REDIS_URL"):
        yield given
        return
    with ValkeyServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL, or the server that AFL_TEST_POSTGRES_URL names."""
    if given := os.environ.get("AFL_TEST_POSTGRES_URL"):
        yield given
        return
    with PostgresServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def mongo_url() -> Iterator[str]:
    """A MongoDB, or the server that AFL_TEST_MONGODB_URL names."""
    if given := os.environ.get("AFL_TEST_MONGODB_URL"):
        yield given
        return
    with MongoServer() as server:
        yield server.url
