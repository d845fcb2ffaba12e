"""Consuming leased work, written once: claims, leases, threads, processes, timeouts, drain.

It knows neither tasks nor messages: a `Source` brings them.
"""

from __future__ import annotations
