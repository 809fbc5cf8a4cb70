"""What a reader may say of strangers' messages: so many array elements and no more."""

import struct
import tracemalloc

import pytest

from fencepost.wire import generated
from fencepost.wire.api import FetchRequest, MetadataRequest, MetadataResponse
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.metadata import (
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.errors import DecodeError, TooManyElementsError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int8

from .catalogue import CODECS, codec, extreme
from .every_version import at_every_version


def fetch(topics: int, partitions: int) -> FetchRequest:
    return FetchRequest(
        topics=[
            FetchTopic(topic=f"t{n}", partitions=[FetchPartition() for _ in range(partitions)])
            for n in range(topics)
        ]
    )


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("view", [bytes, memoryview])
def test_elements_of_all_arrays_are_counted_together(version, view):
    request = fetch(3, 5)
    data = view(request.encode(version))
    assert FetchRequest.decode(data, version, max_elements=18) == request
    assert FetchRequest.read(data, 0, version, max_elements=18)[0] == request
    for limit in (17, 3, 2, 0):
        with pytest.raises(TooManyElementsError, match=f"more than {limit} elements"):
            FetchRequest.decode(data, version, max_elements=limit)
        with pytest.raises(TooManyElementsError):
            FetchRequest.read(data, 0, version, max_elements=limit)


def test_numbers_and_strings_in_arrays_count_too():
    partition = MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1])
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    data = response.encode(9)
    assert MetadataResponse.decode(data, 9, max_elements=6) == response
    with pytest.raises(TooManyElementsError):
        MetadataResponse.decode(data, 9, max_elements=5)


def test_undeclared_tags_count_too():
    request = MetadataRequest(topics=None)
    request.unknown_tags = dict.fromkeys(range(100, 150), b"")
    data = request.encode(9)
    assert MetadataRequest.decode(data, 9, max_elements=50) == request
    with pytest.raises(TooManyElementsError):
        MetadataRequest.decode(data, 9, max_elements=49)


def test_a_malformed_message_is_still_just_that():
    data = MetadataRequest(topics=[MetadataRequestTopic(name="t")]).encode(4)
    with pytest.raises(DecodeError) as caught:
        MetadataRequest.decode(data[:-2], 4, max_elements=5)
    assert not isinstance(caught.value, TooManyElementsError)


@pytest.mark.slow
def test_a_hundred_megabytes_of_nothing_are_refused_before_they_become_objects():
    count = 100 * 1024 * 1024 // 16
    head = fetch(1, 0).encode(4)
    data = head[:-4] + count.to_bytes(4, "big") + bytes(16 * count)
    assert FetchRequest.decode(fetch(1, 1).encode(4), 4) == fetch(1, 1)  # compiled now
    tracemalloc.start()
    try:
        with pytest.raises(TooManyElementsError):
            FetchRequest.decode(memoryview(data), 4, max_elements=100_000)
        # All of them would take nine times the bytes, of which the pure decoder reads a copy.
        assert tracemalloc.get_traced_memory()[1] < len(data) * 1.01
    finally:
        tracemalloc.stop()


class Nothing(Struct):
    """What a version before its first field has of a struct: no byte at all."""

    later: Int8 = field("1+")


class Nothings(Message, kind="data", versions="0-1"):
    """Two arrays of it."""

    some: list[Nothing] = field()
    more: list[Nothing] = field()


def test_elements_that_take_no_bytes_are_counted():
    """The second array may claim the bytes that the first one claimed, since neither took any."""
    data = struct.pack(">ii", 4, 4) + bytes(4)
    decoded, end = Nothings.read(data, 0, 0, max_elements=8)
    assert (len(decoded.some), len(decoded.more), end) == (4, 4, 8)
    for limit in (0, 3, 4, 7):
        with pytest.raises(TooManyElementsError):
            Nothings.read(data, 0, 0, max_elements=limit)


def elements(value: object) -> int:
    """What decoders count: elements of arrays and undeclared tags, at every depth."""
    if isinstance(value, list):
        return len(value) + sum(map(elements, value))
    if not isinstance(value, Struct):
        return 0
    inside = sum(elements(getattr(value, field.name)) for field in type(value).fields)
    return inside + len(value.unknown_tags or ())


@at_every_version
def test_every_element_of_every_message_is_counted(cls, version, monkeypatch):
    """Both by decoders that copy their input and by those that read it in place."""
    monkeypatch.setattr(generated, "VIEW_THRESHOLD_BYTES", 0)
    message = extreme(cls, version, cls.is_flexible(version), most=True)
    count = elements(message)
    for name in CODECS:
        machine = codec(name, cls, version)
        data = machine.encode(message)
        for source in (data, memoryview(data)):
            assert machine.decode(source, count) == message
            if count:
                with pytest.raises(TooManyElementsError, match=f"more than {count - 1} elements"):
                    machine.decode(source, count - 1)
