"""Failures of Spark jobs as the errors that our own code raised inside them."""

from __future__ import annotations

import re

from paimon_spark import errors
from paimon_spark.errors import ErrorKind, PaimonError

_RAISED = re.compile(r"paimon_spark\.errors\.(\w+): \[([A-Z_]+)\] (.*)")


def clear_failure(error: Exception) -> Exception:
    """Return the error of ours that a task raised, else `error` itself."""
    if isinstance(error, PaimonError):
        return error
    found = _RAISED.findall(str(error))
    if not found:
        return error
    name, code, text = found[-1]
    kind = getattr(errors, name, PaimonError)
    known = ErrorKind(code) if code in ErrorKind.__members__ else None
    return kind(text, kind=known) if isinstance(kind, type) and issubclass(kind, PaimonError) else error
