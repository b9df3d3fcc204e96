"""The endpoint that the JVM calls: one method, which returns errors instead of raising them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from paimon_spark.bridge.protocol import CANCEL, Request, failed, ok, parse_request
from paimon_spark.core.cancellation import cancellable
from paimon_spark.errors import EngineError, PaimonError

Handler = Callable[[Request], Any]
_log = logging.getLogger(__name__)


class Endpoint:
    """A `java.util.function.BiFunction` over the handlers."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._running: dict[str, threading.Event] = {}

    def apply(self, text: str, objects: Any) -> Any:
        """Handle one request."""
        try:
            return self._answer(text, objects)
        except PaimonError as error:
            _log.info("answered with %s", error)
            return failed(error)
        except Py4JJavaError as error:
            return error.java_exception
        except Exception as error:  # noqa: BLE001 - the border: whatever happens becomes an answer
            return _unexpected(error)

    def _answer(self, text: str, objects: Any) -> Any:
        method, envelope = parse_request(text)
        if method == CANCEL:
            return ok({"running": self._cancel(envelope.args["request"])})
        handler = self._handlers.get(method)
        if handler is None:
            raise EngineError(f"The engine has no method '{method}'.")
        request = Request(envelope, objects)
        flag = self._running.setdefault(envelope.request, threading.Event())
        try:
            with cancellable(flag):
                result = handler(request)
        finally:
            self._running.pop(envelope.request, None)
        if isinstance(result, bytes):
            return result
        return result.java if isinstance(result, JvmAnswer) else ok(result)

    def _cancel(self, request: str) -> bool:
        flag = self._running.get(request)
        if flag is not None:
            flag.set()
        return flag is not None

    class Java:
        """The declaration that py4j requires."""

        implements = ("java.util.function.BiFunction",)


class JvmAnswer:
    """A result that is a JVM object, not JSON."""

    def __init__(self, java: Any) -> None:
        self.java = java


def _unexpected(error: Exception) -> Any:
    """Return the JVM exception inside `error` where there is one, else the error's own text."""
    origin = getattr(error, "_origin", None)
    if isinstance(origin, Py4JJavaError):
        return origin.java_exception
    if origin is not None:
        return origin
    _log.exception("unexpected failure")
    return failed(EngineError(f"{type(error).__name__}: {error}"))
