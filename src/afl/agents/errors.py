"""What can go wrong between us and a model. Families by who must act, as in `afl.errors`."""

from __future__ import annotations

from afl.errors import AflError, UsageError


class ModelError(AflError):
    """A model gave no answer that can be used."""


class ModelUnavailable(ModelError):  # noqa: N818 - what happened is what callers catch
    """The service was tried several times and cannot answer now. Later it may."""


class ModelRefused(ModelError):  # noqa: N818 - what happened is what callers catch
    """The service will not answer this request, however often it is asked: wrong key, unknown
    model, a request that breaks its rules."""


class InvalidAnswer(ModelError):  # noqa: N818 - what happened is what callers catch
    """The model answered, but not what it was asked for, also when told so."""


class BudgetExceeded(AflError):  # noqa: N818 - what happened is what callers catch
    """What may be spent is spent. Nothing is lost: allow more, and go on."""


class InvalidArguments(UsageError):  # noqa: N818 - what happened is what callers catch
    """A value does not have the shape that was asked for. The message names the field."""
