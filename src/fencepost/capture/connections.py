"""Connections out of segments: who is the server, when one begins and ends, what it says.

Memory is bounded: by the connections that are followed at once and by what all of them hold, which
is bytes of frames that are not whole, segments that came too early (also those without data) and
requests that wait for a response. The connection that was silent longest is given up first. Nothing
here does I/O.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fencepost.capture.conversation import Conversation, Item
from fencepost.capture.frame_detection import RequestDetector, ResponseDetector
from fencepost.capture.framing import FrameCutter, Skipped
from fencepost.capture.packets import Endpoint, Segment
from fencepost.capture.reassembly import PATIENCE, Gap, Reassembler

CONNECTIONS_MAX: Final = 10_000
HELD_BYTES_MAX: Final = 512 * 1024 * 1024
EARLY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Segments that one direction holds back because they came too early."""

_SEGMENT_BYTES = 700  # what holding back one segment takes beside its bytes, most of all addresses


class Seen(NamedTuple):
    """Something that a connection said, or bytes of it that could not be read."""

    connection: int
    time: float
    source: Endpoint
    destination: Endpoint
    what: Item | Skipped


class _Direction:
    """One side's bytes: in order, and cut into frames."""

    def __init__(
        self, source: Endpoint, destination: Endpoint, detector: RequestDetector | ResponseDetector
    ):
        self.source = source
        self.destination = destination
        self.reassembler = Reassembler(EARLY_BYTES_MAX)
        self.first_sequence: int | None = None
        self.has_ended = False
        self._detector = detector
        self._cutter: FrameCutter | None = None

    @property
    def held_bytes(self) -> int:
        """Memory that is taken by what is not whole."""
        in_cutter = 0 if self._cutter is None else self._cutter.held_bytes
        return self.reassembler.held_bytes + in_cutter

    def cutter(self, frame_bytes_max: int) -> FrameCutter:
        """The cutter; in sync from the start when the connection's first byte was seen."""
        if self._cutter is None:
            in_sync = self.first_sequence is not None
            self._cutter = FrameCutter(self._detector, frame_bytes_max, in_sync=in_sync)
        return self._cutter


class _Connection:
    def __init__(self, number: int, client: Endpoint, server: Endpoint) -> None:
        self.number = number
        self.conversation = Conversation()
        self.client = _Direction(client, server, RequestDetector(self.conversation))
        self.server = _Direction(server, client, ResponseDetector(self.conversation))

        # Segments of the server that answer bytes of the client which are still to come: without
        # the requests, responses mean nothing.
        self.early: deque[tuple[float, Segment]] = deque()
        self.early_bytes = 0
        self.waited = 0

    @property
    def held_bytes(self) -> int:
        return (
            self.conversation.held_bytes
            + self.client.held_bytes
            + self.server.held_bytes
            + self.early_bytes
        )

    def hold(self, time: float, segment: Segment) -> None:
        """Keep a segment of the server for later."""
        self.early.append((time, segment))
        self.early_bytes += len(segment.data) + _SEGMENT_BYTES

    def release(self) -> tuple[float, Segment]:
        """The first that was kept."""
        time, segment = self.early.popleft()
        self.early_bytes -= len(segment.data) + _SEGMENT_BYTES
        self.waited = 0
        return time, segment


class Connections:
    """All connections to the `ports` of servers, segment by segment."""

    def __init__(
        self,
        ports: Iterable[int],
        frame_bytes_max: int,
        *,
        connections_max: int = CONNECTIONS_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self._ports = frozenset(ports)
        self._frame_bytes_max = frame_bytes_max
        self._connections_max = connections_max
        self._held_bytes_max = held_bytes_max
        self._held_bytes = 0
        self._open: OrderedDict[tuple[Endpoint, Endpoint], _Connection] = OrderedDict()
        self.count = 0

    def push(self, time: float, segment: Segment) -> Iterator[Seen]:
        """Take a segment; segments between other ports are passed over."""
        ends = self._client_and_server(segment)
        if ends is None:
            return
        if self._is_new(ends, segment):
            yield from self._close(ends, time)
        connection = self._open.get(ends)
        if connection is None:
            if segment.size == 0 and not segment.is_syn:
                return
            connection = self._open[ends] = _Connection(self.count, *ends)
            self.count += 1
        self._open.move_to_end(ends)
        before = connection.held_bytes
        yield from self._push(connection, ends[0] == segment.source, time, segment)
        self._held_bytes += connection.held_bytes - before
        while len(self._open) > self._connections_max or (
            self._held_bytes > self._held_bytes_max and self._open
        ):
            yield from self._close(next(iter(self._open)), time)

    def close(self, time: float) -> Iterator[Seen]:
        """What is left of all connections at the end of the capture."""
        for ends in list(self._open):
            yield from self._close(ends, time)

    def _client_and_server(self, segment: Segment) -> tuple[Endpoint, Endpoint] | None:
        source, destination = segment.source, segment.destination
        if (destination, source) in self._open:
            return destination, source
        if destination.port in self._ports and not (
            segment.is_syn and segment.acknowledged is not None and source.port in self._ports
        ):
            return source, destination
        return (destination, source) if source.port in self._ports else None

    def _is_new(self, ends: tuple[Endpoint, Endpoint], segment: Segment) -> bool:
        """Whether a SYN reuses the ports of a connection that is still followed."""
        connection = self._open.get(ends)
        if connection is None or not segment.is_syn or segment.acknowledged is not None:
            return False
        return connection.client.first_sequence != segment.sequence

    def _push(
        self, connection: _Connection, is_client: bool, time: float, segment: Segment
    ) -> Iterator[Seen]:
        """Take a segment; one of the server waits for the bytes of the client it acknowledges."""
        if is_client:
            yield from self._take(connection, True, time, segment)
        else:
            connection.hold(time, segment)
        connection.waited += bool(connection.early)
        while connection.early:
            acknowledged = connection.early[0][1].acknowledged
            if acknowledged is not None and not self._has_sent(connection, acknowledged):
                if connection.waited <= PATIENCE and connection.early_bytes <= EARLY_BYTES_MAX:
                    return
                parts = connection.client.reassembler.give_up_to(acknowledged)
                yield from self._cut(connection, connection.client, time, parts)
            yield from self._take(connection, False, *connection.release())

    def _has_sent(self, connection: _Connection, acknowledged: int) -> bool:
        """Whether everything before this number has come from the client; its FIN counts as one."""
        client = connection.client
        return client.reassembler.has(acknowledged - client.has_ended)

    def _take(
        self, connection: _Connection, is_client: bool, time: float, segment: Segment
    ) -> Iterator[Seen]:
        side = connection.client if is_client else connection.server
        peer = connection.server if is_client else connection.client
        sequence = segment.sequence
        if segment.is_syn:
            if not side.reassembler.is_begun:
                side.first_sequence = sequence
                side.reassembler.begin(sequence + 1)
            sequence += 1  # the SYN itself counts as one
        if segment.acknowledged is not None:
            peer.reassembler.acknowledge(segment.acknowledged)
        parts = side.reassembler.push(sequence, segment.data, segment.size)
        yield from self._cut(connection, side, time, parts)
        side.has_ended |= segment.is_fin
        if segment.is_rst or (side.has_ended and peer.has_ended):
            for one in (connection.client, connection.server):
                yield from self._cut(connection, one, time, one.reassembler.flush())

    def _cut(
        self, connection: _Connection, side: _Direction, time: float, parts: list[bytes | Gap]
    ) -> Iterator[Seen]:
        cutter = side.cutter(self._frame_bytes_max) if parts else None
        for part in parts:
            assert cutter is not None
            found = cutter.gap(part.size) if isinstance(part, Gap) else cutter.feed(part)
            for cut in found:
                what: Item | Skipped
                if isinstance(cut, Skipped):
                    what = cut
                elif side is connection.client:
                    what = connection.conversation.from_client(cut, time)
                else:
                    what = connection.conversation.from_server(cut)
                yield Seen(connection.number, time, side.source, side.destination, what)

    def _close(self, ends: tuple[Endpoint, Endpoint], time: float) -> Iterator[Seen]:
        connection = self._open.pop(ends)
        self._held_bytes -= connection.held_bytes
        yield from self._cut(
            connection, connection.client, time, connection.client.reassembler.flush()
        )
        while connection.early:
            yield from self._take(connection, False, *connection.release())
        for side in (connection.client, connection.server):
            yield from self._cut(connection, side, time, side.reassembler.flush())
            for skipped in side.cutter(self._frame_bytes_max).close():
                if isinstance(skipped, Skipped):
                    source, destination = side.source, side.destination
                    yield Seen(connection.number, time, source, destination, skipped)
