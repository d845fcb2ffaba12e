"""Say once, in the store, where the handlers of parcels.afl are.

From this folder, with a store of its own:

    python register.py sqlite:///./parcels.db
    afl worker --drain-deadline 60s --store sqlite:///./parcels.db &
    afl submit parcels.afl --workflow Ship --input kilos=1.5 --input country=Norway \\
        --store sqlite:///./parcels.db --wait

Workers that run already notice what is registered; those that start later find it. Start as many
as you like, stop them with SIGTERM, kill them: what they had in hand is done by the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from afl import Client
from afl.runtime import PersistenceAPI

HANDLERS = Path(__file__).with_name("handlers.py").resolve().as_uri()


def register(store: PersistenceAPI) -> None:
    store.register_handler("parcels.Quote", HANDLERS, "quote", timeout_ms=10_000)
    store.register_handler("parcels.PrintLabel", HANDLERS, "print_label", on_lost="unknown")


if __name__ == "__main__":
    with Client(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        register(client.store)
        for each in client.store.list_handler_registrations():
            print(f"{each.facet_name}: {each.entrypoint} of {each.module_uri}")
