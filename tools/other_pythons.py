"""Run the unit tests on every other supported Python that this machine has.

Each gets an environment of its own, `.venv-3.X`. A Python that is not here is named and left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ((3, 11), (3, 12), (3, 13))
ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    failed = False
    for version in VERSIONS:
        if version == sys.version_info[:2]:
            continue
        name = ".".join(map(str, version))
        interpreter = find(name)
        if interpreter is None:
            print(f"Python {name}: not on this machine")
            continue
        print(f"Python {name}: {interpreter}", flush=True)
        failed |= run_unit_tests(name, interpreter) != 0
    return int(failed)


def find(name: str) -> str | None:
    """A Python of this version that really starts: a pyenv shim on the PATH may not."""
    roots = [os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")]
    candidates = [shutil.which(f"python{name}")]
    for root in filter(None, roots):
        found = sorted(Path(root, "versions").glob(f"{name}.*/bin/python{name}"))
        candidates += [str(each) for each in found]
    for candidate in filter(None, candidates):
        code = f"import sys, venv, ensurepip; assert sys.version.startswith('{name}.')"
        if subprocess.run([candidate, "-c", code], capture_output=True).returncode == 0:
            return candidate
    return None


def run_unit_tests(name: str, interpreter: str) -> int:
    folder = ROOT / f".venv-{name}"
    python = str(folder / "bin" / "python")
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    environment = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--editable", f"{ROOT}[test]"], check=True, env=environment)
    tests = [python, "-m", "pytest", "--numprocesses", "2", "--quiet", "tests/unit"]
    return subprocess.run(tests, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
