"""An app whose framework wants signals for itself, and does nothing about them."""

from __future__ import annotations

import signal

from tests.deploys.release import app as app

signal.signal(signal.SIGTERM, lambda *_: None)
