"""Clients' requests that only the active controller can serve, forwarded to it (KIP-590).

Theory of operation
-------------------
Clients ask any broker. If the active controller is in this process it decides over the request as
it is. If not, the request travels in an Envelope: the very header and body of the client, its
principal and its address. What comes back is the controller's response at the client's version.

A request that says how long it may take (`controller_service.TIMED`) is given up when that is over,
any request after a minute. The client is then answered REQUEST_TIMED_OUT: what it asked for may
have happened, may still happen, or not. A client that the controller throttles is throttled here,
too.

The envelope's own errors are not for clients. NOT_CONTROLLER is tried again by the channel; a
controller that finds out only while it works on the request also says so on the envelope. A client
whose request the controller cannot read is answered UNSUPPORTED_VERSION, all else is
UNKNOWN_SERVER_ERROR, since something is wrong between the nodes.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Any, Final

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.controller_service import client_timeout_ms
from fencepost.broker.cluster.peer_connection import MAX_ELEMENTS
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.session import Principal
from fencepost.runtime.asks_controller import OnReply
from fencepost.wire.api import response_class
from fencepost.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from fencepost.wire.errors import DecodeError, ErrorCode, error_name
from fencepost.wire.frame import LENGTH_BYTES, decode_response, encode_request
from fencepost.wire.message import Message
from fencepost.wire.records.principal import DefaultPrincipalData, encode_principal

log = logging.getLogger(__name__)

FORWARDING_TIMEOUT_MS: Final = 60_000
"""How long a client's request is tried at most; Kafka's brokers give up after as long."""
PURPOSE: Final = "forwarding"


class Envelope:
    """One client's request on its way; `controller_channel.Wrapping`."""

    def __init__(self, context: PendingRequest, request: Message) -> None:
        self._context = context
        self._request = request

    @property
    def client(self) -> PendingRequest:
        """The client, whose permissions count."""
        return self._context

    def pack(self) -> Message:
        """The envelope around the request, which gets the header that it came with."""
        context = self._context
        frame = encode_request(
            self._request, context.api_version, context.correlation_id, context.client_id
        )
        return EnvelopeRequest(
            request_data=frame[LENGTH_BYTES:],
            request_principal=packed_principal(context.principal),
            client_host_address=packed_address(context.client_host),
        )

    def unpack(self, response: Message) -> tuple[ErrorCode, Message | None]:
        """(NONE, the response inside), or (an error for the client, None)."""
        assert isinstance(response, EnvelopeResponse)
        code = response.error_code
        if code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION):
            return ErrorCode(code), None
        context = self._context
        if code or response.response_data is None:
            log.error("the controller refused an envelope: %s", error_name(code))
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        cls = response_class(context.route.api_key)
        try:
            header, message = decode_response(
                cls, context.api_version, response.response_data, max_elements=MAX_ELEMENTS
            )
        except DecodeError as failure:
            log.error("cannot decode the response in the controller's envelope: %s", failure)
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        if header.correlation_id != context.correlation_id:
            log.error("the response in the controller's envelope belongs to another request")
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        return ErrorCode.NONE, message


def packed_principal(principal: Principal) -> bytes:
    """The principal as an envelope carries it."""
    return encode_principal(
        DefaultPrincipalData(
            type=principal.type,
            name=principal.name,
            token_authenticated=principal.token_authenticated,
        )
    )


def packed_address(host: str) -> bytes:
    """The 4 or 16 bytes of an IP address; `0.0.0.0` for what is none."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)


class Forwarder:
    """Takes clients' requests to the active controller."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def forward(self, context: PendingRequest, request: Message, on_reply: OnReply) -> None:
        """Have the active controller decide over a client's `request`.

        `request` is the one that came with `context`, or what is left of it for the controller.
        `on_reply(NONE, response)` or `on_reply(error, None)`, perhaps at once.
        """

        def on_answer(error: ErrorCode, response: Any) -> None:
            throttle_time_ms = getattr(response, "throttle_time_ms", 0)
            if throttle_time_ms:
                context.throttle(throttle_time_ms)
            on_reply(error, response)

        self._channel.ask(
            request,
            on_answer,
            timeout_ms=min(client_timeout_ms(request), FORWARDING_TIMEOUT_MS),
            purpose=PURPOSE,
            api_version=context.api_version,
            wrapping=Envelope(context, request),
        )
