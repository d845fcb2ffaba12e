"""Run the unit tests on every other supported Python that this machine has.

Each gets an environment of its own, `.venv-3.X`. A Python that is not here is named and left out.
They run beside each other, since most of the time each keeps one processor busy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VERSIONS = ((3, 11), (3, 12), (3, 13))
ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    others = [".".join(map(str, each)) for each in VERSIONS if each != sys.version_info[:2]]
    with ThreadPoolExecutor(len(others)) as pool:
        return max(pool.map(try_version, others))


def try_version(name: str) -> int:
    """Run the unit tests on this Python if it is here; the exit code."""
    interpreter = find(name)
    if interpreter is None:
        print(f"Python {name}: not on this machine", flush=True)
        return 0
    ran = run_unit_tests(name, interpreter)
    print(f"Python {name}: {interpreter}\n{ran.stdout}", flush=True)
    return ran.returncode


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


def run_unit_tests(name: str, interpreter: str) -> subprocess.CompletedProcess[str]:
    folder = ROOT / f".venv-{name}"
    python = str(folder / "bin" / "python")
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    environment = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--editable", f"{ROOT}[unit]"], check=True, env=environment)
    tests = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "tests/unit"]
    return subprocess.run(
        tests, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


if __name__ == "__main__":
    sys.exit(main())
