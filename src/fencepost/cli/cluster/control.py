"""How the other actions of `fencepost cluster` reach the process that runs the cluster.

`up` listens on a free port of the loopback interface and leaves `control.json` in the cluster's
directory, readable by its owner alone: the port and a secret. A request is one line of JSON with
that secret, an answer another; then the connection ends. A thread reads requests and puts them into
a queue; the thread that started the nodes carries them out, one at a time.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import queue
import secrets
import socket
import threading
from pathlib import Path
from typing import Any, Final

from fencepost.cli.failures import InputError

LOOPBACK: Final = "127.0.0.1"
FILE: Final = "control.json"
LINE_BYTES_MAX: Final = 64 * 1024
READ_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 150.0  # a node has 30 s to stop and 60 s to be ready
WAITING_MAX: Final = 16
Request = dict[str, Any]


class Asked:
    """A request that waits for its answer; a context manager that ends the connection."""

    def __init__(self, connection: socket.socket, request: Request) -> None:
        self.request = request
        self._connection = connection

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def answer(self, answer: Request) -> None:
        """Send it; the client may have disconnected."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(answer).encode() + b"\n")


class Control:
    """The side of `up`; a context manager."""

    def __init__(self, directory: Path) -> None:
        """OSError if nothing can be written there."""
        self._path = directory / FILE
        self._secret = secrets.token_hex(16)
        self._requests: queue.Queue[Asked] = queue.Queue(WAITING_MAX)
        self._listener = socket.create_server((LOOPBACK, 0))
        port = self._listener.getsockname()[1]
        text = json.dumps({"port": port, "secret": self._secret, "pid": os.getpid()})
        try:
            self._path.unlink(missing_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w") as out:
                out.write(text)
        except OSError:
            self._listener.close()
            raise
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._thread.start()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *error: object) -> None:
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        while (asked := self.next(0)) is not None:
            with asked:
                asked.answer({"error": "the cluster is being stopped"})

    def next(self, timeout_s: float) -> Asked | None:
        """The next request, waiting so long for one."""
        try:
            return self._requests.get(timeout=timeout_s) if timeout_s else self._requests.get(False)
        except queue.Empty:
            return None

    def _read_all(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        """Queue a request; what is none, or comes without the secret, ends the connection."""
        try:
            connection.settimeout(READ_TIMEOUT_S)
            request = _line(connection)
            given = str(request.pop("secret", "")).encode()
            if hmac.compare_digest(given, self._secret.encode()):
                self._requests.put_nowait(Asked(connection, request))
                return
        except (OSError, ValueError, RecursionError, queue.Full):
            pass
        connection.close()


def ask(directory: Path, request: Request) -> Request:
    """What the process that runs the cluster answers. InputError, also if there is none."""
    try:
        content = json.loads((directory / FILE).read_text())
        port, secret = int(content["port"]), str(content["secret"])
    except FileNotFoundError:
        raise InputError(_not_running(directory)) from None
    except OSError as error:
        raise InputError(f"{directory / FILE}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError(f"{directory / FILE}: is damaged; is {directory} a cluster's?") from None
    try:
        with socket.create_connection((LOOPBACK, port), READ_TIMEOUT_S) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.sendall(json.dumps({**request, "secret": secret}).encode() + b"\n")
            answer = _line(connection)
    except TimeoutError:
        raise InputError("the process that runs the cluster does not answer") from None
    except (OSError, OverflowError, ValueError, RecursionError):
        raise InputError(_not_running(directory)) from None
    if "error" in answer:
        raise InputError(str(answer["error"]))
    return answer


def _not_running(directory: Path) -> str:
    return f"no cluster runs in {directory}; `fencepost cluster up --dir {directory}` starts it"


def _line(connection: socket.socket) -> Request:
    """A line of JSON with an object. ValueError for anything else, OSError."""
    data = b""
    while not data.endswith(b"\n"):
        piece = connection.recv(LINE_BYTES_MAX)
        data += piece
        if not piece or len(data) > LINE_BYTES_MAX:
            raise ValueError("no whole line")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found
