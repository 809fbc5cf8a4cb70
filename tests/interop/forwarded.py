"""One node of either kind with both roles, and requests that come to its controller forwarded.

A controller takes the principal of a forwarded request from the envelope (KIP-590), so what it
decides for clients that have logged in can be compared without any logins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from fencepost.cli.main import main
from fencepost.client.connection import Connection
from fencepost.log.properties import read_properties
from fencepost.testing.ports import free_ports
from fencepost.wire.api import response_class
from fencepost.wire.api.envelope import EnvelopeRequest
from fencepost.wire.frame import LENGTH_BYTES, decode_response, encode_request
from fencepost.wire.message import Message, Request
from fencepost.wire.records.principal import DefaultPrincipalData, encode_principal

from ..broker.conftest import RunningNode
from ..waiting import DEADLINE_MS
from . import apache

HOST = "127.0.0.1"
R = TypeVar("R", bound=Message)


class Node:
    """Connections to the broker and to the controller of a node."""

    def __init__(self, kind: str, client_port: int, controller_port: int) -> None:
        self.kind = kind
        self.bootstrap_servers = f"{HOST}:{client_port}"
        self.broker = Connection(HOST, client_port, timeout_ms=DEADLINE_MS)
        self.controller = Connection(HOST, controller_port, timeout_ms=DEADLINE_MS)

    def forwarded(
        self,
        request: Request[R],
        version: int | None = None,
        *,
        user: str = "ada",
        by_token: bool = False,
    ) -> R:
        """What the controller answers a user's request that a broker forwards."""
        version = type(request).max_version if version is None else version
        principal = DefaultPrincipalData(type="User", name=user, token_authenticated=by_token)
        envelope = EnvelopeRequest(
            request_data=encode_request(request, version, 1, "test")[LENGTH_BYTES:],
            request_principal=encode_principal(principal),
            client_host_address=bytes([127, 0, 0, 1]),
        )
        answer = self.controller.request(envelope)
        assert answer.error_code == 0 and answer.response_data is not None
        message: R
        _, message = decode_response(
            response_class(request.api_key or 0), version, answer.response_data
        )
        return message

    def close(self) -> None:
        """Disconnect."""
        self.broker.close()
        self.controller.close()


@contextlib.contextmanager
def node_of(kind: str, directory: Path, **config: str) -> Iterator[Node]:
    """A node with both roles, formatted and started with these configs."""
    with contextlib.ExitStack() as stack:
        if kind == "apache":
            broker = stack.enter_context(apache.apache_broker(directory, **config))
            file = directory / "server.properties"
            entries = read_properties(str(file), file.read_bytes())
            written = {key: value for _, key, value in entries}
            client_port = int(broker.bootstrap_servers.rpartition(":")[2])
            controller_port = int(written["controller.quorum.voters"].rpartition(":")[2])
        else:
            client_port, controller_port = free_ports(2)
            config = {
                "controller.quorum.voters": f"1@{HOST}:{controller_port}",
                "listeners": f"PLAINTEXT://{HOST}:{client_port},"
                f"CONTROLLER://{HOST}:{controller_port}",
                "controller.listener.names": "CONTROLLER",
                "process.roles": "broker,controller",
                "node.id": "1",
                **config,
            }
            data_dir = directory / "data"
            file = directory / "server.properties"
            lines = {**config, "log.dirs": str(data_dir)}.items()
            file.write_text("".join(f"{key}={value}\n" for key, value in lines))
            assert main(["format", "-t", apache.CLUSTER_ID, "-c", str(file)]) == 0
            stack.callback(RunningNode(data_dir, config).close)
        node = Node(kind, client_port, controller_port)
        stack.callback(node.close)
        yield node
