"""The syntax tree, under the name its users know. It lives in afl.lang.ast."""

from afl.lang.ast import *  # noqa: F403
