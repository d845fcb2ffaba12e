"""Validation, under the name its users know. It lives in afl.lang.validation."""

from afl.lang.validation import *  # noqa: F403
