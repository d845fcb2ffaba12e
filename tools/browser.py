"""Gets the browser that the tests of the dashboard drive: Chromium, from the distribution.

As root on Debian it is installed, if it is not there. Elsewhere this says how to get it, and the
tests that need it fail and say so too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_HOW = "apt-get update && apt-get install --yes --no-install-recommends chromium"


def main() -> int:
    if shutil.which("chromium") is not None:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"Chromium is not installed. The tests of the dashboard need it; as root: {_HOW}")
        return 0
    print("Installing Chromium for the tests of the dashboard")
    done = subprocess.run(
        ["bash", "-c", _HOW.replace("apt-get", "DEBIAN_FRONTEND=noninteractive apt-get -qq")],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
