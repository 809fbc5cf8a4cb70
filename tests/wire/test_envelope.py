"""What is inside of an Envelope: a request and a response with their headers, and a principal."""

from __future__ import annotations

from ipaddress import ip_address

from fencepost.wire.api import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterBrokerRequest,
    request_class,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicResult
from fencepost.wire.frame import (
    decode_response,
    encode_request,
    encode_response_parts,
    read_request_header,
)
from fencepost.wire.records.principal import (
    DefaultPrincipalData,
    decode_principal,
    encode_principal,
)

LENGTH = 4
"""Bytes of the length before a frame, which is not part of what is put into an envelope."""


def test_bytes_by_hand() -> None:
    """UnregisterBroker v0 of broker 5, from the client `me`, who is User:ada, at 127.0.0.1."""
    data = bytes.fromhex(
        "13"  # request_data: 18 bytes
        "0040 0000 00000009 0002 6d65 00"  # header v2: key, version, correlation, client, tags
        "00000005 00"  # the broker; tags
        "0e"  # request_principal: 13 bytes
        "0000 05 55736572 04 616461 00 00"  # version, `User`, `ada`, no token, tags
        "05 7f000001"  # client_host_address
        "00"  # tags
    )
    envelope = EnvelopeRequest.decode(data, version=0)
    header, begin = read_request_header(envelope.request_data)
    assert (header.request_api_key, header.correlation_id, header.client_id) == (64, 9, "me")
    request = UnregisterBrokerRequest.decode(
        envelope.request_data[begin:], header.request_api_version
    )
    assert request == UnregisterBrokerRequest(broker_id=5)
    assert envelope.request_principal is not None
    principal = decode_principal(envelope.request_principal)
    assert principal == DefaultPrincipalData(type="User", name="ada")
    assert envelope.encode(version=0) == data


def test_a_request_there_and_back() -> None:
    asked = CreateTopicsRequest(
        topics=[CreatableTopic(name="orders", num_partitions=3, replication_factor=1)]
    )
    client = DefaultPrincipalData(type="User", name="ada")
    envelope = EnvelopeRequest(
        request_data=encode_request(asked, 7, 41, "app")[LENGTH:],
        request_principal=encode_principal(client),
        client_host_address=ip_address("192.0.2.7").packed,
    )

    arrived = EnvelopeRequest.decode(envelope.encode(version=0), version=0)
    header, begin = read_request_header(arrived.request_data)
    assert (header.request_api_key, header.request_api_version) == (19, 7)
    assert (header.correlation_id, header.client_id) == (41, "app")
    body = arrived.request_data[begin:]
    assert request_class(header.request_api_key).decode(body, header.request_api_version) == asked
    assert arrived.request_principal is not None
    assert decode_principal(arrived.request_principal) == client
    assert str(ip_address(bytes(arrived.client_host_address))) == "192.0.2.7"

    done = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", num_partitions=3)])
    inside = b"".join(encode_response_parts(done, 7, header.correlation_id))[LENGTH:]
    back = EnvelopeResponse.decode(EnvelopeResponse(response_data=inside).encode(0), 0)
    assert back.error_code == 0
    assert back.response_data is not None
    answered, response = decode_response(CreateTopicsResponse, 7, back.response_data)
    assert (answered.correlation_id, response) == (41, done)


def test_an_error_has_no_response_inside() -> None:
    refused = EnvelopeResponse(error_code=41)
    assert refused.encode(0).hex() == "00002900"
    assert EnvelopeResponse.decode(refused.encode(0), 0).response_data is None
