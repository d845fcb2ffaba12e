"""Whether what a process needs is there: store, drivers, folders, ports, the app. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from afl.operations.doctor.facts import Facts, FileFacts, TablesFacts
from afl.operations.doctor.findings import Finding, fail, fine, warn

#: A store's clock may differ from ours by this much before somebody should look.
_SKEW_S = 1.0
#: From here on, times that people and tokens rely on are wrong.
_MOST_SKEW_S = 60.0

#: File systems whose locks and shared memory other machines do not see: SQLite breaks on them.
_NETWORK_FILE_SYSTEMS = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb2",
        "smb3",
        "smbfs",
    ]
)


# The store


def store(facts: Facts) -> Finding:
    found = facts.store
    if found.problem is not None:
        return fail("store", found.problem, "afl config show tells where its URL comes from")
    if found.file is not None and not found.file.is_there:
        return fine("store", f"{found.place}: not there yet; it is made by whoever first needs it")
    if found.place == "memory:":
        return warn(
            "store",
            "in memory: it dies with the process, and no other process sees it",
            "set store.url",
        )
    return fine("store", f"{found.place} answers")


def store_clock(facts: Facts) -> Iterator[Finding]:
    skew = facts.store.skew_s
    if skew is None:
        return
    words = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    advice = "let both machines take their time from NTP"
    if abs(skew) > _MOST_SKEW_S:
        yield fail("store clock", words, advice)
    elif abs(skew) > _SKEW_S:
        yield warn("store clock", words, advice)
    else:
        yield fine("store clock", "the same time as here")


def schema(facts: Facts) -> Iterator[Finding]:
    for each in facts.store.tables:
        yield _tables(each)


def _tables(tables: TablesFacts) -> Finding:
    check = f"tables of {tables.component}"
    if tables.known == 0:
        return fine(check, f"version {tables.version}, which is not ours to use")
    if tables.oldest > tables.known:
        return fail(
            check,
            f"version {tables.version}, and this afl knows them up to {tables.known}",
            "upgrade afl here, or use another database",
        )
    if tables.version < tables.known:
        return fine(check, f"version {tables.version}; the next start brings {tables.known}")
    return fine(check, f"version {tables.version}")


def database_file(facts: Facts) -> Iterator[Finding]:
    file = facts.store.file
    if file is None:
        return
    yield _file_system(file)
    if not file.is_writable:
        yield fail(
            "database file",
            f"{file.path} or its folder cannot be written",
            "give this user the folder, or mount it for writing",
        )


def _file_system(file: FileFacts) -> Finding:
    if file.file_system in _NETWORK_FILE_SYSTEMS:
        return fail(
            "file system",
            f"{file.path} is on {file.file_system}, where SQLite can lose what was written",
            "use a local disk, or PostgreSQL for many machines",
        )
    return fine("file system", file.file_system or "unknown")


# What else is needed


def extras(facts: Facts) -> Iterator[Finding]:
    for each in facts.extras:
        if each.is_there:
            yield fine("extras", f"installed, for {each.wanted_for}")
        else:
            yield fail(
                "extras",
                f"missing, for {each.wanted_for}",
                f"pip install 'afl[{each.extra}]'",
            )


def handler_paths(facts: Facts) -> Iterator[Finding]:
    for path in facts.missing_handler_paths:
        yield fail("handler paths", f"{path} is no folder", "make it, or correct AFL_HANDLER_PATHS")


def scripts(facts: Facts) -> Finding:
    if facts.scripts_enabled:
        return warn(
            "scripts",
            "script blocks run: whoever can submit a program runs code here",
            "leave scripts.enabled off unless you trust them",
        )
    return fine("scripts", "off")


def ports(facts: Facts) -> Iterator[Finding]:
    for each in facts.ports:
        name = f"port {each.port}"
        if each.problem is None:
            yield fine(name, f"free, for {each.used_for}")
        else:
            yield warn(
                name,
                f"nobody else can listen there for {each.used_for}: {each.problem}",
                "fine if the service runs here already; else choose another",
            )


def app(facts: Facts) -> Iterator[Finding]:
    if facts.app is None:
        return
    if facts.app.problem is not None:
        yield fail("app", facts.app.problem, "run doctor in the folder that the service runs in")
    else:
        yield fine("app", f"{facts.app.name} can be served")


def tokens(facts: Facts) -> Iterator[Finding]:
    if facts.app is None:
        return
    if facts.has_tokens:
        yield fine("tokens", "set")
    else:
        yield warn(
            "tokens",
            "none are set: every process makes one of its own, which no other one takes",
            "set AFL_SERVE_TOKENS, or AFL_SERVE_TOKENS_FILE",
        )
