"""Every served API and version with the longest names there can be: what quotes them is cut."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.wire.api import ApiVersionsRequest, CreatePartitionsRequest, DescribeConfigsRequest
from fencepost.wire.api.create_partitions import CreatePartitionsTopic
from fencepost.wire.api.describe_configs import DescribeConfigsResource
from fencepost.wire.frame import encode_request
from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Uuid

from ..samples import sample

apis.load_all()

LONGEST = "n" * 32_767
ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def texts(struct: Struct, version: int) -> Iterator[tuple[Struct, str]]:
    """Where the struct, and those in it, have strings or lists of strings."""
    for entry in type(struct).fields:
        if not entry.versions.holds(version):
            continue
        value = getattr(struct, entry.name)
        values = value if isinstance(value, list) else [value]
        if any(isinstance(one, str) for one in values):
            yield struct, entry.name
        for one in values:
            if isinstance(one, Struct):
                yield from texts(one, version)


def with_long_names(cls: type[Message], version: int) -> Iterator[Message]:
    """Requests with every string as long as can be, and with each of them."""
    for which in range(-1, len(list(texts(sample(cls, version, "t", Uuid.ZERO), version)))):
        request = sample(cls, version, "t", Uuid.ZERO)
        for number, (struct, name) in enumerate(texts(request, version)):
            if which in (-1, number):
                is_list = isinstance(getattr(struct, name), list)
                setattr(struct, name, [LONGEST] if is_list else LONGEST)
        yield request


@pytest.mark.slow
def test_no_name_is_too_long_for_an_answer(node, caplog):
    sent = 0
    for route in ROUTES.values():
        for version in range(route.min_version, route.max_version + 1):
            for request in with_long_names(route.request_class, version):
                with node.connect() as client, contextlib.suppress(ConnectionError):
                    client.send_raw(encode_request(request, version, 1, "t"))
                    client.send_raw(encode_request(ASK, 3, 2, "t"))
                    client.sock.settimeout(0.02)
                    with contextlib.suppress(TimeoutError):
                        client.sock.recv(1 << 17)
                sent += 1
    assert sent > 400
    with node.connect() as client:
        assert client.ask(ASK, 3).error_code == 0
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_long_name_comes_back_whole(node, version):
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=LONGEST, count=2)], timeout_ms=1000
    )
    with node.connect() as client:
        (result,) = client.ask(request, version).results
    assert (result.name, result.error_code) == (LONGEST, 3)
    assert result.error_message is None, "as from Kafka"


def test_what_is_cut_shows_its_end(node):
    resource = DescribeConfigsResource(resource_type=2, resource_name=LONGEST)
    with node.connect() as client:
        (result,) = client.ask(DescribeConfigsRequest(resources=[resource]), 3).results
    assert result.error_code == 17
    assert len(result.error_message) < 1_001
    assert "n...n" in result.error_message
    assert result.error_message[-1] != "n"
