"""Every error that afl raises, in families by who must act.

- `LanguageError`: the author of a workflow edits the text.
- `UsageError`: the caller of a command or function asked for something that cannot be.
- `ConfigurationError`: the operator fixes settings, before anything starts.
- `StoreError`: a database or queue could not do it; the class says whether to try again.

A family carries its facts as attributes and builds its message from them. Families whose
subjects live in one package (`afl.lang`, ...) are refined there, never beside it.
"""

from __future__ import annotations


class AflError(Exception):
    """Root of all errors of this package; catch it to catch them all."""


class LanguageError(AflError):
    """AFL text is wrong. The author must edit it; the diagnostics say where and how."""


class UsageError(AflError):
    """The request itself cannot be served: a missing file, an unknown name. Ask differently."""


class ConfigurationError(AflError):
    """A setting is missing, malformed or contradicts another. The operator must act."""


class NewerSchema(ConfigurationError):  # noqa: N818 - what happened is what callers catch
    """The database was changed by a newer afl than this one, which would not understand it.

    Upgrade afl here to at least the version that last used the database, or point this process
    at another database. There is no way back to an older schema.
    """

    def __init__(self, component: str, found: int, known: int, place: str) -> None:
        self.component = component
        self.found = found
        self.known = known
        self.place = place
        super().__init__(
            f"{place}: the tables of {component} have version {found}, but this afl knows them "
            f"only up to version {known}. A newer afl has used this database: upgrade afl here, "
            "or use another database"
        )


class StoreError(AflError):
    """A store could not do what it was asked; nothing of the request was applied."""


class StoreUnavailable(StoreError):  # noqa: N818 - what happened is what callers catch
    """The store cannot be reached or used now: locked, full, failing, gone.

    Trying again may help, after a pause; the message says what the operator can look at.
    """


class StoreClosed(StoreError):  # noqa: N818 - what happened is what callers catch
    """The store was closed in this process. Whoever still uses it has outlived it: stop."""


class StoreMisused(StoreError):  # noqa: N818 - what happened is what callers catch
    """The calling code breaks a rule of the store. Change the code: trying again never helps."""


class Conflict(StoreError):  # noqa: N818 - what happened is what callers catch
    """Someone else was first: the row exists, the version moved on, the claim was lost.

    Read again and decide anew; the same request will fail the same way.
    """


class NotFound(StoreError):  # noqa: N818 - what happened is what callers catch
    """What was asked for is not in the store. Check the id, and that it is the right store."""
