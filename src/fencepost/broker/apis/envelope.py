"""Envelope (key 58) v0: a client's request that a broker passes on (KIP-590).

What is inside is served as if the client had come to the controller itself, and the response goes
back as it would have gone over the wire, from its header on. The envelope has errors of its own:

| what is wrong                                                            | error |
|--------------------------------------------------------------------------|-------|
| the principal cannot be read                                             | 97    |
| the client's address has neither 4 nor 16 bytes                          | 42    |
| the header inside cannot be read                                         | 35    |
| the API inside is not one that is forwarded (an envelope above all)      | 42    |
| it is not served here, or not in its version, by the active controller   | 35    |
| its body cannot be read                                                  | 35    |
| this controller is not the active one, or was not when it would have won | 41    |

Of two controllers one may serve what the other does not: a broker goes on looking for the active
one with 41, and with 35 it has its client ask again what there is.

Whatever else happens to the request is said in the response inside. What it may do is what the
client may do that the envelope names; the broker that forwards it needs CLUSTER_ACTION, without
which the envelope is 31.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final

from fencepost.broker.cluster.controller_channel import says_not_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.registry import CONTROLLER, Route, handles
from fencepost.machines.session import Principal
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.frame import LENGTH_BYTES, read_request_header
from fencepost.wire.message import Message
from fencepost.wire.records.principal import decode_principal

log = logging.getLogger(__name__)

FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81, 94}
)
"""The keys of the APIs that may be inside, as Kafka has them; not all of them are served here."""
ADDRESS_BYTES: Final = (4, 16)


class _Refused(Exception):
    """The envelope is sent back."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error)
        self.error = error


class ForwardedContext(PendingRequest):
    """The request inside, in flight; its answer becomes that of the envelope."""

    is_forwarded = True
    __slots__ = ("_envelope", "_host", "_principal")

    def __init__(
        self,
        envelope: PendingRequest,
        route: Route,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        client: tuple[Principal, str],
    ) -> None:
        super().__init__(
            envelope.connection,
            route,
            api_version,
            correlation_id,
            client_id,
            envelope.frame_size_bytes,
        )
        self._envelope = envelope
        self._principal, self._host = client
        envelope.on_disconnect(self.abandoned)

    @property
    def client_host(self) -> str:
        """The address of the client, not of the broker that forwards."""
        return self._host

    @property
    def principal(self) -> Principal:
        """The client's, not the broker's."""
        return self._principal

    def reply(self, message: Message) -> None:
        """The answer; a controller that is not active says so on the envelope."""
        if not self._may_answer():
            return
        self.answered = True
        if says_not_controller(message):
            self._envelope.reply(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        frame: list[Buffer] = self._encode(message)
        self._envelope.reply(EnvelopeResponse(response_data=b"".join(frame)[LENGTH_BYTES:]))

    def close(self, reason: str) -> None:
        """What would disconnect the client is an error of the envelope: brokers stay connected."""
        log.info("a forwarded request cannot be answered: %s", reason)
        self.answered = self._gone = True
        self._envelope.reply(EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))


@handles(EnvelopeRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: EnvelopeRequest,
    *,
    access: Access,
    controller: ControllerService,
) -> EnvelopeResponse | Pieces | None:
    """Serve what is inside."""
    if refusal := access.refusal(context, CLUSTER_ACTION):
        return EnvelopeResponse(error_code=refusal)
    try:
        inner, message = _open(context, request, controller.is_active)
    except _Refused as refused:
        return EnvelopeResponse(error_code=refused.error)
    try:
        answer = inner.route.handler(inner, message)
        if isinstance(answer, Message):
            inner.reply(answer)
        elif answer is not None:
            return _in_pieces(inner, answer)
    except Exception:
        log.exception("%s v%d in an envelope failed", inner.route.name, inner.api_version)
        inner.fail()
    return None


def _in_pieces(inner: ForwardedContext, pieces: Pieces) -> Pieces:
    """Let the handler inside work in pieces, as one that came by itself."""
    try:
        answer = yield from pieces
        if answer is not None:
            inner.reply(answer)
    except Exception:
        log.exception("%s v%d in an envelope failed", inner.route.name, inner.api_version)
        inner.fail()
    return None


def _open(
    context: PendingRequest, request: EnvelopeRequest, is_active: bool
) -> tuple[ForwardedContext, Message]:
    """The request inside and the place of its answer. Raises _Refused; see the table."""
    try:
        who = decode_principal(request.request_principal or b"")
    except DecodeError:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    if len(request.client_host_address) not in ADDRESS_BYTES:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    principal = Principal(who.type, who.name, who.token_authenticated)
    address = str(ipaddress.ip_address(bytes(request.client_host_address)))
    data = request.request_data
    try:
        header, body_start = read_request_header(data)
    except DecodeError:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION) from None
    if header.request_api_key not in FORWARDED:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    route = context.routes.get(header.request_api_key)
    version = header.request_api_version
    if route is None or not route.min_version <= version <= route.max_version:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION if is_active else ErrorCode.NOT_CONTROLLER)
    try:
        message, _ = route.request_class.read(
            data, body_start, version, max_elements=route.max_elements
        )
    except DecodeError:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION) from None
    if not is_active:
        # Some handlers need no controller to answer, but theirs is not the cluster's answer.
        raise _Refused(ErrorCode.NOT_CONTROLLER)
    inner = ForwardedContext(
        context, route, version, header.correlation_id, header.client_id, (principal, address)
    )
    return inner, message
