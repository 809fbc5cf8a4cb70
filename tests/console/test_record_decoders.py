"""Bytes as text: by each decoder, by their looks, by Kafka's own codec, and by a registry."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from fencepost.cli.main import main
from fencepost.console.asked import Asked, BadQuery
from fencepost.console.records.decoders import (
    NAMES,
    PRETTY_BYTES_MAX,
    Decoder,
    Shown,
    hex_dump,
    pretty,
    visible,
)
from fencepost.console.records.topic_decoders import (
    UNKNOWN_MAX,
    SchemaValues,
    decoders_of,
    kafka_decoders,
)
from fencepost.testing.registry import SchemaRegistry
from fencepost.wire.records import group
from fencepost.wire.records.group_classic import OffsetCommitKey, OffsetCommitValue
from tests.http_servers import serving


def shown(name: str, data: bytes | None, bytes_max: int = 100) -> Shown:
    return Decoder(name).show(data, bytes_max)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("utf-8", "ü€".encode(), "ü€"),
        ("json", b'{"a": 1}', '{"a": 1}'),
        ("hex", b"\x00\xff", "00ff"),
        ("int", struct.pack(">i", -2), "-2"),
        ("long", struct.pack(">q", 2**40), str(2**40)),
        ("float", struct.pack(">f", 0.5), "0.5"),
        ("double", struct.pack(">d", float("nan")), "nan"),
        ("uuid", UUID(int=5).bytes, str(UUID(int=5))),
    ],
)
def test_each_decoder(name: str, data: bytes, text: str):
    assert shown(name, data) == Shown(text, name, len(data))
    if name not in ("utf-8", "hex"):
        wrong = shown(name, data[:-1])
        assert (wrong.text, wrong.as_) == (data[:-1].hex(), "hex")
        assert wrong.problem


@pytest.mark.parametrize(
    ("data", "as_", "text"),
    [
        (b"plain", "utf-8", "plain"),
        (b"two\nlines\t", "utf-8", "two\nlines\t"),
        (b"\x00\x00\x00\x05", "hex", "00000005"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"", "utf-8", ""),
    ],
)
def test_bytes_are_shown_by_their_looks(data: bytes, as_: str, text: str):
    found = shown("auto", data)
    assert (found.as_, found.text) == (as_, text)


def test_what_is_cut_is_cut_between_characters():
    found = shown("utf-8", "€€€".encode(), 4)
    assert (found.text, found.is_cut, found.size_bytes) == ("€", True, 9)
    assert shown("hex", bytes(10), 8) == Shown("00000000", "hex", 10, True)


@given(st.binary(max_size=200), st.sampled_from(NAMES), st.integers(0, 64))
def test_whatever_the_bytes_are_text_comes_of_them(data: bytes, name: str, bytes_max: int):
    found = Decoder(name).show(data, bytes_max)
    assert found.text is not None
    assert len(found.text) <= 10 * max(bytes_max, 1), "an escape has ten characters at most"
    assert all(one.isprintable() or one in "\n\t" for one in found.text)
    Decoder(name).text_of(data)


def test_characters_that_act_are_escaped():
    assert visible("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"


def test_json_is_made_pretty_up_to_a_size():
    assert pretty(Shown('{"a":[1]}', "json", 9)) == '{\n  "a": [\n    1\n  ]\n}'
    assert pretty(Shown("5", "json", 1)) is None
    assert pretty(Shown("[" * 100_000, "json", 100_000)) is None
    assert pretty(Shown('["' + "x" * PRETTY_BYTES_MAX + '"]', "json", 1)) is None


def test_hexadecimal_lines_end_where_they_are_told():
    text = hex_dump(bytes(range(40)), 20)
    assert text.splitlines()[1] == f"00000010  {'10 11 12 13':<47}  ...."
    assert text.endswith("… 20 more bytes")


def test_a_decoder_that_there_is_not():
    with pytest.raises(BadQuery, match="key='rot13': allowed are auto, utf-8, hex, json"):
        Decoder("rot13", "key")


# -- Kafka's own topics ----------------------------------------------------------------------------


def test_kafkas_own_records_are_decoded_without_being_asked_for():
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="", commit_timestamp=1)
    raw_key, raw_value = group.encode_key(key), group.encode_value(value, 3)
    key_as, value_as = decoders_of(Asked(), "__consumer_offsets", None)
    found = key_as.show(raw_key, 1000)
    assert (found.as_, '"OffsetCommitKey"' in (found.text or "")) == ("kafka", True)
    found = value_as.show(raw_value, 1000, raw_key)
    assert (found.as_, '"offset":5' in (found.text or "")) == ("kafka", True)


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"],
)
@given(key=st.none() | st.binary(max_size=40), value=st.binary(max_size=60))
def test_what_is_no_record_of_kafka_is_shown_with_the_reason(topic: str, key: Any, value: bytes):
    key_as, value_as = decoders_of(Asked(), topic, None)
    found = value_as.show(value, 1000, key)
    assert found.as_ == "kafka" or found.problem
    if key is not None:
        key_as.show(key, 1000)


def test_other_topics_have_no_kafka_decoder():
    assert kafka_decoders("orders") == ([], [])
    with pytest.raises(BadQuery):
        decoders_of(Asked({"value": "kafka"}), "orders", None)


# -- a registry ------------------------------------------------------------------------------------

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def test_values_are_decoded_by_the_registrys_schemas():
    pytest.importorskip("fastavro")
    registry_client = pytest.importorskip("confluent_kafka.schema_registry")
    with SchemaRegistry() as registry:
        client = registry_client.SchemaRegistryClient({"url": registry.url})
        known = client.register_schema("orders-value", registry_client.Schema(ORDER, "AVRO"))
        schemas = SchemaValues(registry.url)
        _, value_as = decoders_of(Asked(), "orders", schemas)
        found = value_as.show(framed(known, b"\x0e"), 100)
        assert (found.as_, found.text) == ("registry", '{"id":7}')
        plain = value_as.show(b"no frame", 100)
        assert (plain.as_, plain.problem) == ("utf-8", None)
        absent = value_as.show(framed(99, b"\x0e"), 100)
        assert absent.as_ == "hex" and "schema 99" in (absent.problem or "")
        _, asked_for = decoders_of(Asked({"value": "registry"}), "orders", schemas)
        assert "too few" in (asked_for.show(b"no", 100).problem or "")
        asked = sum(value_as.show(framed(one, b""), 9).problem is not None for one in range(500))
        assert asked >= UNKNOWN_MAX


def test_a_registry_that_does_not_answer_is_left_alone():
    pytest.importorskip("confluent_kafka.schema_registry")
    asked = []
    with serving({}) as url:
        pass
    schemas = SchemaValues(url)
    decoder = schemas.for_look()
    for number in range(50):
        found = Decoder("registry", "value", [decoder]).show(framed(number, b""), 100)
        asked.append(found.problem)
    assert all("the registry does not answer" in (one or "") for one in asked)
    assert len(set(asked)) == 1, "it was asked once"


@pytest.mark.parametrize("url", ["ftp://x", "registry:8081", "http://", "x"])
def test_an_address_that_is_none_is_refused(url: str, capsys):
    assert main(["console", "--once", "overview", "--registry", url]) == 2
    assert "http://HOST:PORT" in capsys.readouterr().err
