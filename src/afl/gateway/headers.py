"""Headers that server and client agree on."""

from __future__ import annotations

#: The same key is the same turn.
KEY = "idempotency-key"
#: Behind which event a stream is to go on.
PLACE = "last-event-id"
