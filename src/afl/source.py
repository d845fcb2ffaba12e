"""Sources, under the name their users know. It lives in afl.lang.sources."""

from afl.lang.sources import *  # noqa: F403
