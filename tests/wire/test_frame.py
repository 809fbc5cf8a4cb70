"""Headers, length prefixes and the exceptions to their rules."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from fencepost.wire import api
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.controlled_shutdown import ControlledShutdownRequest
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.errors import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    UnknownApiError,
    UnsupportedVersionError,
    WireError,
)
from fencepost.wire.frame import (
    MAX_HEADER_TAGS,
    decode_request,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
    read_request_header,
    read_response_header,
)
from fencepost.wire.header import RequestHeader, ResponseHeader
from fencepost.wire.records.control import EndTxnMarker

pytestmark = pytest.mark.usefixtures("on_backend")


def request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> RequestHeader:
    return RequestHeader(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )


def test_request_header_v1() -> None:
    frame = encode_request(FetchRequest(), 11, 7, "me")
    assert frame[:16] == struct.pack(">ihhih2s", len(frame) - 4, 1, 11, 7, 2, b"me")
    assert frame[16:] == FetchRequest().encode(11)
    header, body = read_request_header(frame, 4)
    assert header == request_header(1, 11, 7, "me")
    assert body == 16


def test_request_header_v2_keeps_the_plain_client_id() -> None:
    frame = encode_request(FetchRequest(), 12, -1, "é")
    assert frame[:17] == struct.pack(">ihhih2sb", len(frame) - 4, 1, 12, -1, 2, "é".encode(), 0)
    header, body = read_request_header(memoryview(frame), 4)
    assert (header.client_id, header.correlation_id, body) == ("é", -1, 17)
    assert FetchRequest.decode(frame[body:], 12) == FetchRequest()


def test_client_id_may_be_null_or_empty() -> None:
    for client_id, size in ((None, -1), ("", 0)):
        for version in (11, 12):
            frame = encode_request(FetchRequest(), version, 1, client_id)
            assert struct.unpack_from(">h", frame, 12) == (size,)
            assert read_request_header(frame, 4)[0].client_id == client_id


def test_apis_that_never_became_flexible() -> None:
    frame = encode_request(OffsetDeleteRequest(group_id="g"), 0, 1, "c")
    assert read_request_header(frame, 4)[1] == 4 + 8 + 3
    parts = encode_response_parts(OffsetDeleteResponse(), 0, 1)
    assert b"".join(parts)[8:] == OffsetDeleteResponse().encode(0)


@pytest.mark.parametrize("client_id", [None, "", "gone"])
def test_controlled_shutdown_v0_has_no_client_id(client_id: str | None) -> None:
    request = ControlledShutdownRequest(broker_id=5)
    frame = encode_request(request, 0, 3, client_id)
    assert frame == struct.pack(">ihhii", 12, 7, 0, 3, 5)
    assert read_request_header(frame, 4) == (request_header(7, 0, 3, ""), 12)
    frame = encode_request(request, 1, 3, client_id)
    header, body = read_request_header(frame, 4)
    assert header == request_header(7, 1, 3, client_id)
    assert ControlledShutdownRequest.decode(frame[body:], 1) == request


@pytest.mark.parametrize("api_key", [-1, 999, 0x7FFF])
def test_unknown_apis_are_read_as_far_as_the_client_id(api_key: int) -> None:
    data = struct.pack(">hhih", api_key, 5, 3, 1) + b"c\xff\xff"
    assert read_request_header(data) == (request_header(api_key, 5, 3, "c"), 11)


def test_versions_to_come_are_taken_for_flexible() -> None:
    data = struct.pack(">hhih", 18, 99, 3, 1) + b"c\x00rest"
    header, body = read_request_header(data)
    assert (header.request_api_version, data[body:]) == (99, b"rest")


def test_tags_in_headers_are_checked_and_kept() -> None:
    fixed = struct.pack(">hhih", 1, 12, 3, -1)
    data = fixed + bytes.fromhex("02 00 01 61 8101 00") + b"body"
    header, body = read_request_header(data)
    assert header.unknown_tags == {0: b"a", 129: b""}
    assert data[body:] == b"body"
    assert header.encode(2) == data[:body]
    for bad in ("02 01 00 01 00", "01 00 05 61", "01", "01 00", "01 00 ff", "ffffffff7f", ""):
        with pytest.raises(DecodeError) as caught:
            read_request_header(fixed + bytes.fromhex(bad))
        assert caught.value.path == "header.unknown_tags"
    response = struct.pack(">i", 9) + bytes.fromhex("01 05 01 61") + FetchResponse().encode(12)
    answered = ResponseHeader(correlation_id=9, unknown_tags={5: b"a"})
    assert decode_response(FetchResponse, 12, response) == (answered, FetchResponse())


def test_tags_in_headers_are_bounded() -> None:
    def header_with(count: int) -> bytes:
        tags = b"".join(bytes((tag, 0)) for tag in range(count))
        return struct.pack(">hhih", 1, 12, 3, -1) + bytes((count,)) + tags

    at_most = header_with(MAX_HEADER_TAGS)
    header, body = read_request_header(at_most)
    assert (len(header.unknown_tags or {}), body) == (MAX_HEADER_TAGS, len(at_most))
    with pytest.raises(DecodeError, match="more than"):
        read_request_header(header_with(MAX_HEADER_TAGS + 1))


def test_every_header_byte_by_byte() -> None:
    """Written out by hand: only flexible headers have tags, and no client id is compact."""
    start = bytes.fromhex("0003 000c 00000007")
    headers: list[tuple[Any, int, bytes]] = [
        (request_header(3, 12, 7, ""), 0, start),
        (request_header(3, 12, 7, "me"), 1, start + b"\x00\x02me"),
        (request_header(3, 12, 7, None), 1, start + b"\xff\xff"),
        (request_header(3, 12, 7, "me"), 2, start + b"\x00\x02me" + b"\x00"),
        (request_header(3, 12, 7, None), 2, start + b"\xff\xff" + b"\x00"),
        (request_header(3, 12, 7, ""), 2, start + b"\x00\x00" + b"\x00"),
        (ResponseHeader(correlation_id=7), 0, start[4:]),
        (ResponseHeader(correlation_id=7), 1, start[4:] + b"\x00"),
    ]
    for header, version, expected in headers:
        assert header.encode(version) == expected
        assert b"".join(header.encode_parts(version)) == expected
        cls = type(header)
        for source in (expected, bytearray(expected), memoryview(expected)):
            assert cls.decode(source, version) == header
        for size in range(len(expected)):
            with pytest.raises(DecodeError):
                cls.decode(expected[:size], version)
        with pytest.raises(DecodeError, match="left over"):
            cls.decode(expected + b"\x00", version)
        assert cls.read(b"xyz" + expected + b"body", 3, version) == (header, 3 + len(expected))


def test_malformed_request_headers() -> None:
    whole = struct.pack(">hhih", 1, 12, 3, 4) + b"name\x00"
    for size in range(len(whole)):
        for source in (whole[:size], memoryview(whole)[:size]):
            with pytest.raises(DecodeError) as caught:
                read_request_header(source)
            assert caught.value.path.startswith("header")
    for length, content in ((-2, b"name"), (2, b"\xff\xff"), (0x7FFF, b"name")):
        with pytest.raises(DecodeError, match="client_id"):
            read_request_header(struct.pack(">hhih", 1, 11, 3, length) + content)
    with pytest.raises(DecodeError):
        read_request_header(b"GET / HTTP/1.1\r\n\r\n")


def test_requests_that_cannot_be_sent() -> None:
    with pytest.raises(EncodeError, match="client_id"):
        encode_request(FetchRequest(), 12, 1, "x" * 32768)
    with pytest.raises(EncodeError, match="correlation_id"):
        encode_request(FetchRequest(), 12, 1 << 31, None)
    with pytest.raises(EncodeError, match="correlation_id"):
        encode_request(FetchRequest(), 12, -(1 << 31) - 1, None)
    with pytest.raises(UnsupportedVersionError):
        encode_request(FetchRequest(), 1 << 20, 1, None)
    for wrong in (FetchResponse(), EndTxnMarker()):
        with pytest.raises(TypeError, match="not a request"):
            encode_request(wrong, 0, 1, None)
    for other in (FetchRequest(), EndTxnMarker()):
        with pytest.raises(TypeError, match="not a response"):
            encode_response_parts(other, 0, 1)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_under_header_v0(version: int) -> None:
    response = ApiVersionsResponse(error_code=35)
    frame = b"".join(encode_response_parts(response, version, 9))
    assert frame[:8] == struct.pack(">ii", len(frame) - 4, 9)
    assert frame[8:] == response.encode(version)
    assert decode_response(ApiVersionsResponse, version, frame[4:]) == (
        ResponseHeader(correlation_id=9),
        response,
    )
    # Requests follow the common rule all the same.
    request = encode_request(ApiVersionsRequest(), version, 9, "c")
    assert read_request_header(request, 4)[1] == 15 + (version >= 3)


def test_response_headers_v0_and_v1() -> None:
    response = FetchResponse(session_id=5)
    plain = b"".join(encode_response_parts(response, 11, 9))
    flexible = b"".join(encode_response_parts(response, 12, 9))
    assert plain[4:8] == flexible[4:8] == struct.pack(">i", 9)
    assert plain[8:] == response.encode(11)
    assert flexible[8:] == b"\0" + response.encode(12)
    assert decode_response(FetchResponse, 11, plain[4:]) == (
        ResponseHeader(correlation_id=9),
        response,
    )
    assert decode_response(FetchResponse, 12, memoryview(flexible)[4:]) == (
        ResponseHeader(correlation_id=9),
        response,
    )


def test_malformed_responses() -> None:
    frame = b"".join(encode_response_parts(FetchResponse(), 12, 9))[4:]
    for size in range(len(frame)):
        with pytest.raises(DecodeError):
            decode_response(FetchResponse, 12, frame[:size])
    with pytest.raises(DecodeError, match="1 bytes left over"):
        decode_response(FetchResponse, 12, frame + b"\0")


def test_records_travel_uncopied() -> None:
    batch = memoryview(bytearray(100_000))
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch)]
            )
        ]
    )
    parts = encode_request_parts(request, 9, 1, "c")
    assert any(part is batch for part in parts)
    assert b"".join(parts) == encode_request(request, 9, 1, "c")
    assert struct.unpack(">i", bytes(parts[0][:4])) == (sum(map(len, parts)) - 4,)
    assert len(parts) == 3


def test_empty_bodies() -> None:
    frame = encode_request(ApiVersionsRequest(), 0, 1, None)
    assert frame == struct.pack(">ihhih", 10, 18, 0, 1, -1)
    assert MetadataRequest.decode(MetadataRequest().encode(12), 12) == MetadataRequest()


def test_the_table_of_apis_is_complete() -> None:
    import pkgutil

    modules = {module.name for module in pkgutil.iter_modules(api.__path__)} - {"facts"}
    named = set()
    for api_key in api.API_NAMES:
        request, response = api.request_class(api_key), api.response_class(api_key)
        assert (request.api_key, request.kind) == (api_key, "request")
        assert (response.api_key, response.kind) == (api_key, "response")
        assert request.__name__ == f"{api.api_name(api_key)}Request"
        assert response.__name__ == f"{api.api_name(api_key)}Response"
        assert getattr(api, request.__name__) is request
        assert request.__name__ in dir(api)
        assert (request.min_version, request.max_version, request.flexible_from) == (
            response.min_version,
            response.max_version,
            response.flexible_from,
        )
        named.add(request.__module__.rpartition(".")[2])
    assert named == modules


def test_type_checkers_see_the_same_table() -> None:
    from pathlib import Path

    source = Path(str(api.__file__)).read_text()
    for name in api.API_NAMES.values():
        for suffix in ("Request", "Response"):
            cls = f"{name}{suffix}"
            assert f" {cls} as {cls}" in source or f"\n    {cls} = (\n" in source


def test_names_that_are_not_there() -> None:
    assert api.api_name(999) == "UNKNOWN(999)"
    for by_key in (api.request_class, api.response_class):
        with pytest.raises(UnknownApiError, match=r"^no API has the key 999$"):
            by_key(999)
    absent: Any = "NoSuchRequest"
    with pytest.raises(AttributeError, match="NoSuchRequest"):
        getattr(api, absent)


HEADER_TAGS = {0: b"a", 129: b""}


@pytest.mark.parametrize("tags", [None, HEADER_TAGS])
def test_frames_are_given_back_byte_for_byte(tags: dict[int, bytes] | None) -> None:
    asked = FetchRequest(max_wait_ms=5, unknown_tags={99: b"x"})
    frame = encode_request(asked, 12, 7, "me", header_tags=tags)
    header, request = decode_request(frame[4:])
    assert (header.client_id, header.unknown_tags, request) == ("me", tags, asked)
    assert frame == b"".join(encode_request_parts(asked, 12, 7, "me", header_tags=tags))
    again = encode_request(
        request,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        header_tags=header.unknown_tags,
    )
    assert again == frame

    answer = FetchResponse(session_id=5)
    frame = encode_response(answer, 12, 7, header_tags=tags)
    assert frame == b"".join(encode_response_parts(answer, 12, 7, header_tags=tags))
    answered, response = decode_response(FetchResponse, 12, frame[4:])
    assert (answered, response) == (ResponseHeader(correlation_id=7, unknown_tags=tags), answer)
    assert read_response_header(FetchResponse, 12, frame, 4) == (
        answered,
        len(frame) - len(answer.encode(12)),
    )
    assert encode_response(response, 12, 7, header_tags=answered.unknown_tags) == frame


def test_headers_that_are_not_flexible_have_no_tags() -> None:
    with pytest.raises(EncodeError):
        encode_request(FetchRequest(), 11, 7, "me", header_tags=HEADER_TAGS)
    for response, version in ((FetchResponse(), 11), (ApiVersionsResponse(), 4)):
        with pytest.raises(EncodeError):
            encode_response(response, version, 7, header_tags=HEADER_TAGS)


def test_unknown_requests_are_refused_by_name() -> None:
    with pytest.raises(UnknownApiError, match="no API has the key 999") as caught:
        decode_request(struct.pack(">hhih", 999, 5, 3, -1))
    assert isinstance(caught.value, WireError)
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnsupportedVersionError, match="no version 99, only 0 to 5"):
        decode_request(struct.pack(">hhihx", 18, 99, 3, -1))
    with pytest.raises(DecodeError):
        decode_request(struct.pack(">hhih", 1, 11, 3, -1))


def test_elements_of_whole_frames_are_bounded() -> None:
    names = [MetadataRequestTopic(name=name) for name in "abc"]
    frame = encode_request(MetadataRequest(topics=names), 12, 1, None)[4:]
    assert decode_request(frame, max_elements=3)[1] == MetadataRequest(topics=names)
    with pytest.raises(TooManyElementsError):
        decode_request(frame, max_elements=2)
    keys = [ApiVersion(api_key=key) for key in range(3)]
    frame = encode_response(ApiVersionsResponse(api_keys=keys), 4, 1)[4:]
    assert len(decode_response(ApiVersionsResponse, 4, frame, max_elements=3)[1].api_keys) == 3
    with pytest.raises(TooManyElementsError):
        decode_response(ApiVersionsResponse, 4, frame, max_elements=2)


def test_librdkafka_asks_for_all_topics_with_three_bytes_too_many() -> None:
    """As confluent-kafka 2.16.1 sends it: the null of `topics` has the four bytes of an int32.

    What reads it finds null, false, false, no tags, and 01 00 00 left over. Meant were null, true,
    false and no tags.
    """
    frame = bytes.fromhex("0003000d 00000004 0007 72646b61666b61 00 00000000 010000")
    header, pos = read_request_header(frame)
    assert (header.request_api_version, header.client_id) == (13, "rdkafka")
    with pytest.raises(DecodeError, match="3 bytes left over"):
        decode_request(frame)
    with pytest.raises(DecodeError, match="3 bytes left over"):
        MetadataRequest.decode(frame[pos:], 13)
    read = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert decode_request(frame, allow_trailing=True) == (header, read)
    assert MetadataRequest.decode(frame[pos:], 13, allow_trailing=True) == read
    assert MetadataRequest.read(frame, pos, 13) == (read, len(frame) - 3)
    meant = MetadataRequest(topics=None, allow_auto_topic_creation=True)
    assert meant.encode(13) == bytes.fromhex("00 01 00 00")


@pytest.mark.parametrize("version", range(1, 6))
def test_api_versions_refused_is_read_as_version_0(version: int) -> None:
    """KIP-511: who does not know the version answers in version 0, whatever was asked."""
    keys = [ApiVersion(api_key=18, min_version=0, max_version=4)]
    refusal = ApiVersionsResponse(error_code=35, api_keys=keys)
    frame = encode_response(refusal, 0, 9)[4:]
    header = ResponseHeader(correlation_id=9)
    assert decode_response(ApiVersionsResponse, version, frame) == (header, refusal)
    bare = ApiVersionsResponse(error_code=35)
    assert decode_response(ApiVersionsResponse, version, encode_response(bare, 0, 9)[4:])[1] == bare
    for size in range(4, len(frame)):
        with pytest.raises(DecodeError):
            decode_response(ApiVersionsResponse, version, frame[:size])
    with pytest.raises(DecodeError, match="1 bytes left over"):
        decode_response(ApiVersionsResponse, version, frame + b"\0")
    served = encode_response(ApiVersionsResponse(api_keys=keys), 0, 9)[4:]
    with pytest.raises(DecodeError):  # only error 35 is in version 0
        decode_response(ApiVersionsResponse, version, served)


def test_only_api_versions_falls_back() -> None:
    refusal = FetchResponse(throttle_time_ms=35 << 16)
    with pytest.raises(DecodeError):
        decode_response(FetchResponse, 12, encode_response(refusal, 1, 9)[4:])


def test_other_spellings_are_read_as_kafka_does_and_not_written() -> None:
    """A proxy that writes what it read would change these."""
    plain = MetadataRequest(topics=[], allow_auto_topic_creation=True).encode(13)
    assert plain == bytes.fromhex("01 01 00 00")
    for other in ("8100 01 00 00", "01 02 00 00", "01 01 00 8000", "01 ff 00 808000"):
        message = MetadataRequest.decode(bytes.fromhex(other), 13)
        assert message.encode(13) == plain
    explicit = FetchRequest().encode(12)[:-1] + bytes.fromhex("01 00 01 00")
    assert FetchRequest.decode(explicit, 12) == FetchRequest()  # its cluster id is null anyway
    assert FetchRequest().encode(12) != explicit


def test_positions_of_headers() -> None:
    for pos in (-3, -1 << 70):
        with pytest.raises(ValueError, match="pos is negative"):
            read_request_header(bytes(20), pos)


def test_paths_end_in_a_name() -> None:
    """Also where a header as a whole is wrong."""
    with pytest.raises(DecodeError) as caught:
        read_response_header(FetchResponse, 12, b"", 5)
    assert caught.value.path == "header"


def test_correlation_ids_that_are_no_int32() -> None:
    class Number:
        def __index__(self) -> int:
            raise KeyError("no")

    odd: Any
    for odd in (1 << 31, 1 << 20_000, "1", None, Number()):
        with pytest.raises(EncodeError, match="correlation_id"):
            encode_response(FetchResponse(), 12, odd)
        with pytest.raises(EncodeError, match="correlation_id"):
            encode_request(FetchRequest(), 12, odd, "me")


def test_errors_can_be_printed_whatever_they_are_about() -> None:
    with pytest.raises(UnsupportedVersionError, match="no version a number of 20001 bits"):
        FetchRequest().encode(1 << 20_000)
    with pytest.raises(UnknownApiError, match="no API has the key a number of 20001 bits"):
        api.request_class(1 << 20_000)
