"""Finding what is there twice. Shared by the rules about duplicates; no rule itself."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def repeated(items: Iterable[N]) -> Iterator[N]:
    """The items whose name an earlier one has."""
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            yield item
        seen.add(item.name)
