"""Gathering facts: from `/proc`, the environment, signals, sockets and the store.

Nothing is changed: no database is made or migrated, and ports are let go at once.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from afl.errors import UsageError
from afl.operations.doctor.facts import (
    AppFacts,
    ExtraFacts,
    Platform,
    PortFacts,
    ProcessFacts,
    SignalFacts,
)
from afl.runtime.signals import describe

PROC = Path("/proc")

#: Variable that a platform sets → the platform, and its grace unless it is told another.
_PLATFORMS = {
    "KUBERNETES_SERVICE_HOST": Platform(name="Kubernetes", grace_s=30),
    "ECS_CONTAINER_METADATA_URI_V4": Platform(name="ECS", grace_s=30),
    "NOMAD_ALLOC_ID": Platform(name="Nomad", grace_s=5),
    "K_SERVICE": Platform(name="Cloud Run", grace_s=10),
    "NOTIFY_SOCKET": Platform(name="systemd", grace_s=90),
}

#: Scheme of a URL → the module of its driver, and the extra that brings it.
DRIVERS = {
    "postgresql": ("psycopg_pool", "postgres"),
    "postgres": ("psycopg_pool", "postgres"),
    "mongodb": ("pymongo", "mongo"),
    "mongodb+srv": ("pymongo", "mongo"),
}


def process_facts(proc: Path | None = None, pid: int | None = None) -> ProcessFacts:
    proc = PROC if proc is None else proc
    own = os.getpid() if pid is None else pid
    return ProcessFacts(
        pid=own, first=_words(proc / "1"), parent=_words(proc / _parent(proc / str(own)))
    )


def _words(process: Path) -> list[str]:
    """The command line of a process; none of one that is gone, or where there is no /proc."""
    try:
        text = (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0") if text else []


def _parent(process: Path) -> str:
    try:
        lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = [each.partition(":")[2].strip() for each in lines if each.startswith("PPid:")]
    return found[0] if found else ""


def platform_of(environ: Mapping[str, str]) -> Platform | None:
    return next((each for name, each in _PLATFORMS.items() if name in environ), None)


def app_and_signals(
    app: str | None, load_app: Callable[[str], object]
) -> tuple[AppFacts | None, SignalFacts]:
    """Import the app, if there is one, and see what it does to SIGTERM."""
    at_start = describe(signal.getsignal(signal.SIGTERM))
    loaded = None if app is None else AppFacts(name=app, problem=_problem_of(app, load_app))
    return loaded, SignalFacts(
        at_start=at_start,
        now=describe(signal.getsignal(signal.SIGTERM)),
        is_blocked=signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )


def _problem_of(app: str, load_app: Callable[[str], object]) -> str | None:
    try:
        load_app(app)
    except UsageError as error:
        return str(error)
    return None


def extras_of(url: str, *, traces: bool, serves: bool) -> list[ExtraFacts]:
    """The extras that these settings want."""
    scheme = url.partition(":")[0].lower()
    wanted = [(f"a store at {scheme}:", *DRIVERS[scheme])] if scheme in DRIVERS else []
    wanted += [("telemetry.traces", "opentelemetry.trace", "otel")] if traces else []
    wanted += [("afl serve", "uvicorn", "serve")] if serves else []
    return [
        ExtraFacts(wanted_for=reason, extra=extra, is_there=_is_installed(module))
        for reason, module, extra in wanted
    ]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def port_facts(ports: Mapping[str, int]) -> list[PortFacts]:
    """Whether somebody could listen there. 0 is any port, and always free."""
    return [
        PortFacts(port=port, used_for=use, problem=_port_problem(port))
        for use, port in ports.items()
        if port
    ]


def _port_problem(port: int) -> str | None:
    try:
        # As probes need it, on all interfaces; nothing is answered.
        with socket.create_server(("", port)):
            return None
    except OSError as error:
        return error.strerror or str(error)


def missing_folders(paths: Sequence[Path]) -> list[Path]:
    return [each for each in paths if not each.is_dir()]
