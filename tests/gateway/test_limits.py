"""What one client can cost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from tests.gateway.scene import LOOPS, PATIENCE_S, Scene, running
from tests.gateway.test_routes import refused

from afl.gateway import Limits, TurnApi
from afl.gateway.requests import depth_of
from afl.turns import MemoryTurns

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def small() -> Iterator[Scene]:
    limits = Limits(body_bytes=1000, body_seconds=0.3, header_bytes=2000)
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS, limits=limits)) as api,
        closing(Scene(api, store)) as scene,
    ):
        yield scene


def test_a_body_that_is_too_large_is_refused_before_it_is_read(small: Scene) -> None:
    answer = httpx.post(f"{small.url}/turns", content=b"x" * 1001, headers=JSON)
    assert "1000 bytes" in refused(answer, 413, "too-large")["detail"]


def test_a_body_that_does_not_say_how_large_it_is_is_cut_at_the_limit(small: Scene) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    refused(httpx.post(f"{small.url}/turns", content=pieces(), headers=JSON), 413, "too-large")


def test_a_body_of_just_that_size_is_read(small: Scene) -> None:
    body = b'{"loop": "support", "request": "' + b"x" * 966 + b'"}'
    assert len(body) == 1000
    assert httpx.post(f"{small.url}/turns", content=body, headers=JSON).status_code == 202


def test_a_body_that_does_not_come_is_not_waited_for(small: Scene) -> None:
    assert small.api.address is not None
    with socket.create_connection(small.api.address, PATIENCE_S) as slow:
        head = "POST /turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: 10\r\n\r\n{{".encode())
        answer = slow.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"urn:afl:problem:too-slow" in answer


def test_headers_that_are_too_large_are_refused(small: Scene) -> None:
    answer = httpx.get(f"{small.url}/turns", headers={"x": "y" * 2000})
    refused(answer, 431, "headers-too-large")


def test_depth_counts_brackets_outside_of_text() -> None:
    assert depth_of(b'[{"a": [1]}, [[]]]') == 3
    assert depth_of(b'"[[["') == 0
    assert depth_of(rb'["\"[[[", {}]') == 2
    assert depth_of(b"[" * 100_000) == 100_000
