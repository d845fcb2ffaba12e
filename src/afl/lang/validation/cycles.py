"""Circles in a directed graph. Shared by the rules that forbid them; no rule itself."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def find_cycles(nodes: Iterable[N], successors: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """One path `[a, b, …, a]` for each edge that closes a circle, found depth first.

    Iterative, because a chain of calls may be longer than Python's stack.
    """
    found: list[list[N]] = []
    done: set[N] = set()
    for start in nodes:
        if start in done:
            continue
        path, on_path = [start], {start}
        pending: list[Iterator[N]] = [iter(successors(start))]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                pending.pop()
                last = path.pop()
                on_path.discard(last)
                done.add(last)
            elif following in on_path:
                found.append([*path[path.index(following) :], following])
            elif following not in done:
                path.append(following)
                on_path.add(following)
                pending.append(iter(successors(following)))
    return found
