"""`python -m afl` is `afl`."""

import sys

from afl.cli import main

sys.exit(main())
