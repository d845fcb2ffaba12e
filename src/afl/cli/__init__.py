"""The `afl` command.

One file is one command. Command modules import only typer and this package's `common`; what a
command needs is imported inside it, because every `afl --help` pays for what is imported here.

Exit codes: 0 all is well, 1 the program has problems, 2 the request was wrong.
"""

from afl.cli.app import main

__all__ = ["main"]
