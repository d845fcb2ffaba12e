"""Compiled JSON, under the name its users know. It lives in afl.lang.emitter."""

from afl.lang.emitter import *  # noqa: F403
