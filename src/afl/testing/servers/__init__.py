"""Real servers for tests: Valkey, PostgreSQL and MongoDB, from wheels.

They need neither root nor docker, listen on free loopback ports, and end with the process that
started them, however that ends. Run as root, PostgreSQL runs as `nobody`, because it refuses root.

    with ValkeyServer() as server:
        client = redis.Redis.from_url(server.url)

Tests may stop, kill, pause and start a server again: its port and its data stay.
"""

from __future__ import annotations

from afl.testing.servers.mongo import MongoCluster as MongoCluster
from afl.testing.servers.mongo import MongoServer as MongoServer
from afl.testing.servers.postgres import PostgresServer as PostgresServer
from afl.testing.servers.server import Server as Server
from afl.testing.servers.server import free_port as free_port
from afl.testing.servers.valkey import ValkeyServer as ValkeyServer
