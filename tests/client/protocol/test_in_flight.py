"""Which response answers which request, and which frames answer none."""

from __future__ import annotations

import struct

import pytest

from fencepost.client.errors import ClientError, ProtocolError
from fencepost.client.protocol import in_flight
from fencepost.client.protocol.in_flight import FIRST_CORRELATION_ID, InFlightRequests
from fencepost.wire.api import MetadataRequest, MetadataResponse, ProduceRequest
from fencepost.wire.api.metadata import MetadataResponseTopic
from fencepost.wire.errors import EncodeError
from fencepost.wire.frame import LENGTH_BYTES, decode_request, encode_response

VERSION = 9


def frame_of(response: MetadataResponse, correlation_id: int) -> bytes:
    return encode_response(response, VERSION, correlation_id)[LENGTH_BYTES:]


def test_responses_are_matched_in_the_order_of_the_requests():
    requests = InFlightRequests("client")
    tokens = [requests.send(MetadataRequest(), VERSION)[0] for _ in range(3)]
    first = FIRST_CORRELATION_ID
    assert [token.correlation_id for token in tokens] == [first, first + 1, first + 2]
    for token in tokens:
        assert requests.oldest == token and token in requests
        frame = frame_of(MetadataResponse(cluster_id=f"c{token[0]}"), token.correlation_id)
        assert requests.match(frame) == token
        assert requests.decode(token, frame).cluster_id == f"c{token[0]}"
        assert token not in requests
    assert len(requests) == 0


def test_the_frame_says_who_asks_and_what():
    _, parts = InFlightRequests("client").send(MetadataRequest(), VERSION)
    header, message = decode_request(b"".join(parts)[LENGTH_BYTES:])
    assert (header.client_id, header.request_api_version) == ("client", VERSION)
    assert isinstance(message, MetadataRequest)


def test_a_response_out_of_turn_is_refused():
    requests = InFlightRequests("client", host="kafka:9092")
    requests.send(MetadataRequest(), VERSION)
    requests.send(MetadataRequest(), VERSION)
    with pytest.raises(ProtocolError, match="kafka:9092: answered correlation id 11 where 10 was"):
        requests.match(frame_of(MetadataResponse(), FIRST_CORRELATION_ID + 1))


def test_a_response_to_nothing_is_refused():
    requests = InFlightRequests("client")
    with pytest.raises(ProtocolError, match="no request waits for"):
        requests.match(frame_of(MetadataResponse(), 0))
    requests.send(MetadataRequest(), VERSION)
    requests.clear()
    with pytest.raises(ProtocolError, match="no request waits for"):
        requests.match(frame_of(MetadataResponse(), 0))


def test_produce_without_acks_waits_for_no_response():
    requests = InFlightRequests("client")
    requests.send(ProduceRequest(acks=0), VERSION)
    assert len(requests) == 0
    token, _ = requests.send(ProduceRequest(acks=1), VERSION)
    assert requests.oldest == token and token.correlation_id == FIRST_CORRELATION_ID + 1


def test_a_request_that_its_version_cannot_say_is_not_in_flight():
    requests = InFlightRequests("client")
    with pytest.raises(EncodeError):
        requests.send(MetadataRequest(topics=None), 0)  # all topics are an empty list there
    assert len(requests) == 0
    assert requests.send(MetadataRequest(), VERSION)[0].correlation_id == FIRST_CORRELATION_ID


def test_requests_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_flight, "IN_FLIGHT_MAX", 2)
    requests = InFlightRequests("client")
    for _ in range(2):
        requests.send(MetadataRequest(), VERSION)
    with pytest.raises(ClientError, match="more than 2 requests in flight"):
        requests.send(MetadataRequest(), VERSION)


def test_correlation_ids_start_over_before_they_are_negative(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_flight, "_CORRELATION_IDS", FIRST_CORRELATION_ID + 2)
    requests = InFlightRequests("client")
    sent = [requests.send(MetadataRequest(), VERSION)[0].correlation_id for _ in range(3)]
    assert sent == [FIRST_CORRELATION_ID, FIRST_CORRELATION_ID + 1, 0]


def test_a_response_that_cannot_be_read_is_refused_and_bytes_behind_it_are_not():
    requests = InFlightRequests("client")
    token, _ = requests.send(MetadataRequest(), VERSION)
    frame = frame_of(MetadataResponse(cluster_id="c"), token.correlation_id)
    assert requests.decode(token, frame + b"\0").cluster_id == "c"
    for cut in range(LENGTH_BYTES, len(frame)):
        with pytest.raises(ProtocolError, match="cannot read MetadataResponse version 9"):
            requests.decode(token, frame[:cut])


def test_elements_of_a_response_are_bounded_before_they_are_objects():
    requests = InFlightRequests("client", max_elements=100)
    token, _ = requests.send(MetadataRequest(), VERSION)
    for count in (100, 101):
        topics = [MetadataResponseTopic(name="") for _ in range(count)]
        frame = frame_of(MetadataResponse(topics=topics), token.correlation_id)
        if count <= 100:
            assert len(requests.decode(token, frame).topics) == count
        else:
            with pytest.raises(ProtocolError, match="cannot read"):
                requests.decode(token, frame)


@pytest.mark.parametrize("size", [4, 5, 12])
def test_garbage_behind_a_right_correlation_id_is_refused(size: int):
    requests = InFlightRequests("client")
    token, _ = requests.send(MetadataRequest(), VERSION)
    frame = struct.pack(">i", token.correlation_id) + b"\xff" * (size - 4)
    assert requests.match(frame) == token
    with pytest.raises(ProtocolError):
        requests.decode(token, frame)
