"""Requests, their responses and SASL tokens of one connection, told apart."""

from __future__ import annotations

import pytest

from fencepost.capture.conversation import Conversation
from fencepost.capture.framing import Cut
from fencepost.cli.wire.convert.documents import encode_document
from fencepost.wire.api import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from .wire_messages import cutter, heartbeats, request, response


def test_responses_find_their_requests_in_any_order():
    asked, answers = heartbeats(3)
    talk = Conversation()
    for time, frame in enumerate(asked):
        item = talk.from_client(Cut(frame), float(time))
        assert item.kind == "request" and item.error is None
    for index in (1, 0, 2):
        item = talk.from_server(Cut(answers[index]))
        assert (item.kind, item.error) == ("response", None)
        assert item.pending is not None and item.pending.time == index
        assert item.decoded is not None
        assert item.decoded.document["header"] == {"correlation_id": 1000 + index}
    again = talk.from_server(Cut(answers[0]))
    assert again.kind == "unmatched"
    assert again.error == "no request with correlation id 1000 was seen before"


def test_acks_0_is_not_waited_for():
    talk = Conversation()
    for acks, is_waited_for in ((0, False), (1, True)):
        talk.from_client(Cut(request(ProduceRequest(acks=acks), 9, 5 + acks)), 0.0)
        assert talk.waits_for(5 + acks) == is_waited_for


@pytest.mark.parametrize("version", [3, 99])
def test_api_versions_falls_back_to_version_0(version: int):
    asked = bytearray(request(ApiVersionsRequest(), 3, 1))
    asked[6:8] = version.to_bytes(2, "big")
    talk = Conversation()
    item = talk.from_client(Cut(bytes(asked)), 0.0)
    assert (item.error is None) == (version == 3)
    answer = talk.from_server(Cut(response(ApiVersionsResponse(error_code=35), 0, 1)))
    assert answer.decoded is not None and answer.decoded.version == 0
    assert answer.decoded.document["body"]["error_code"] == 35


def test_tokens_after_sasl_handshake_v0():
    talk = Conversation()
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    talk.from_client(Cut(request(handshake, 0, 1)), 0.0)
    assert talk.from_server(Cut(response(SaslHandshakeResponse(), 0, 1))).kind == "response"
    token = b"\x00user\x00secret"
    client = Cut(len(token).to_bytes(4, "big") + token)
    assert talk.from_client(client, 0.0).kind == "sasl_token"
    assert talk.from_server(Cut(bytes(4))).kind == "sasl_token"  # an empty one
    asked, answers = heartbeats(1)
    assert talk.from_client(Cut(asked[0]), 0.0).kind == "request"
    assert talk.from_server(Cut(answers[0])).kind == "response"
    assert talk.from_client(client, 0.0).kind == "request"  # from here on it is a bad request


def test_handshake_v1_brings_no_raw_tokens():
    talk = Conversation()
    talk.from_client(Cut(request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)), 0.0)
    assert not talk.has_raw_tokens


def test_what_a_server_sends_too_much_is_kept():
    asked, answers = heartbeats(1)
    talk = Conversation()
    talk.from_client(Cut(asked[0]), 0.0)
    longer = (len(answers[0]) - 3).to_bytes(4, "big") + answers[0][4:] + b"\0"
    item = talk.from_server(Cut(longer))
    assert item.decoded is not None and item.decoded.document["trailing"] == "AA=="
    (part,) = encode_document(item.decoded.document)
    assert part.data == longer


def test_what_a_client_sends_too_much_is_kept():
    asked, _ = heartbeats(1)
    longer = (len(asked[0]) - 1).to_bytes(4, "big") + asked[0][4:] + b"\1\0\0"
    item = Conversation().from_client(Cut(longer), 0.0)
    assert (item.kind, item.error) == ("request", None)
    assert item.decoded is not None and item.decoded.document["trailing"] == "AQAA"
    (part,) = encode_document(item.decoded.document)
    assert part.data == longer
    # Joined in the middle, it is a request all the same: the client has a name.
    assert list(cutter(in_sync=False).feed(b"\xff" * 9 + longer))[1] == Cut(longer)


def test_an_api_from_the_future_is_passed_through():
    frame = bytearray(request(HeartbeatRequest(), 3, 77))
    frame[4:6] = (998).to_bytes(2, "big")
    talk = Conversation()
    item = talk.from_client(Cut(bytes(frame)), 0.0)
    assert (
        item.error == "header.request_api_key: no API has the number 998 (at byte 4 of the frame)"
    )
    answer = talk.from_server(Cut(response(HeartbeatResponse(), 3, 77)))
    assert answer.kind == "response" and answer.error is not None


def test_a_damaged_request_still_explains_its_response():
    asked, answers = heartbeats(1)
    talk = Conversation()
    item = talk.from_client(Cut(asked[0][:20], len(asked[0]) - 20), 0.0)
    assert item.error == f"{len(asked[0]) - 20} of its {len(asked[0])} bytes are not there"
    assert talk.from_server(Cut(answers[0])).decoded is not None


def test_requests_without_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fencepost.capture.conversation.PENDING_MAX", 3)
    talk = Conversation()
    for frame in heartbeats(5)[0]:
        talk.from_client(Cut(frame), 0.0)
    assert [i for i in range(1000, 1005) if talk.waits_for(i)] == [1002, 1003, 1004]
