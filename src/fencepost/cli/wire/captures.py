"""`fencepost wire decode --pcap`: every message in a capture, one JSON line each.

libpcap reads the file (through cypcap, the extra `pcap`), which covers pcap and pcapng; TCP is
taken apart here. libpcap refuses pcapng files whose interfaces differ in link type; editcap or
tcpdump can take such a file apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost.capture.connections import Connections, Seen
from fencepost.capture.conversation import Item
from fencepost.capture.framing import Skipped
from fencepost.capture.packets import Segment, dissect, link_types
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.progress import Progress
from fencepost.cli.streams import OutputFailed
from fencepost.cli.wire.convert.annotate import OutputOptions, print_line, shown, shown_undecoded
from fencepost.wire import api
from fencepost.wire.documents import request_class_or_none
from fencepost.wire.frame import LENGTH_BYTES
from fencepost.wire.json_form import bytes_to_json
from fencepost.wire.message import Message
from fencepost.wire.secrets import HIDDEN

_PACKET_HEADER_BYTES = 16
_PORTS_SHOWN_MAX = 5


class _Totals:
    """What the line at the end says."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self.packets = self.messages = self.failed = self.skipped_bytes = 0
        self._ports = ports
        self._tcp_packets = 0
        self._other_ports: Counter[int] = Counter()
        self._servers: set[int] = set()

    def note_packet(self, segment: Segment | None) -> None:
        """Count a packet, by the port of the server when that is none of those asked for."""
        self.packets += 1
        if segment is None:
            return
        self._tcp_packets += 1
        ends = (segment.source.port, segment.destination.port)
        if ends[0] in self._ports or ends[1] in self._ports:
            return
        if segment.is_syn:  # only this says for sure who is the server
            self._servers.add(ends[segment.acknowledged is None])
        known = [port for port in ends if port in self._servers]
        self._other_ports[known[0] if known else min(ends)] += 1

    def text(self, connections: int) -> str:
        """How much there was of what."""
        return (
            f"{self.packets} packets, {connections} connections, {self.messages} messages, "
            f"{self.failed} not decoded, {self.skipped_bytes} bytes skipped"
        )

    def check_ports(self) -> None:
        """Raise InputError when no packet was on the ports asked for."""
        if self._tcp_packets == 0:
            raise InputError(f"none of the {self.packets} packets is TCP over IP")
        if self._other_ports.total() == self._tcp_packets:
            seen = [str(port) for port, _ in self._other_ports.most_common(_PORTS_SHOWN_MAX)]
            more = ", and others" if len(self._other_ports) > len(seen) else ""
            wanted = " or ".join(map(str, self._ports))
            raise InputError(
                f"no packets on port {wanted}; seen: {', '.join(seen)}{more} (--port says which)"
            )


def decode_capture(arguments: argparse.Namespace, ports: tuple[int, ...]) -> int:
    """Print the messages of a capture file and, on stderr, how much there was of what.

    UsageError without the extra `pcap`; InputError for what is no capture, for one without packets
    on `ports`, and for one that ends or breaks off in the middle, after everything before that has
    been printed. Once the reader of the output has left, stderr does not get how much there was.
    """
    options = OutputOptions.of(arguments)
    with _opened(arguments.pcap) as (link_type, packets):
        connections = Connections(ports, arguments.max_frame_bytes)
        totals = _Totals(ports)
        time = 0.0
        try:
            for time, packet in packets:
                segment = dissect(link_type, packet)
                totals.note_packet(segment)
                if segment is not None:
                    for seen in connections.push(time, segment):
                        _print(seen, totals, options)
        except OutputFailed:
            raise
        except BaseException:  # also when interrupted
            _finish(connections, time, totals, options, "so far: ")
            raise
        totals.check_ports()
        _finish(connections, time, totals, options, "")
    return 0


def _finish(
    connections: Connections, time: float, totals: _Totals, options: OutputOptions, prefix: str
) -> None:
    """Print what connections still hold, and how much there was."""
    for seen in connections.close(time):
        _print(seen, totals, options)
    sys.stdout.flush()  # fails when the reader has left, and then the sum would not be one
    print(prefix + totals.text(connections.count), file=sys.stderr)


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, Iterator[tuple[float, bytes]]]]:
    """A capture's link type, and the time in seconds since 1970 and the bytes of its packets."""
    try:
        import cypcap
    except ImportError:
        raise UsageError("captures need the extra pcap: pip install 'fencepost[pcap]'") from None
    with _named_errors(path, cypcap.Error):
        total = Path(path).stat().st_size if path != "-" else None
        with cypcap.open_offline(path) as capture:
            link_type = int(capture.datalink())
            if link_type not in link_types():
                raise InputError(f"{path}: packets of link type {link_type} are not understood")
            yield link_type, _packets(capture, Progress(total))


def _packets(capture: Any, progress: Progress) -> Iterator[tuple[float, bytes]]:
    done = 0
    for header, packet in capture:
        if header is not None:
            yield header.ts, packet
            done += len(packet) + _PACKET_HEADER_BYTES
            progress.show(done)
    progress.close()


@contextmanager
def _named_errors(path: str, error_class: type[Exception]) -> Iterator[None]:
    try:
        yield
    except error_class as error:
        reason = str(error.args[-1]) if error.args else str(error)
        raise InputError(f"{path}: {reason.removeprefix(f'{path}: ')}") from None


def _print(seen: Seen, totals: _Totals, options: OutputOptions) -> None:
    about: dict[str, Any] = {
        "time": _time_text(seen.time),
        "connection": seen.connection,
        "source": str(seen.source),
        "destination": str(seen.destination),
    }
    if isinstance(seen.what, Skipped):
        totals.skipped_bytes += seen.what.size
        about.update(skipped_bytes=seen.what.size, reason=seen.what.reason)
        document: dict[str, Any] = {}
    else:
        totals.messages += 1
        totals.failed += seen.what.error is not None
        document = _document(seen.what, about, seen.time, options)
    print_line({"capture": about, **document})


def _time_text(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):  # no year that a calendar has; files can say anything
        return f"{time:.6f} s since 1970"


def _document(
    item: Item, about: dict[str, Any], time: float, options: OutputOptions
) -> dict[str, Any]:
    """What encode can turn into the frame again; what is known beside it goes into `about`."""
    if item.kind == "response" and item.pending is not None:
        about["latency_ms"] = round(1000 * (time - item.pending.time), 3)
    if item.decoded is not None:
        if item.decoded.differs_at is not None:
            about["differs_at"] = item.decoded.differs_at
        return shown(item.decoded, options)
    if item.kind == "sasl_token":
        token = item.frame.data[LENGTH_BYTES:]
        return {"sasl_token": bytes_to_json(token) if options.show_secrets else HIDDEN}
    about.update(kind=item.kind, error=item.error)
    if item.pending is not None:
        about["api"] = api.api_name(item.pending.api_key)
        about["version"] = item.pending.version
    data = shown_undecoded(item.frame.data, _class_of(item), options)
    if item.frame.missing:
        about["captured"] = data
        return {}
    return {"raw": data}


def _class_of(item: Item) -> type[Message] | None:
    """Of which class a message is that could not be decoded; None if that is not known."""
    if item.kind == "request":
        return request_class_or_none(item.frame.data)
    if item.pending is None:
        return None
    return api.response_class(item.pending.api_key)
