"""The engine's end of the connections with its JVM. Both sides authenticate before they exchange messages.

pyspark opens the port for the JVM's calls without a secret. py4j supports one, but its JVM side loses the secret when
the port becomes known, sends it in the clear to any listener, and does not authenticate the other side.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import socket
from typing import Any, BinaryIO

from py4j.clientserver import ClientServerConnection, PythonServer
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

GREETING = "PAIMON_SPARK_GREETING"
"""The environment variable with the secret of the connections that the JVM opens."""
SIZE = 32
_TIMEOUT_SECONDS = 20.0
_log = logging.getLogger(__name__)


def open_gateway() -> Any:
    """Return the gateway to the JVM that started this process, with a port for the JVM's own calls."""
    greeting = os.environ.pop(GREETING)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    os.environ.pop("PYSPARK_GATEWAY_SECRET", None)
    parts = (gateway._gateway_client, gateway.java_parameters, gateway.python_parameters, gateway.gateway_property)
    gateway._create_callback_server = lambda _: _Server(greeting, *parts)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return gateway


class _Server(PythonServer):
    def __init__(self, greeting: str, *parts: Any) -> None:
        super().__init__(*parts)
        self._greeting = greeting

    def _create_connection(self, connected: Any, stream: Any) -> ClientServerConnection:
        parts = (self.java_parameters, self.python_parameters, self.gateway_property, self.gateway_client, self)
        connection = _Connection(self._greeting, *parts)
        connection.init_socket_from_python_server(connected, stream)
        return connection


class _Connection(ClientServerConnection):
    """A connection that was accepted; it has a thread of its own, so that a silent client does not block others."""

    def __init__(self, greeting: str, *parts: Any) -> None:
        super().__init__(*parts)
        self._greeting = greeting

    def run(self) -> None:
        if is_greeted(self.socket, self.stream, self._greeting):
            # The end of a large answer would wait up to 40 ms until what was sent before is acknowledged.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            super().run()
        else:
            _log.warning("rejected an unauthenticated connection")
            self.close(reset=True)


def is_greeted(connected: socket.socket, stream: BinaryIO, secret: str) -> bool:
    """Prove knowledge of `secret` to the other side, and return whether that side has proved it too."""
    try:
        connected.settimeout(_TIMEOUT_SECONDS)
        theirs = stream.read(SIZE)
        if len(theirs) < SIZE:
            return False
        mine = secrets.token_bytes(SIZE)
        connected.sendall(mine + _prove(secret, b"engine", theirs, mine))
        known = hmac.compare_digest(stream.read(SIZE), _prove(secret, b"jvm", mine, theirs))
        connected.settimeout(None)
    except OSError:
        return False
    return known


def _prove(secret: str, *parts: bytes) -> bytes:
    return hmac.digest(secret.encode("ascii"), b"".join(parts), hashlib.sha256)
