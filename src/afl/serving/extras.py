"""Whether what the dashboard needs is installed."""

from __future__ import annotations

from importlib.util import find_spec

from afl.errors import ConfigurationError

#: What the extra `dashboard` brings.
_OF_PAGES = ("anyio", "jinja2", "markupsafe", "starlette", "uvicorn")


def require_dashboard() -> None:
    """Raises ConfigurationError, before anything is imported that would not be found."""
    missing = [each for each in _OF_PAGES if find_spec(each) is None]
    if missing:
        raise ConfigurationError(
            f"the dashboard needs {', '.join(missing)}: pip install 'afl[dashboard]'"
        )
