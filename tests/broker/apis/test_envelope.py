"""Envelopes: clients' requests on their way to the active controller, well made and not."""

from __future__ import annotations

from collections import deque
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from fencepost.broker import apis
from fencepost.broker.apis.envelope import FORWARDED
from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.forwarding import (
    Envelope,
    Forwarder,
    packed_address,
    packed_principal,
)
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES
from fencepost.machines.quorum.voters import Endpoint
from fencepost.machines.session import ANONYMOUS, USER, Principal
from fencepost.wire import api
from fencepost.wire.api.alter_client_quotas import EntryDataRequest
from fencepost.wire.api.alter_configs import (
    AlterableConfig as AlterableConfigOfOld,
    AlterConfigsResource as ResourceOfOld,
)
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response, encode_request
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import FeatureLevelRecord
from fencepost.wire.records.principal import DefaultPrincipalData, encode_principal

from ...timers import ManualTimers
from .harness import Caller, StillNode, answer_of, ask, broker, register, send

apis.load_all()

register(
    "alter_configs",
    "incremental_alter_configs",
    "api_versions",
    "broker_heartbeat",
    "create_topics",
    "delete_topics",
    "envelope",
    "incremental_alter_configs",
)

PRINCIPAL = packed_principal(ANONYMOUS)
CREATE = CreateTopicsRequest(
    topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
)


def a_controller() -> StillNode:
    return StillNode().learn(broker(1))


def envelope(data: bytes, **changes: Any) -> EnvelopeRequest:
    values = {
        "request_data": data,
        "request_principal": PRINCIPAL,
        "client_host_address": bytes([10, 0, 0, 9]),
        **changes,
    }
    return EnvelopeRequest(**values)


def inside(message: Message, version: int, *, client_id: str | None = "cli") -> bytes:
    """A request as a client sent it, without the length."""
    return encode_request(message, version, 77, client_id)[4:]


def deliver(node: Any, request: EnvelopeRequest) -> EnvelopeResponse:
    response: EnvelopeResponse = ask(node, request, 0, listener="CONTROLLER")
    return response


def opened(response: EnvelopeResponse, cls: type[Message], version: int) -> Any:
    """The response inside."""
    assert response.error_code == 0
    assert response.response_data is not None
    header, message = decode_response(cls, version, response.response_data)
    assert header.correlation_id == 77
    return message


def test_only_brokers_cordon_directories_through_a_controller() -> None:
    """A broker has checked that it has them; a client's own request may only take some away."""
    node = a_controller().learn(FeatureLevelRecord(name="metadata.version", feature_level=30))
    change = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="/a,/b")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    request = api.IncrementalAlterConfigsRequest(resources=[resource])

    def directly(value: str) -> int:
        change.value = value
        [incremental] = ask(node, request, 1, listener="CONTROLLER").responses
        item = AlterableConfigOfOld(name=change.name, value=value)
        old = ResourceOfOld(resource_type=4, resource_name="1", configs=[item])
        asked = api.AlterConfigsRequest(resources=[old], validate_only=True)
        [replacing] = ask(node, asked, 2, listener="CONTROLLER").responses
        assert replacing.error_code == incremental.error_code
        return int(incremental.error_code)

    assert directly("/a") == ErrorCode.INVALID_CONFIG
    change.value = "/a,/b"
    response = deliver(node, envelope(inside(request, 1)))
    [result] = opened(response, api.IncrementalAlterConfigsResponse, 1).responses
    assert result.error_code == ErrorCode.NONE
    assert directly("/a,/c") == ErrorCode.INVALID_CONFIG
    assert (directly("/b,/a"), directly("/b"), directly("")) == (0, 0, 0)
    assert directly("/b") == ErrorCode.INVALID_CONFIG


# -- what is inside is served ----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_what_is_inside_is_served_at_its_version(version: int) -> None:
    node = a_controller()
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)]
    )
    response = deliver(node, envelope(inside(request, version)))
    answer = opened(response, api.CreateTopicsResponse, version)
    assert [(t.name, t.error_code) for t in answer.topics] == [("t", 0)]
    assert len(node.image.topics_by_name["t"].partitions) == 2
    if version >= 5:
        assert any(item.name == "cleanup.policy" for item in answer.topics[0].configs)


def test_errors_of_the_request_are_inside() -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="missing")], timeout_ms=60_000)
    response = deliver(a_controller(), envelope(inside(request, 6)))
    answer = opened(response, api.DeleteTopicsResponse, 6)
    assert [t.error_code for t in answer.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("address", [bytes([10, 1, 2, 3]), bytes(15) + b"\1"])
def test_both_kinds_of_addresses(address: bytes) -> None:
    response = deliver(a_controller(), envelope(inside(CREATE, 7), client_host_address=address))
    assert response.error_code == 0


def test_it_is_answered_when_the_request_inside_is_committed() -> None:
    node = a_controller()
    node.controller.held = True
    context = send(node, envelope(inside(CREATE, 7)), 0, listener="CONTROLLER")
    assert not context.answered
    node.controller.release()
    assert opened(answer_of(context), api.CreateTopicsResponse, 7).topics[0].error_code == 0


def test_a_broker_that_disconnects_meanwhile_is_no_mistake() -> None:
    node = a_controller()
    node.controller.held = True
    context = send(node, envelope(inside(CREATE, 7)), 0, listener="CONTROLLER")
    context.abandoned()
    node.controller.release()
    assert "t" in node.image.topics_by_name


@pytest.mark.parametrize(
    "request_inside",
    [
        CREATE,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000),
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[AlterableConfig(name="a", config_operation=0, value="b")],
                )
            ]
        ),
        api.AlterClientQuotasRequest(entries=[EntryDataRequest(entity=[], ops=[])]),
        api.AlterUserScramCredentialsRequest(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_controller_that_is_not_active_says_so_outside(request_inside: Message) -> None:
    node = a_controller()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    versions = {
        CreateTopicsRequest: 7,
        DeleteTopicsRequest: 6,
        api.AlterUserScramCredentialsRequest: 0,
    }
    version = versions.get(type(request_inside), 1)
    response = deliver(node, envelope(inside(request_inside, version)))
    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert response.response_data is None


@pytest.mark.parametrize(
    "data", [inside(CREATE, 7)[:2] + b"\0\x63", inside(CREATE, 7)[:2] + b"\0\1"]
)
def test_what_is_not_served_here_the_active_controller_may_serve(data: bytes) -> None:
    node = a_controller()
    data = data[:4] + GOOD[4:]
    assert deliver(node, envelope(data)).error_code == ErrorCode.UNSUPPORTED_VERSION
    node.controller.error = ErrorCode.NOT_CONTROLLER
    assert deliver(node, envelope(data)).error_code == ErrorCode.NOT_CONTROLLER


# -- hostile envelopes -----------------------------------------------------------------------------

GOOD = inside(CREATE, 7)
HOSTILE = {
    "no principal": (envelope(GOOD, request_principal=None), 97),
    "an empty principal": (envelope(GOOD, request_principal=b""), 97),
    "a principal of another version": (envelope(GOOD, request_principal=b"\0\7"), 97),
    "a cut principal": (envelope(GOOD, request_principal=PRINCIPAL[:-1]), 97),
    "a principal and more": (envelope(GOOD, request_principal=PRINCIPAL + b"\0"), 97),
    "no address": (envelope(GOOD, client_host_address=b""), 42),
    "an address of 5 bytes": (envelope(GOOD, client_host_address=bytes(5)), 42),
    "nothing inside": (envelope(b""), 35),
    "half a header": (envelope(GOOD[:6]), 35),
    "a header with a wrong client id": (envelope(GOOD[:8] + b"\x7f\xff"), 35),
    "an envelope inside": (envelope(inside(envelope(GOOD), 0)), 42),
    "a request of brokers": (envelope(inside(BrokerHeartbeatRequest(), 0)), 42),
    "a request that is nobody's to forward": (envelope(inside(ApiVersionsRequest(), 0)), 42),
    "an API that there is not": (envelope(b"\x7f\xff\0\0" + GOOD[4:]), 42),
    "an API with a negative key": (envelope(b"\xff\xff\0\0" + GOOD[4:]), 42),
    "a version that is too new": (envelope(GOOD[:2] + b"\0\x63" + GOOD[4:]), 35),
    "a version below 0": (envelope(GOOD[:2] + b"\xff\xff" + GOOD[4:]), 35),
    "a version that is served no more": (envelope(GOOD[:2] + b"\0\1" + GOOD[4:]), 35),
    "half a body": (envelope(GOOD[:-5]), 35),
    "a body with a count that is too high": (envelope(GOOD[:14] + b"\xff\xff\xff\xff\x0f"), 35),
}


@pytest.mark.parametrize(("request_", "error"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_envelope_is_sent_back(request_: EnvelopeRequest, error: int) -> None:
    node = a_controller()
    response = deliver(node, request_)
    assert (response.error_code, response.response_data) == (error, None)
    assert not node.image.topics_by_name


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_a_request_cut_anywhere_is_sent_back(cut: int) -> None:
    node = a_controller()
    response = deliver(node, envelope(GOOD[:cut]))
    assert response.error_code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST)
    assert not node.image.topics_by_name


def test_too_many_elements_are_not_read() -> None:
    names = [DeleteTopicState(name="") for _ in range(100_001)]
    data = inside(DeleteTopicsRequest(topics=names), 6)
    assert deliver(a_controller(), envelope(data)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_handler_that_fails_is_an_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_controller()
    monkeypatch.setattr(node.service, "serve", lambda *arguments: 1 // 0)
    response = deliver(node, envelope(GOOD))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "failed" in caplog.text


def test_only_what_kafka_forwards_is_forwarded() -> None:
    assert 58 not in FORWARDED
    served = FORWARDED & CONTROLLER_ROUTES.keys()
    assert {19, 20, 44} <= served


# -- from a broker to a controller -----------------------------------------------------------------


class Wire:
    """Carries requests between two nodes, as bytes; `deliver` when the test says so."""

    def __init__(self, controller: StillNode) -> None:
        self.controller = controller
        self.waiting: deque[Any] = deque()
        self.timers = ManualTimers()
        self.node_id, self.leader_id = 4, 1

    def address_of(self, node_id: int) -> Endpoint:
        return Endpoint("CONTROLLER", "c", 9093)

    def send(self, address, request, on_response, on_failure, timeout_ms, *, purpose=""):
        self.waiting.append((request, on_response))

    def carry(self) -> Any:
        """Carry one request there and its answer back; the request."""
        request, on_response = self.waiting.popleft()
        on_response(ask(self.controller, request, listener="CONTROLLER"))
        return request


def two_nodes() -> tuple[StillNode, Wire]:
    wire = Wire(a_controller())
    node = a_controller()
    channel = ControllerChannel(None, wire, wire.timers, lambda: wire.timers.now_ms, wire)
    node.channel, node.forwarder = channel, Forwarder(channel)
    return node, wire


@pytest.mark.parametrize("version", range(2, 8))
def test_a_broker_forwards_and_answers(version: int) -> None:
    node, wire = two_nodes()
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    )
    context = send(node, request, version)
    assert not context.answered
    carried = wire.carry()
    assert carried.client_host_address == bytes([127, 0, 0, 1])
    assert carried.request_principal == encode_principal(
        DefaultPrincipalData(type="User", name="ANONYMOUS")
    )
    answer = answer_of(context)
    assert [(t.name, t.error_code) for t in answer.topics] == [("t", 0)]
    assert "t" in wire.controller.image.topics_by_name


def test_the_controller_sees_the_principal_and_the_address_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not those of the broker that forwards, which is what the envelope's own context has."""
    alice = Principal(USER, "alice", token_authenticated=True)
    monkeypatch.setattr(Caller, "principal", alice)
    monkeypatch.setattr(Caller, "client_host", "10.1.2.3")
    node, wire = two_nodes()
    context = send(node, CREATE, 7)
    monkeypatch.undo()  # the broker that forwards is another client of the controller
    seen: list[tuple[Principal, str]] = []
    route = CONTROLLER_ROUTES[19]

    def watching(inner: Any, *given: Any, **parts: Any) -> Any:
        seen.append((inner.principal, inner.client_host))
        return route.handler(inner, *given, **parts)

    watching.__signature__ = signature(route.handler, eval_str=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(CONTROLLER_ROUTES, 19, structs.replace(route, handler=watching))
    wire.carry()
    assert seen == [(alice, "10.1.2.3")]
    assert answer_of(context).topics[0].error_code == 0


def test_a_client_that_the_controller_throttles_is_throttled_here() -> None:
    answers: list[Any] = []
    context = PendingRequest(Caller(), ROUTES[19], 7, 1)  # type: ignore[arg-type]
    response = CreateTopicsResponse(throttle_time_ms=70)
    channel: Any = SimpleNamespace(ask=lambda _, on_reply, **__: on_reply(ErrorCode.NONE, response))
    Forwarder(channel).forward(context, CREATE, lambda *answer: answers.append(answer))
    assert answers == [(ErrorCode.NONE, response)]
    assert context.throttle_time_ms == 70


def test_a_deposed_controller_is_left_for_the_next() -> None:
    node, wire = two_nodes()
    wire.controller.controller.error = ErrorCode.NOT_CONTROLLER
    context = send(node, CREATE, 7)
    wire.carry()
    assert not context.answered
    wire.controller.controller.error = ErrorCode.NONE
    wire.timers.advance(1_000)
    wire.carry()
    assert answer_of(context).topics[0].error_code == 0


def test_without_any_controller_the_client_hears_of_it_in_the_end() -> None:
    node, wire = two_nodes()
    wire.leader_id = -1
    context = send(node, CREATE, 7)
    wire.timers.advance(59_999)
    assert not context.answered
    wire.timers.advance(1)
    assert answer_of(context).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (EnvelopeResponse(error_code=35), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(error_code=42), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=97), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=31), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=999), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=None), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b"\0\0\0\7"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b"\0\0\0\7\0\xff"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            # a whole answer, to another request
            EnvelopeResponse(response_data=b"\0\0\0\x08\0\0\0\0\0\x01\0"),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_what_a_controller_answers_is_not_believed(
    response: EnvelopeResponse, error: ErrorCode
) -> None:
    node, wire = two_nodes()
    context = send(node, CREATE, 7)
    _, on_response = wire.waiting.popleft()
    on_response(response)
    assert answer_of(context).topics[0].error_code == error


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        ("127.0.0.1", bytes([127, 0, 0, 1])),
        ("::1", bytes(15) + b"\1"),
        ("fe80::1%eth0", bytes([0xFE, 0x80]) + bytes(13) + b"\1"),
        ("?", bytes(4)),
    ],
)
def test_addresses_are_bytes(host: str, packed: bytes) -> None:
    assert packed_address(host) == packed


def test_an_envelope_holds_what_the_client_sent() -> None:
    node, _ = two_nodes()
    context = send(node, CREATE, 7)
    packed = Envelope(context, CREATE).pack()
    assert packed.request_data == encode_request(CREATE, 7, 7, "harness")[4:]
