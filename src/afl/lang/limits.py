"""How deep programs may be nested. In a module of its own, because those who only run programs ask
for it, too, and need nothing that reads text."""

from __future__ import annotations

#: Deeper brackets are refused: later passes may then recurse without fear.
MAX_NESTING = 250

#: Deeper expressions are refused, brackets around them included, for the same reason.
MAX_DEPTH = 250
