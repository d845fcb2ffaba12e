"""Parsing, under the name its users know. It lives in afl.lang.parser."""

from afl.lang.parser import *  # noqa: F403
