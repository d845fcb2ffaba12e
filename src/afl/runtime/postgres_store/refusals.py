"""Values that no column can take: what the caller is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors

from afl.errors import StoreMisused
from afl.runtime.rows.codec import not_text


@contextmanager
def refusing() -> Iterator[None]:
    """Raise StoreMisused where a value cannot be kept; all else comes out as it is."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise not_text(error) from error
    except (errors.NumericValueOutOfRange, OverflowError) as error:
        raise StoreMisused("a number does not fit into 64 bits; hand it over as text") from error
    except errors.ProgramLimitExceeded as error:
        raise StoreMisused(f"a name or key is too long: {error}; use a shorter one") from error
    except (
        errors.DataError,
        errors.NotNullViolation,
        errors.DatatypeMismatch,
        errors.ProgrammingError,
    ) as error:
        raise StoreMisused(f"a field has a value of the wrong kind: {error}") from error
