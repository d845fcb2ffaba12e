"""Every worker passes the exam of runnables, on every store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workers.shop import Shop, new_store, weigh

from afl.runtime import AgentPoller, RegistryRunner, RunnerService, ToolRegistry
from afl.runtime.lifecycle import Runnable
from afl.testing.runnable import RunnableExam


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    store = new_store(request.param, folder)
    yield Shop(store)
    store.close()
    shutil.rmtree(folder)


class TestAgentPoller(RunnableExam):
    @pytest.fixture
    def loop(self, shop: Shop) -> Runnable:
        poller = AgentPoller(shop.store, shop.evaluator)
        poller.register("shop.Weigh", weigh)
        return poller


class TestRegistryRunner(RunnableExam):
    @pytest.fixture
    def loop(self, shop: Shop) -> Runnable:
        return RegistryRunner(shop.store, shop.evaluator)


class TestRunnerService(RunnableExam):
    @pytest.fixture
    def loop(self, shop: Shop) -> Runnable:
        tools = ToolRegistry()
        tools.set_default_handler(lambda name, payload: weigh(payload))
        return RunnerService(shop.store, shop.evaluator, tool_registry=tools)
