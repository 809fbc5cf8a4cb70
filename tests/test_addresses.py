"""Addresses as people write them, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.addresses import (
    AddressError,
    address_text,
    parse_address,
    parse_listener,
    parse_server,
)


@pytest.mark.parametrize(
    ("text", "options", "address"),
    [
        ("kafka-1:9092", {}, ("kafka-1", 9092)),
        ("[::1]:65535", {}, ("::1", 65535)),
        (":0", {"least_port": 0, "empty_host": True}, ("", 0)),
    ],
)
def test_an_address(text: str, options: dict[str, Any], address: tuple[str, int]) -> None:
    assert parse_address(text, **options) == address


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", "HOST:PORT"),
        ("kafka-1", "HOST:PORT"),
        (":9092", "HOST:PORT"),
        ("[]:9092", "HOST:PORT"),
        ("kafka-1:", "HOST:PORT"),
        ("kafka-1:x", "HOST:PORT"),
        ("kafka-1:-1", "HOST:PORT"),
        ("kafka-1:٩", "HOST:PORT"),
        ("kafka-1:0", "HOST:PORT with a port from 1 to 65535"),
        ("kafka-1:65536", "HOST:PORT with a port from 1 to 65535"),
        ("::1:9092", "HOST:PORT, with an IPv6 address in brackets"),
        ("kafka-1/a:9092", "HOST:PORT, with an IPv6 address in brackets"),
        ("http://kafka-1:9092", "HOST:PORT, with an IPv6 address in brackets"),
    ],
)
def test_what_is_no_address(text: str, allowed: str) -> None:
    with pytest.raises(AddressError) as raised:
        parse_address(text)
    assert str(raised.value) == allowed


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka-1:9092", ("kafka-1", 9092)),
        ("PLAINTEXT://kafka-1:9092", ("kafka-1", 9092)),
        ("SASL_SSL://[::1]:1", ("::1", 1)),
        ("://kafka-1:009092", ("kafka-1", 9092)),
        ("::1:9092", ("::1", 9092)),
        ("[fe80::1%eth0]:9092", ("fe80::1%eth0", 9092)),
    ],
)
def test_a_server_is_read_as_kafkas_clients_read_it(text: str, address: tuple[str, int]) -> None:
    assert parse_server(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "kafka-1", "kafka-1:", "kafka-1:x", "kafka-1:\u0669", ":9092", "PLAINTEXT://:9092"),
        *("kafka-1:0", "kafka-1:65536", "kafka-1:" + "9" * 5000, "A://B://kafka-1:9092"),
        *("kafka-1/x:9092", "ü:9092", "kafka 1:9092", "kafka-1:9092 ", "PLAIN TEXT://kafka-1:9092"),
    ],
)
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(AddressError, match="HOST:PORT"):
        parse_server(text)


def test_a_listener() -> None:
    assert parse_listener("plaintext://[::1]:9092") == ("PLAINTEXT", "::1", 9092)
    assert parse_listener("A://:0", least_port=0, empty_host=True) == ("A", "", 0)


@pytest.mark.parametrize("text", ["kafka-1:9092", "://kafka-1:9092", "A://kafka-1", "A://:9092"])
def test_what_is_no_listener(text: str) -> None:
    with pytest.raises(AddressError, match="NAME://HOST:PORT"):
        parse_listener(text)


@pytest.mark.parametrize("address", [("kafka-1", 9092), ("::1", 1)])
def test_an_address_is_read_as_it_is_written(address: tuple[str, int]) -> None:
    assert parse_address(address_text(*address)) == address
