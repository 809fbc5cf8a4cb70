"""Voters made of a script: they listen where a node under test expects its peers.

They answer ApiVersions by themselves, and while `grants` is set they vote for every candidate and
follow every leader that begins an epoch. Every other request waits in an inbox until the test
answers it, or never does.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from fencepost.machines.quorum.messages import begin_response, vote_response
from fencepost.machines.quorum.state import NO_NODE
from fencepost.wire.api import api_name
from fencepost.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochRequest
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_request, encode_response
from fencepost.wire.message import Message

from ..waiting import DEADLINE_S
from .apache import HOST

SPOKEN: tuple[type[Message], ...] = (
    FetchRequest,
    ApiVersionsRequest,
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
)
_LENGTH = struct.Struct(">i")
R = TypeVar("R", bound=Message)


@dataclass
class Heard:
    """A request that a scripted voter has received; `answer` may be called once, or never."""

    voter_id: int
    version: int
    request: Message
    answer: Callable[[Message], None]


class ScriptedVoters:
    """The voters of these ids, each on a port of its own; close it when the test is done."""

    def __init__(self, voter_ids: tuple[int, ...]) -> None:
        self.grants = False
        self._turned_away: Callable[[FetchRequest], Message] | None = None
        self._inbox: queue.Queue[Heard] = queue.Queue()
        self._kept: list[Heard] = []
        self._open: list[socket.socket] = []
        self.ports: dict[int, int] = {}
        for voter_id in voter_ids:
            listener = socket.create_server((HOST, 0))
            self.ports[voter_id] = listener.getsockname()[1]
            self._open.append(listener)
            threading.Thread(target=self._accept, args=(voter_id, listener), daemon=True).start()

    def hear(self, *kinds: type[R]) -> tuple[R, Heard]:
        """Take the oldest request of these kinds from the inbox; AssertionError in time."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for number, heard in enumerate(self._kept):
                if isinstance(heard.request, kinds):
                    del self._kept[number]
                    return heard.request, heard
            try:
                self._kept.append(self._inbox.get(timeout=max(0, deadline - time.monotonic())))
            except queue.Empty:
                names = " or ".join(kind.__name__ for kind in kinds)
                raise AssertionError(f"no {names} was heard in {DEADLINE_S} s") from None

    def turn_away(self, answer: Callable[[FetchRequest], Message]) -> None:
        """Answer fetches of epoch 0, which look for a leader, those that wait and those to come."""
        self._turned_away = answer
        with contextlib.suppress(queue.Empty):
            while True:
                self._kept.append(self._inbox.get_nowait())
        waiting, self._kept = self._kept, []
        for heard in waiting:
            self._take(heard)

    def close(self) -> None:
        """Close every socket."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, voter_id: int, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._open.append(connection)
                serve = threading.Thread(
                    target=self._serve, args=(voter_id, connection), daemon=True
                )
                serve.start()

    def _serve(self, voter_id: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
                header, request = decode_request(_exactly(connection, length))
                version, correlation_id = header.request_api_version, header.correlation_id

                def answer(
                    response: Message, version: int = version, correlation_id: int = correlation_id
                ) -> None:
                    with contextlib.suppress(OSError):
                        connection.sendall(encode_response(response, version, correlation_id))

                self._take(Heard(voter_id, version, request, answer))

    def _take(self, heard: Heard) -> None:
        request = heard.request
        if isinstance(request, ApiVersionsRequest):
            heard.answer(_api_versions())
        elif isinstance(request, VoteRequest) and self.grants:
            heard.answer(_granted(request))
        elif isinstance(request, BeginQuorumEpochRequest) and self.grants:
            heard.answer(_followed(request))
        elif isinstance(request, FetchRequest) and self._turned_away and _looks_for_leader(request):
            heard.answer(self._turned_away(request))
        else:
            self._inbox.put(heard)

    def __repr__(self) -> str:
        waiting = ", ".join(f"{api_name(cast(int, h.request.api_key))}" for h in self._kept)
        return f"ScriptedVoters({self.ports}, kept: {waiting})"


def _granted(request: VoteRequest) -> VoteResponse:
    """A yes."""
    asked = request.topics[0].partitions[0]
    return vote_response(ErrorCode.NONE, NO_NODE, asked.replica_epoch, granted=True)


def _looks_for_leader(request: FetchRequest) -> bool:
    return request.topics[0].partitions[0].current_leader_epoch == 0


def _followed(request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    said = request.topics[0].partitions[0]
    return begin_response(ErrorCode.NONE, said.leader_id, said.leader_epoch)


def _api_versions() -> ApiVersionsResponse:
    keys = [
        ApiVersion(
            api_key=cast(int, kind.api_key),
            min_version=kind.min_version,
            max_version=kind.max_version,
        )
        for kind in SPOKEN
    ]
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(api_keys=keys, supported_features=[feature])


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
