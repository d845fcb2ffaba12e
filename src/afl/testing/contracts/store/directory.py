"""What is looked up by name: flows, workflows, handlers, servers, logs, sources."""

from __future__ import annotations

import pytest

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.runtime.entities import (
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    RunnerState,
    ServerDefinition,
    ServerState,
    WorkflowDefinition,
)
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.testing.contracts.store.exam import StoreExam, new_flow, new_run


def _workflow(uuid: str, name: str, flow_id: str) -> WorkflowDefinition:
    return WorkflowDefinition(uuid, name, "shop", name, flow_id, "", "1.0")


def _names(store: PersistenceAPI) -> list[str]:
    return sorted(each.facet_name for each in store.list_handler_registrations())


class DirectoryContract(StoreExam):
    # Flows and workflows

    def test_a_flow_is_found_by_id_path_and_name(self, store: PersistenceAPI) -> None:
        flow = new_flow("flow", "shop", "shop/main.afl")
        store.save_flow(flow)
        store.save_flow(new_flow("other"))
        assert store.get_flow("flow") == flow
        assert store.get_flow_by_path("shop/main.afl") == flow
        assert store.get_flow_by_name("shop") == flow
        assert len(store.get_all_flows()) == 2
        assert store.get_flow("shop") is None
        assert store.get_flow_by_path("shop") is None
        assert store.get_flow_by_name("flow") is None

    def test_saving_a_flow_again_replaces_it(self, store: PersistenceAPI) -> None:
        store.save_flow(new_flow("flow", "shop"))
        store.save_flow(new_flow("flow", "market"))
        assert store.get_flow_by_name("shop") is None
        assert len(store.get_all_flows()) == 1

    def test_a_flow_that_a_run_needs_cannot_be_deleted(self, store: PersistenceAPI) -> None:
        store.save_flow(new_flow("flow", "shop"))
        store.save_runner(new_run("run", flow_id="flow", state=RunnerState.COMPLETED))
        with pytest.raises(Conflict):
            store.delete_flow("flow")
        assert store.get_flow("flow") is not None

    def test_a_flow_that_nobody_needs_can_be_deleted(self, store: PersistenceAPI) -> None:
        store.save_flow(new_flow("flow", "shop"))
        assert store.delete_flow("flow") is True
        assert store.get_flow("flow") is None
        assert store.delete_flow("flow") is False

    def test_a_workflow_is_found_by_id_name_and_flow(self, store: PersistenceAPI) -> None:
        order, refund = _workflow("o", "shop.Order", "flow"), _workflow("r", "shop.Refund", "flow")
        for workflow in (order, refund, _workflow("x", "other.X", "other")):
            store.save_workflow(workflow)
        assert store.get_workflow("o") == order
        assert store.get_workflow_by_name("shop.Refund") == refund
        found = store.get_workflows_by_flow("flow")
        assert sorted(each.uuid for each in found) == ["o", "r"]
        assert len(store.get_all_workflows()) == 3
        assert len(store.get_all_workflows(limit=2)) == 2
        assert store.get_workflow("shop.Order") is None
        assert store.get_workflow_by_name("o") is None

    # Handlers

    def test_a_registered_handler_is_found_by_its_facet(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        clock.advance(1)
        made = store.register_handler(
            "shop.Pay",
            "shop.handlers",
            "pay",
            version="2.0",
            checksum="abc",
            timeout_ms=5,
            requirements=("requests",),
            metadata={"team": "billing"},
        )
        assert made == HandlerRegistration(
            "shop.Pay",
            "shop.handlers",
            "pay",
            "2.0",
            "abc",
            5,
            ["requests"],
            {"team": "billing"},
            store.now_ms(),
            store.now_ms(),
        )
        assert store.get_handler_registration("shop.Pay") == made
        assert store.get_handler_registration("Pay") is None

    def test_a_registration_replaces_that_of_its_facet(self, store: PersistenceAPI) -> None:
        store.register_handler("shop.Pay", "old")
        store.register_handler("shop.Pay", "new")
        (found,) = store.list_handler_registrations()
        assert found.module_uri == "new"

    def test_a_deleted_registration_is_gone(self, store: PersistenceAPI) -> None:
        store.register_handler("shop.Pay", "shop")
        assert store.delete_handler_registration("shop.Pay") is True
        assert store.delete_handler_registration("shop.Pay") is False
        assert store.list_handler_registrations() == []

    def test_a_short_name_may_stand_beside_qualified_ones(self, store: PersistenceAPI) -> None:
        """An exact name goes first, and the short one takes the rest: nothing is ambiguous."""
        for name in ("b.Pay", "Pay", "a.Pay"):
            store.register_handler(name, "shop")
        assert _names(store) == ["Pay", "a.Pay", "b.Pay"]

    # Servers

    def test_a_server_is_found_by_id_and_state(self, store: PersistenceAPI) -> None:
        server = ServerDefinition("one", "default", "afl-agent", "host", ["10.0.0.1"])
        store.save_server(server)
        store.save_server(ServerDefinition("two", "default", "afl-agent", "host", state="running"))
        assert store.get_server("one") == server
        assert store.get_server("three") is None
        assert len(store.get_all_servers()) == 2
        assert store.get_servers_by_state(ServerState.STARTUP) == [server]
        server.state = ServerState.SHUTDOWN
        store.save_server(server)
        assert store.get_servers_by_state(ServerState.STARTUP) == []
        assert len(store.get_all_servers()) == 2

    def test_a_ping_changes_the_ping_and_nothing_else(self, store: PersistenceAPI) -> None:
        server = ServerDefinition("one", "default", "afl-agent", "host", start_time=5)
        store.save_server(server)
        store.update_server_ping("one", 77)
        store.update_server_ping("nobody", 78)
        server.ping_time = 77
        assert store.get_all_servers() == [server]

    # Logs

    def test_logs_are_read_in_their_order(self, store: PersistenceAPI) -> None:
        logs = [LogDefinition(f"l{each}", each, "run", message=str(each)) for each in (3, 1, 10, 2)]
        store.save_log(logs[0])
        store.commit(IterationChanges(logs=logs[1:]))
        store.save_log(LogDefinition("other", 1, "other"))
        found = store.get_logs_by_runner("run")
        assert [each.order for each in found] == [1, 2, 3, 10]
        assert store.get_logs_by_runner("nobody") == []

    # Sources

    def test_a_source_is_found_by_namespace_and_version(self, store: PersistenceAPI) -> None:
        latest = PublishedSource("1", "shop", "facet A()")
        old = PublishedSource("2", "shop", "facet B()", version="1.0")
        other = PublishedSource("3", "bank", "facet C()")
        for source in (latest, old, other):
            store.save_published_source(source)
        assert store.get_source_by_namespace("shop") == latest
        assert store.get_source_by_namespace("shop", "1.0") == old
        assert store.get_source_by_namespace("shop", "2.0") is None
        assert store.get_sources_by_namespaces(["shop", "bank", "none"]) == {
            "shop": latest,
            "bank": other,
        }
        assert store.get_sources_by_namespaces(["shop", "bank"], "1.0") == {"shop": old}
        assert store.get_sources_by_namespaces([]) == {}
        assert len(store.list_published_sources()) == 3

    def test_publishing_again_replaces_and_deleting_removes(self, store: PersistenceAPI) -> None:
        store.save_published_source(PublishedSource("1", "shop", "facet A()"))
        second = PublishedSource("2", "shop", "facet B()")
        store.save_published_source(second)
        assert store.list_published_sources() == [second]
        assert store.delete_published_source("shop", "1.0") is False
        assert store.delete_published_source("shop") is True
        assert store.delete_published_source("shop") is False
        assert store.get_source_by_namespace("shop") is None
