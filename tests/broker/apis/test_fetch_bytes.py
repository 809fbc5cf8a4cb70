"""The bytes of the usual Fetch: what is compiled and Python say the same of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings, strategies as st

from fencepost.broker.apis import fetch_bytes
from fencepost.broker.apis.fetch_bytes import PlainFetch, answer_in_bytes, read_plain
from fencepost.broker.net.output import SMALL_OUTPUT_BYTES
from fencepost.machines.fetch import FetchWanted
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.wire import backend
from fencepost.wire.api.fetch import ForgottenTopic
from fencepost.wire.types import Uuid

from .harness import topic_id
from .test_fetch_from_bytes import MUTATIONS, TOPICS, body_of, framed, mutated, reading

pytestmark = pytest.mark.skipif(backend.fetch_kernel is None, reason="nothing is compiled")


def read_both_ways(frame: bytes, at: int, version: int) -> Any:
    """What is read of a request; None if it is not usual."""
    view = memoryview(bytearray(frame))
    compiled, python = read_plain(view, at, version), fetch_bytes._read_plain(view, at, version)
    assert compiled == python and type(compiled) is type(python)
    if compiled is not None and python is not None:
        assert repr(compiled) == repr(python), "classes and all"
    return compiled


def forgetting(version: int, names: list[str]) -> list[ForgottenTopic]:
    return [
        ForgottenTopic(topic_id=topic_id(name), partitions=[0, 3])
        if version >= 13
        else ForgottenTopic(topic=name, partitions=[0, 3])
        for name in names
    ]


@settings(max_examples=400, deadline=None)
@given(
    version=st.integers(12, 18),
    topics=TOPICS,
    forgotten=st.lists(st.sampled_from(["t", "ü" * 62, "ü" * 64]), max_size=2),
    session=st.sampled_from([(0, -1), (0, -1), (7, 1), (7, 2**31 - 1), (0, 0), (7, 0), (-7, 1)]),
    min_bytes=st.sampled_from([1] * 8 + [0]),
    max_bytes=st.sampled_from([1 << 20, 0, -1]),
    max_wait_ms=st.sampled_from([500, 0, -1]),
    isolation_level=st.sampled_from([0] * 4 + [1] * 4 + [2, -1]),
    mutations=st.one_of(st.just([]), MUTATIONS),
    cut=st.sampled_from([1.0] * 8 + [0.9, 0.5]),
)
def test_both_read_the_same(
    version: int,
    topics: list[Any],
    forgotten: list[str],
    session: tuple[int, int],
    mutations: list[tuple[str, float, int]],
    cut: float,
    **fields: int,
) -> None:
    fields["session_id"], fields["session_epoch"] = session
    whole = framed(version, topics, forgotten_topics_data=forgetting(version, forgotten), **fields)
    found = read_both_ways(mutated(whole, mutations, cut), body_of(whole), version)
    event("unusual" if found is None else "usual")


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize(
    "fields", [{}, {"session_id": 2**31 - 1, "session_epoch": 9}], ids=["alone", "in a session"]
)
def test_both_read_every_field(version: int, fields: dict[str, Any]) -> None:
    asked = reading(
        -(2**31), -(2**63), current_leader_epoch=-2, last_fetched_epoch=2**31 - 1,
        log_start_offset=2**63 - 1, partition_max_bytes=-(2**31),
    )  # fmt: skip
    if fields:
        fields = {**fields, "forgotten_topics_data": forgetting(version, ["u"])}
    frame = framed(version, [("t", [reading(1, 5), asked])], max_wait_ms=-(2**31), **fields)
    found = read_both_ways(frame, body_of(frame), version)
    assert found.max_wait_ms == -(2**31) and len(found.forgotten) == (2 if fields else 0)
    [first, second] = found.wanted
    assert (first.key[1], first.fetch_offset) == (1, 5)
    assert (second.key[1], second.fetch_offset, second.partition_max_bytes) == (
        -(2**31), -(2**63), -(2**31),
    )  # fmt: skip
    assert (second.current_leader_epoch, second.last_fetched_epoch) == (-2, 2**31 - 1)
    assert second.log_start_offset == 2**63 - 1


def test_a_length_of_two_bytes_is_not_read_as_one() -> None:
    name = "n" * 126
    frame = framed(12, [(name, [reading()])])
    found = read_both_ways(frame, body_of(frame), 12)
    assert found is not None and found.wanted[0].key == (name, 0)
    usual, longer = b"\x7f" + name.encode(), b"\x80" + name.encode() + b"n"
    assert frame.count(usual) == 1
    assert read_both_ways(frame.replace(usual, longer), body_of(frame), 12) is None


@pytest.mark.parametrize("version", [12, 17])
def test_both_stop_where_the_bytes_do(version: int) -> None:
    fields: dict[str, Any] = {"session_id": 3, "session_epoch": 1}
    fields["forgotten_topics_data"] = forgetting(version, ["t"])
    frame = framed(version, [("t", [reading()]), ("u", [reading(), reading(1)])], **fields)
    start = body_of(frame)
    assert read_both_ways(frame, start, version) is not None
    for end in range(start, len(frame)):
        assert read_both_ways(frame[:end], start, version) is None
    for at in range(start, len(frame)):
        for byte in (0, 1, 2, 3, 16, 17, 18, 0x7E, 0x7F, 0x80, 0xC3, 0xFF):
            read_both_ways(frame[:at] + bytes([byte]) + frame[at + 1 :], start, version)


INT64 = st.sampled_from([-1, 0, 1, 2**40 + 3, 2**63 - 1, -(2**63)])
BOUNDS = st.builds(FetchBounds, INT64, INT64, INT64, INT64, INT64)
SIZES = [0, 0, 1, 126, 127, 128, 4096, 16_382, 16_383, 16_384, SMALL_OUTPUT_BYTES - 100]
RECORDS = st.builds(
    lambda size, made: made(b"r" * size),
    st.sampled_from(SIZES),
    st.sampled_from([bytes, bytearray, memoryview]),
)
NAMES = st.sampled_from(["t", "t", "u", "ü" * 63, "x" * 249, Uuid(b"i" * 16), Uuid(b"j" * 16)])
ANSWERED = st.tuples(NAMES, st.sampled_from([0, 1, 2**31 - 1, -1]), BOUNDS, RECORDS)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(ANSWERED, max_size=20),
    st.sampled_from([0, 77, -1, 2**31 - 1]),
    st.sampled_from([0, 5, 2**31 - 1]),
    st.sampled_from(list(Isolation)),
)
def test_both_answer_the_same(
    some: list[Any], correlation_id: int, session_id: int, isolation: Isolation
) -> None:
    parts = answer_in_bytes(correlation_id, session_id, isolation, some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "fetch_kernel", None)
        python = answer_in_bytes(correlation_id, session_id, isolation, some)
    whole = b"".join(python)
    assert b"".join(parts) == whole
    is_small = len(whole) <= SMALL_OUTPUT_BYTES
    event("small" if is_small else "large")
    assert (len(parts) == 1) is is_small


@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_small_answer_is_one_piece(more_bytes: int) -> None:
    bounds = FetchBounds(1, 1, 1, 0, 1)
    alone = len(b"".join(answer_in_bytes(1, 0, 0, [("t", 0, bounds, b"r" * 20_000)])))
    records = bytearray(20_000 + SMALL_OUTPUT_BYTES - alone + more_bytes)
    parts = answer_in_bytes(1, 0, 0, [("t", 0, bounds, records)])
    assert (len(parts) == 1) is (more_bytes == 0)
    assert any(part is records for part in parts) is (more_bytes == 1), "it is not copied"


def answered_both_ways(some: list[Any]) -> bytes:
    """The answer, which what is compiled makes in one piece."""
    whole = backend.fetch_kernel.answer(1, 0, 0, some, 1 << 20)
    assert whole == b"".join(fetch_bytes._answer_in_bytes(1, 0, 0, some))
    return bytes(whole)


@pytest.mark.parametrize("count", [126, 127, 128])
def test_counts_of_partitions_and_topics_may_take_two_bytes(count: int) -> None:
    bounds = FetchBounds(1, 1, 1, 0, 1)
    answered_both_ways([("t", index, bounds, b"r") for index in range(count)])
    answered_both_ways([(f"t{index}", 0, bounds, b"r") for index in range(count)])


def test_a_topic_is_known_by_what_it_is_called() -> None:
    """In a session the partitions of a topic may come from several requests."""
    bounds, name = FetchBounds(1, 1, 1, 0, 1), "a topic"
    again = "".join(list(name))
    assert again is not name
    apart = answered_both_ways([(name, 0, bounds, b""), (again, 1, bounds, b"")])
    assert apart == answered_both_ways([(name, 0, bounds, b""), (name, 1, bounds, b"")])


def test_no_buffer_is_kept() -> None:
    """A bytearray cannot be made longer while its buffer is in use."""
    frame = bytearray(framed(12, [("t", [reading()])]))
    arguments = PlainFetch, FetchWanted, Uuid, frame, body_of(frame), 12
    assert backend.fetch_kernel.read_plain(*arguments) is not None
    frame += b"more"
    assert backend.fetch_kernel.read_plain(*arguments) is None
    records = bytearray(b"records")
    answered_both_ways([("t", 0, FetchBounds(1, 1, 1, 0, 1), records)])
    frame += b"more"
    records += b"more"


@pytest.mark.parametrize("records", [None, 5, memoryview(bytes(8)).cast("q")])
def test_what_is_no_records_is_refused(records: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        backend.fetch_kernel.answer(1, 0, 0, [("t", 0, FetchBounds(1, 1, 1, 0, 1), records)], 1000)
