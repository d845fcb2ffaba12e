"""A store in the memory of one process: for tests, and for programs that may forget.

It keeps every promise of `afl.runtime.persistence` but one: what it holds dies with the process.
"""

from __future__ import annotations

from afl.runtime.memory_store.store import MemoryStore

__all__ = ["MemoryStore"]
