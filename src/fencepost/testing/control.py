"""The control port: everything that `Cluster` and `Proxy` can do, over HTTP with JSON.

So that tests in other languages can use it. It listens on the loopback interface and is for the
tests of one machine: any process that reaches it may kill brokers. What a browser sends for a page
of another site is refused (an `Origin`, or a `Host` that is not this one).

| request | what it does |
|---|---|
| GET / | nodes, faults, cuts, where clients begin |
| POST /nodes/ID/ACTION | start, stop, kill, restart, pause, resume |
| POST /faults | a fault: kind, api, error, delay_ms, count, client_id, topic, node, after |
| GET /faults, GET /faults/ID | those in force; one, with how many requests it has met |
| DELETE /faults/ID, DELETE /faults | lift one, which releases what it holds; lift all |
| POST /cuts | {from, to, one_way}: a node's id, a client's id, or null for anybody |
| POST /slow | {from, to, one_way, delay_ms, bytes_per_s}: a link that takes its time |
| DELETE /cuts, DELETE /slow | heal what is cut or slow; {from, to}, or everything |
| POST /truncate | {topic, partition, to} |

An answer is JSON. One that is an error has `error` in it, and a status: 400 what was asked makes no
sense, 404 there is no such thing, 405 or 413 as HTTP says, 409 it cannot be done now.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from fencepost.testing.cluster import Cluster
from fencepost.testing.faults.injector import FaultInjector
from fencepost.testing.faults.rules import FaultError
from fencepost.testing.node_process import ClusterError
from fencepost.testing.ports import LOOPBACK
from fencepost.testing.proxy import Proxy

BODY_BYTES_MAX: Final = 64 * 1024
REQUEST_TIMEOUT_S: Final = 10.0
REQUESTS_AT_ONCE_MAX: Final = 32
NAME_LETTERS_MAX: Final = 1_000
ACTIONS: Final = frozenset({"start", "stop", "kill", "restart", "pause", "resume"})
FAULT_FIELDS: Final[dict[str, type | tuple[type, ...]]] = {
    "kind": str,
    "api": (str, int, type(None)),
    "error": (str, int),
    "delay_ms": int,
    "count": (int, type(None)),
    "client_id": (str, type(None)),
    "topic": (str, type(None)),
    "node": (int, type(None)),
    "after": bool,
}
END: Final = (str, int, type(None))
SLOW_FIELDS: Final[dict[str, type | tuple[type, ...]]] = {
    "from": END,
    "to": END,
    "one_way": bool,
    "delay_ms": int,
    "bytes_per_s": int,
}
Body = dict[str, Any]


class _Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ControlPort:
    """Serves what a cluster or a proxy can do; a context manager, or `start` and `close`."""

    def __init__(self, injector: FaultInjector, port: int = 0) -> None:
        """OSError if the port is taken; 0 is a free one."""
        self._injector = injector
        self._changing = threading.Lock()
        self._places = threading.BoundedSemaphore(REQUESTS_AT_ONCE_MAX)
        control = self

        class Handler(_Handler):
            owner = control

        self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> ControlPort:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="fencepost-control",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    # -- what can be asked -----------------------------------------------------------------

    def answer(self, method: str, path: str, body: Body) -> tuple[HTTPStatus, Any]:
        """The answer to a request. _Refused."""
        for pattern, verbs in self._routes().items():
            found = re.fullmatch(pattern, path)
            if found is None:
                continue
            if method not in verbs:
                allowed = ", ".join(verbs)
                raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {allowed}")
            try:
                return verbs[method](body, *found.groups())
            except (FaultError, ValueError) as error:
                raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
            except (ClusterError, OSError) as error:
                raise _Refused(HTTPStatus.CONFLICT, str(error)) from error
        raise _Refused(HTTPStatus.NOT_FOUND, f"there is no {path[:NAME_LETTERS_MAX]}")

    def _routes(self) -> dict[str, dict[str, Callable[..., tuple[HTTPStatus, Any]]]]:
        return {
            "/": {"GET": self._state},
            r"/nodes/([0-9]{1,9})/([a-z]{1,10})": {"POST": self._act},
            "/faults": {"GET": self._list, "POST": self._inject, "DELETE": self._lift_all},
            r"/faults/([0-9]{1,18})": {"GET": self._show, "DELETE": self._lift},
            "/cuts": {"POST": self._cut, "DELETE": self._heal},
            "/slow": {"POST": self._slow, "DELETE": self._heal},
            "/truncate": {"POST": self._truncate},
        }

    def _state(self, body: Body) -> tuple[HTTPStatus, Any]:
        injector = self._injector
        state: dict[str, Any] = {}
        if isinstance(injector, Cluster):
            state["bootstrap_servers"] = injector.bootstrap_servers
            state["nodes"] = [
                {
                    "id": id_,
                    "role": "broker" if id_ in injector.brokers else "controller",
                    "running": node.running,
                    "paused": node.is_paused,
                    "pid": node.pid if node.running else None,
                    "log": str(node.log_path),
                }
                for id_, node in injector.nodes.items()
            ]
        elif isinstance(injector, Proxy):
            state["bootstrap_servers"] = injector.bootstrap_servers
            state["targets"] = injector.targets
        state["faults"] = [one.to_json() for one in injector.faults]
        state["cuts"] = self._cuts()
        state["slow"] = self._slow_links()
        return HTTPStatus.OK, state

    def _act(self, body: Body, node: str, action: str) -> tuple[HTTPStatus, Any]:
        cluster = self._cluster()
        _check(body, {})
        if action not in ACTIONS:
            raise _Refused(HTTPStatus.NOT_FOUND, f"a node can {', '.join(sorted(ACTIONS))}")
        if int(node) not in cluster.nodes:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no node {node}")
        with self._changing:
            getattr(cluster, action)(int(node))
        return HTTPStatus.OK, {"id": int(node), "running": cluster.nodes[int(node)].running}

    def _list(self, body: Body) -> tuple[HTTPStatus, Any]:
        return HTTPStatus.OK, [one.to_json() for one in self._injector.faults]

    def _inject(self, body: Body) -> tuple[HTTPStatus, Any]:
        _check(body, FAULT_FIELDS)
        kind = body.pop("kind", "fail")
        if kind not in ("fail", "disconnect", "delay", "hold"):
            raise FaultError(f"kind {str(kind)[:100]!r}: fail, disconnect, delay or hold")
        count = body.pop("count", 1 if kind in ("fail", "disconnect") else None)
        fault = self._injector.inject(kind, body.pop("api", None), count, **body)
        return HTTPStatus.CREATED, fault.to_json()

    def _show(self, body: Body, id_: str) -> tuple[HTTPStatus, Any]:
        fault = self._injector.fault(int(id_))
        if fault is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no fault {id_}")
        return HTTPStatus.OK, fault.to_json()

    def _lift(self, body: Body, id_: str) -> tuple[HTTPStatus, Any]:
        fault = self._injector.fault(int(id_))
        if fault is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no fault {id_}")
        fault.lift()
        return HTTPStatus.OK, fault.to_json()

    def _lift_all(self, body: Body) -> tuple[HTTPStatus, Any]:
        for fault in self._injector.faults:
            fault.lift()
        return HTTPStatus.OK, []

    def _cut(self, body: Body) -> tuple[HTTPStatus, Any]:
        _check(body, {"from": END, "to": END, "one_way": bool})
        if "from" not in body:
            raise FaultError("from: a node's id, a client's id, or null for anybody is wanted")
        one_way = body.get("one_way", False)
        self._injector.cut(body["from"], body.get("to"), one_way=one_way)
        return HTTPStatus.CREATED, self._cuts()

    def _slow(self, body: Body) -> tuple[HTTPStatus, Any]:
        _check(body, SLOW_FIELDS)
        if "from" not in body:
            raise FaultError("from: a node's id, a client's id, or null for anybody is wanted")
        self._injector.slow(body.pop("from"), body.pop("to", None), **body)
        return HTTPStatus.CREATED, self._slow_links()

    def _slow_links(self) -> list[dict[str, Any]]:
        return [
            {"from": a, "to": b, "delay_ms": pace.delay_ms, "bytes_per_s": pace.bytes_per_s}
            for (a, b), pace in self._injector.slow_links.items()
        ]

    def _heal(self, body: Body) -> tuple[HTTPStatus, Any]:
        _check(body, {"from": END, "to": END})
        self._injector.heal(body.get("from"), body.get("to"))
        return HTTPStatus.OK, self._cuts()

    def _cuts(self) -> list[dict[str, Any]]:
        return [{"from": a, "to": b} for a, b in self._injector.cuts]

    def _truncate(self, body: Body) -> tuple[HTTPStatus, Any]:
        cluster = self._cluster()
        _check(body, {"topic": str, "partition": int, "to": int}, all_needed=True)
        with self._changing:
            done = cluster.truncate(body["topic"], body["partition"], body["to"])
        return HTTPStatus.OK, done.to_json()

    def _cluster(self) -> Cluster:
        if not isinstance(self._injector, Cluster):
            raise _Refused(HTTPStatus.NOT_FOUND, "a proxy has no nodes of its own")
        return self._injector


class _Handler(BaseHTTPRequestHandler):
    """One connection to the control port; one request each."""

    owner: ControlPort
    timeout = REQUEST_TIMEOUT_S
    server_version = "fencepost-control"
    sys_version = ""

    def handle(self) -> None:
        """Serve it; who goes before the answer is no error of ours."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def _serve(self) -> None:
        if not self.owner._places.acquire(blocking=False):
            self._reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many requests at once"})
            return
        try:
            self._check_origin()
            status, said = self.owner.answer(self.command, self.path, self._body())
        except _Refused as refused:
            status, said = refused.status, {"error": str(refused)}
        finally:
            self.owner._places.release()
        self._reply(status, said)

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = _serve  # noqa: N815 - named by HTTP

    def _check_origin(self) -> None:
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] or host
        if self.headers.get("Origin") is not None or name not in ("127.0.0.1", "localhost"):
            raise _Refused(HTTPStatus.FORBIDDEN, "this is for programs of this machine")

    def _body(self) -> Body:
        """The object in the body; empty if there is no body. _Refused."""
        if self.headers.get("Transfer-Encoding") is not None:
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is wanted")
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]{1,9}", length):
            raise _Refused(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
        if int(length) > BODY_BYTES_MAX:
            reason = f"a body has {BODY_BYTES_MAX} bytes at most"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            data = self.rfile.read(int(length))
            body = json.loads(data) if data.strip() else {}
        except TimeoutError:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the body did not come") from None
        except (ValueError, RecursionError):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not an object")
        return body

    def _reply(self, status: HTTPStatus, said: Any) -> None:
        data = json.dumps(said).encode() + b"\n"
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing on standard error: answers say what is wrong."""


def _check(
    body: Body, fields: dict[str, type | tuple[type, ...]], *, all_needed: bool = False
) -> None:
    """Whether a body has no other fields, of these types. FaultError."""
    for name, value in body.items():
        if name not in fields:
            known = ", ".join(fields) or "no body"
            raise FaultError(f"{name[:100]!r} is not known here; {known}")
        kinds = fields[name]
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = {str: "text", int: "a number", bool: "true or false", type(None): "null"}
            wanted = " or ".join(words[kind] for kind in kinds)
            raise FaultError(f"{name}: {wanted} is wanted")
        if isinstance(value, str) and len(value) > NAME_LETTERS_MAX:
            raise FaultError(f"{name}: at most {NAME_LETTERS_MAX} letters")
    missing = [name for name in fields if all_needed and name not in body]
    if missing:
        raise FaultError(f"{', '.join(missing)}: missing")
