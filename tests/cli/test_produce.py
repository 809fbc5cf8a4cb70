"""`fencepost produce`: every line is sent as it comes, and how many were acknowledged is said."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from fencepost.batch.records import read_records
from fencepost.cli.failures import InputError
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.lines import READ_BYTES, read_lines
from fencepost.cli.produce import LineRecord, _Sender, records_of
from fencepost.cli.rates import Rates
from fencepost.client.cluster import Cluster
from fencepost.client.fetch_core import FetchPosition
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer

from ..waiting import DEADLINE_S, eventually
from .commands import Ran


@pytest.fixture
def partitions() -> int:
    return 1


@pytest.fixture
def values(cluster: Cluster, topic: str) -> Callable[[], list[bytes | None]]:
    """What the topic has now."""

    def read() -> list[bytes | None]:
        positions = {TopicPartition(topic, 0): FetchPosition(0)}
        (fetched,) = Fetcher(cluster).fetch(positions, max_wait_ms=0)
        return [record.value for record in read_records(bytes(fetched.records))]

    return read


Started = tuple["subprocess.Popen[bytes]", IO[bytes]]


@pytest.fixture
def start(served: str, topic: str) -> Iterator[Callable[..., Started]]:
    """Starts `fencepost produce` with a pipe as its input, and ends it."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*options: str, to: str = topic) -> Started:
        words = ["-m", "fencepost.cli.main", "produce", to, "--bootstrap-server", served]
        process = subprocess.Popen(
            [sys.executable, *words, *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        started.append(process)
        assert process.stdin is not None
        return process, process.stdin

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, err.decode()


def test_lines_are_sent_while_the_next_is_awaited(start, values):
    _, stdin = start()
    for number in range(1, 6):
        stdin.write(b"%d\n" % number)
        eventually(lambda n=number: len(values()) == n, f"line {number} to arrive")
    stdin.write(b"6\n7\n8\n")
    eventually(lambda: len(values()) == 8, "all lines to arrive")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_loses_no_line_and_says_how_many_were_written(start, values, topic, number):
    process, stdin = start("--linger-ms", "100000")  # nothing goes by itself
    stdin.write(b"1\n2\n3\nhalf a li")
    eventually(lambda: unread_bytes(process) == 0, "the lines to be read")
    process.send_signal(number)
    assert ended(process) == (
        130,
        f"fencepost produce: interrupted; 3 record(s) written to {topic}\n",
    )
    assert values() == [b"1", b"2", b"3"]


def unread_bytes(process: subprocess.Popen[bytes]) -> int:
    """What is left in the pipe that is the process's standard input."""
    assert process.stdin is not None
    (count,) = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4))
    return int(count)


def test_a_bad_line_is_named_and_what_was_before_it_is_written(start, values, topic):
    process, stdin = start("--lines-json")
    stdin.write(b'{"value": "1"}\n{"value": "2"}\n{"valeu": "3"}\n{"value": "4"}\n')
    code, err = ended(process)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("fencepost produce: line 3 must be an object of ")
    assert err.endswith(f"; 2 record(s) written to {topic}\n")
    assert values() == [b"1", b"2"]


@pytest.mark.parametrize(
    ("line", "options", "complaint"),
    [
        (b'{"partition": 1}', ("--lines-json",), "line 2: the topic has 1 partitions"),
        (
            b"x" * (1 << 20 | 1),
            (),
            "line 2: a record of 1048665 bytes (no key) exceeds max.request",
        ),
        (b"no separator", ("--key-separator", "="), "line 2 has no key separator '='"),
        (b"\xff", ("--lines-json",), "line 2 is not JSON: "),
        (b"[" * 100_000, ("--lines-json",), "line 2 is not JSON: "),
    ],
)
def test_any_line_that_cannot_be_sent_is_named(start, values, line, options, complaint):
    process, stdin = start(*options)
    first = b"{}" if "--lines-json" in options else b"="
    stdin.write(first + b"\n")
    with contextlib.suppress(BrokenPipeError):
        stdin.write(line + b"\n")
    code, err = ended(process)
    assert (code, err.count("\n")) == (1, 1)
    assert complaint in err
    assert "; 1 record(s) written to " in err
    assert len(values()) == 1


def test_empty_input_and_last_lines_without_an_end(start, values, topic):
    process, stdin = start()
    stdin.close()
    process.stdin = None
    assert ended(process) == (0, f"0 record(s) written to {topic}\n")
    process, stdin = start()
    stdin.write(b"dos\r\n\nlast")
    stdin.close()
    process.stdin = None
    assert ended(process) == (0, f"3 record(s) written to {topic}\n")
    assert values() == [b"dos", b"", b"last"]


def test_a_topic_that_is_not_there_is_told_without_any_record_too(start):
    process, stdin = start("-X", "allow.auto.create.topics=false", to="absent")
    stdin.close()
    process.stdin = None
    code, err = ended(process)
    assert (code, err.count("\n")) == (1, 1)
    assert "absent" in err and "no such topic" in err


def test_what_no_broker_acknowledged_is_not_called_written(start, values, topic):
    process, stdin = start("-X", "max.request.size=2000000", "-X", "batch.size=1")
    stdin.write(b"small\n")
    stdin.write(b"x" * 1_500_000 + b"\n")  # more than the broker's message.max.bytes
    stdin.close()
    process.stdin = None
    code, err = ended(process)
    assert (code, err.count("\n")) == (1, 1)
    assert "MESSAGE_TOO_LARGE" in err
    assert err.endswith(f"; 1 record(s) written to {topic}, 1 not acknowledged\n")
    assert values() == [b"small"]


def test_a_failure_ends_the_command_although_more_may_be_typed(start):
    process, stdin = start("-X", "max.request.size=2000000")
    with contextlib.suppress(BrokenPipeError):
        stdin.write(b"x" * 1_500_000 + b"\n")
    eventually(lambda: process.poll() is not None, "the end")
    assert process.returncode == 1


def test_what_comes_behind_failures_is_sent_when_the_command_ends(start, values, topic):
    process, stdin = start("-X", "max.request.size=2000000", "-X", "batch.size=1")
    with contextlib.suppress(BrokenPipeError):
        stdin.write((b"x" * 1_500_000 + b"\n") * 3 + b"small\n")
    stdin.close()
    process.stdin = None
    code, err = ended(process)
    assert code == 1
    count = len(values())
    assert f"; {count} record(s) written to {topic}" in err


class Flushes(Producer):
    """Counts how often it was told to deliver all."""

    count = 0

    def flush(self, *said: Any, **how: Any) -> None:
        self.count += 1
        super().flush(*said, **how)


@pytest.mark.parametrize(("interrupts", "flushes"), [(1, 1), (2, 0)])
def test_a_second_interrupt_does_not_wait_for_deliveries(
    cluster, topic, capsys, interrupts: int, flushes: int
):
    reader, writer = os.pipe()
    producer = Flushes(cluster)
    arguments = SimpleNamespace(topic=topic, header=[], key_separator=None, lines_json=False)
    try:
        with Interrupts() as pressed:
            for _ in range(interrupts):
                with contextlib.suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                _Sender(arguments, producer, Rates(None, quiet=True)).run(reader, pressed)
    finally:
        os.close(reader)
        os.close(writer)
    assert producer.count == flushes
    assert "interrupted; 0 record(s) written" in capsys.readouterr().err


def test_headers_of_the_command_line_come_first_and_a_lines_partition_wins(cluster, topic):
    sent: list[tuple[Any, ...]] = []

    class Noting(Producer):
        def send(self, *said: Any, **how: Any) -> None:
            sent.append((how["partition"], how["headers"]))

    arguments = SimpleNamespace(topic=topic, header=["a=1"], partition=4)
    sender = _Sender(arguments, Noting(cluster), Rates(None, quiet=True))
    sender._send(1, LineRecord(b"v", headers=(("b", None),), partition=0))
    sender._send(2, LineRecord(b"v"))
    assert sent == [(0, (("a", b"1"), ("b", None))), (4, (("a", b"1"),))]


def test_records_that_linger_are_looked_after_in_time(served, topic):
    """The wait for input is told in seconds."""
    with Cluster(served, linger_ms=50_000) as lingering:
        producer = Producer(lingering)
        arguments = SimpleNamespace(topic=topic, header=[], partition=None)
        sender = _Sender(arguments, producer, Rates(None, quiet=True))
        assert sender._idle() is None
        sender._send(1, LineRecord(b"v"))
        wait_s = sender._idle()
        assert wait_s is not None
        assert wait_s <= 50
        producer.flush()


# -- lines -----------------------------------------------------------------------------------------


def lines_of(*chunks: bytes, line_bytes_max: int = 1 << 20) -> list[bytes]:
    """The lines that come out when a pipe has these chunks, one read each."""
    reader, writer = os.pipe()
    left = list(chunks)

    def idle() -> float | None:
        if left:
            os.write(writer, left.pop(0))
        else:
            with contextlib.suppress(OSError):
                os.close(writer)
        return None

    try:
        return list(read_lines(reader, line_bytes_max, idle, contextlib.nullcontext))
    finally:
        os.close(reader)


def test_lines_of_pieces():
    assert lines_of() == []
    assert lines_of(b"\n") == [b""]
    assert lines_of(b"a", b"b\nc", b"\r\n", b"\n\nd") == [b"ab", b"c", b"", b"", b"d"]
    assert lines_of(b"a\r", b"\nb\r") == [b"a", b"b"]


def test_a_line_without_an_end_takes_bounded_memory():
    chunk = b"x" * READ_BYTES
    with pytest.raises(InputError, match="line 2 is longer than 100000 bytes"):
        lines_of(b"first\n", *[chunk] * 1000, line_bytes_max=100_000)


def test_a_line_may_be_as_long_as_the_bound():
    assert lines_of(b"x" * 10, line_bytes_max=10) == [b"x" * 10]
    with pytest.raises(InputError, match="line 1 is longer than 10 bytes"):
        lines_of(b"x" * 11, line_bytes_max=10)


def test_input_that_another_process_took_is_waited_for_again():
    """Two can read one terminal; what was there when it was looked at may be gone."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"theirs\n")
    looks = [0]

    def idle() -> None:
        looks[0] += 1
        if looks[0] == 2:
            os.write(writer, b"ours\n")
            os.close(writer)

    @contextlib.contextmanager
    def another_reads() -> Iterator[None]:
        yield
        if looks[0] == 1:
            assert os.read(reader, 100) == b"theirs\n"

    try:
        assert list(read_lines(reader, 100, idle, another_reads)) == [b"ours"]
    finally:
        os.close(reader)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_nothing_is_half_done(number):
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        signal.raise_signal(number)
        assert not interrupts.is_final
        with pytest.raises(KeyboardInterrupt), interrupts.waiting():
            pytest.fail("it should not begin to wait")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert interrupts.is_final
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.waiting():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_lines_become_records():
    assert list(records_of([b"a", b""], None, False)) == [
        (1, LineRecord(b"a")),
        (2, LineRecord(b"")),
    ]
    assert list(records_of([b"a"], "", False)) == [(1, LineRecord(b"a"))]
    empty_lines = list(records_of([b"{}", b" ", b"{}"], None, True))
    assert [number for number, _ in empty_lines] == [1, 3]
    highest = b'{"partition": 2147483647, "timestamp": 9223372036854775807}'
    ((_, last),) = records_of([highest], None, True)
    assert (last.partition, last.timestamp_ms) == ((1 << 31) - 1, (1 << 63) - 1)
    with pytest.raises(InputError, match="line 2 has no key separator"):
        list(records_of([b"a=1\n", b"b\n"], "=", False))
    for text, complaint in (
        (b"{", "is not JSON"),
        (b"[1]", "must be an object of"),
        (b'{"valeu":"x"}', "must be an object of"),
        (b'{"value":5}', "value must be text"),
        (b'{"headers":["x"]}', "headers must be an object"),
        (b'{"partition":"0"}', "partition must be a whole number"),
        (b'{"partition":-1}', "partition must be a whole number"),
        (b'{"partition":4294967296}', "partition must be a whole number"),
        (b'{"timestamp":true}', "timestamp must be a whole number"),
        (b'{"timestamp":9223372036854775808}', "timestamp must be a whole number"),
        (b'{"value":"\\ud800"}', "value has half a surrogate pair"),
        (b'{"headers":{"\\ud800":null}}', "header has half a surrogate pair"),
    ):
        with pytest.raises(InputError, match=f"line 1.*{complaint}"):
            list(records_of([text], None, True))


def test_progress_is_drawn_on_a_terminal_alone(served: str, topic: str, tmp_path: Path):
    path = tmp_path / "lines"
    path.write_text(f"{'x' * 99}\n" * 3_000)
    command = [sys.executable, "-m", "fencepost.cli.main", "produce", topic, str(path)]
    command += ["-b", served]
    quiet = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False
    )
    assert (quiet.returncode, quiet.stderr) == (0, f"3000 record(s) written to {topic}\n")
    ours, theirs = pty.openpty()
    with (
        open(ours, "rb", buffering=0) as terminal,
        open(theirs, "wb", buffering=0) as looked_at,
    ):
        done = subprocess.run(command, stderr=looked_at, timeout=DEADLINE_S, check=False)
        drawn = terminal.read(1 << 16).decode()
    assert done.returncode == 0
    assert re.search(r"\r\x1b\[K.*\d MB, .* MB/s.*\d+% done, .* left", drawn), drawn
    assert drawn.endswith(f"\r\x1b[K3000 record(s) written to {topic}\r\n")


@pytest.mark.parametrize("text", ["", "a line\n"])
def test_a_name_that_no_topic_can_have_is_refused_with_and_without_records(
    produce: Callable[..., Ran], text: str
) -> None:
    refused = produce("bad/name", text)
    assert (refused.code, refused.out) == (1, "")
    assert "bad/name: Topic name is invalid: 'bad/name' contains" in refused.err
    assert "written" not in refused.err
