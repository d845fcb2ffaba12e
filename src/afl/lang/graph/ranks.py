"""Which row everything stands in: the longest path from the top.

A cluster has a row for its upper border and one for its lower border; what is in it stands
between them. So arrows into a cluster, out of it and across its border all go down.

Arrows that would close a circle do not count. Graphs of programs have none, but a picture of
something wrong is better than no picture.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from afl.lang.graph.tree import Tree

#: A leaf, or a border of a cluster.
_Mark = tuple[str, str]
_Pair = tuple[_Mark, _Mark]


@dataclass(frozen=True)
class Ranks:
    leaf: dict[str, int]
    top: dict[str, int]
    bottom: dict[str, int]
    count: int

    def leaving(self, key: str) -> int:
        """The row that arrows from a leaf or a cluster start in."""
        return self.leaf[key] if key in self.leaf else self.bottom[key]

    def entering(self, key: str) -> int:
        return self.leaf[key] if key in self.leaf else self.top[key]


def assign_ranks(tree: Tree, first: Iterable[str], last: Iterable[str]) -> Ranks:
    """Rows for all leaves and clusters; `first` and `last` stand alone above and below."""
    nesting = list(_nesting(tree))
    nesting += _ends(tree, set(first), set(last))
    arrows = [(_out(tree, each.source), _in(tree, each.target)) for each in tree.arrows]
    ranks = _longest_paths(_marks(tree), nesting, arrows)
    _lower_tops(tree, ranks)
    return Ranks(
        {key: rank for (what, key), rank in ranks.items() if what == "leaf"},
        {key: rank for (what, key), rank in ranks.items() if what == "top"},
        {key: rank for (what, key), rank in ranks.items() if what == "bottom"},
        max(ranks.values(), default=-1) + 1,
    )


def _marks(tree: Tree) -> list[_Mark]:
    borders = [(what, key) for key in tree.clusters for what in ("top", "bottom")]
    return [*borders, *(("leaf", key) for key in tree.leaves)]


def _in(tree: Tree, key: str) -> _Mark:
    return ("top" if key in tree.clusters else "leaf", key)


def _out(tree: Tree, key: str) -> _Mark:
    return ("bottom" if key in tree.clusters else "leaf", key)


def _nesting(tree: Tree) -> Iterator[_Pair]:
    for key, parent in tree.parent.items():
        if parent is not None:
            yield ("top", parent), _in(tree, key)
            yield _out(tree, key), ("bottom", parent)


def _ends(tree: Tree, first: set[str], last: set[str]) -> Iterator[_Pair]:
    outermost = [key for key, parent in tree.parent.items() if parent is None]
    for key in outermost:
        if key not in first:
            yield from ((("leaf", each), _in(tree, key)) for each in first)
        if key not in first and key not in last:
            yield from ((_out(tree, key), ("leaf", each)) for each in last)


def _longest_paths(
    marks: list[_Mark], nesting: list[_Pair], arrows: list[_Pair]
) -> dict[_Mark, int]:
    following: dict[_Mark, list[tuple[_Mark, bool]]] = defaultdict(list)
    waiting = Counter(after for _, after in [*nesting, *arrows])
    # Nesting is never given up, so that each border stays where it belongs.
    nested = Counter(after for _, after in nesting)
    for pairs, is_nesting in ((nesting, True), (arrows, False)):
        for before, after in pairs:
            following[before].append((after, is_nesting))
    ranks = dict.fromkeys(marks, 0)
    ready = deque(each for each in marks if not waiting[each])
    done: set[_Mark] = set()
    while len(done) < len(marks):
        if not ready:
            ready.append(next(each for each in marks if each not in done and not nested[each]))
        mark = ready.popleft()
        done.add(mark)
        for after, is_nesting in following[mark]:
            if after in done:
                continue
            ranks[after] = max(ranks[after], ranks[mark] + 1)
            waiting[after] -= 1
            nested[after] -= is_nesting
            if not waiting[after]:
                ready.append(after)
    return ranks


def _lower_tops(tree: Tree, ranks: dict[_Mark, int]) -> None:
    """A cluster begins right above the first thing in it, however early it could begin."""
    highest: dict[str, int] = {}
    # Inner clusters come later in the graph, so they are final before those around them.
    for key in [*tree.leaves, *reversed(tree.clusters)]:
        mark = _in(tree, key)
        if key in tree.clusters:
            ranks[mark] = highest[key] - 1
        parent = tree.parent[key]
        if parent is not None:
            highest[parent] = min(highest.get(parent, ranks[mark]), ranks[mark])
