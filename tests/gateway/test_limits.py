"""What one client can cost."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
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


def depth_by_hand(body: bytes) -> int:
    depth = deepest = 0
    is_text = is_escaped = False
    for letter in body.decode("latin-1"):
        if is_escaped:
            is_escaped = False
        elif is_text:
            is_escaped, is_text = letter == "\\", letter != '"'
        elif letter == '"':
            is_text = True
        elif letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


@given(st.lists(st.sampled_from([b'"', b"\\", b"[", b"]", b"{", b"}", b"x", b"\n"])).map(b"".join))
@example(b'["[')
@example(b'["[\\')
@example(b'"\\\\"[')
def test_depth_is_the_same_when_letters_are_read_one_by_one(body: bytes) -> None:
    assert depth_of(body) == depth_by_hand(body)


#: Reads bodies of the largest size that is allowed, each of a few letters that are repeated.
READING = """
import ast, sys
from afl.gateway import Limits
from afl.gateway.requests import depth_of
for piece in map(ast.literal_eval, sys.argv[1:]):
    depth_of(piece * (Limits().body_bytes // len(piece)))
"""
PIECES = [b'\\"', b'"', b"\\", b"[", b'"[', b'\\"[', b'"\\', b'"\\\\', b'"\\"', b'"\\\\\\"]{']


def test_no_body_keeps_the_process_busy_for_long() -> None:
    """All together take about a second; if letters were read again and again, it would be hours.
    In a process of its own, because no other thread of that one could do anything."""
    command = [sys.executable, "-c", READING, *map(repr, PIECES)]
    subprocess.run(command, check=True, timeout=2 * PATIENCE_S)
