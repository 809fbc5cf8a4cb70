"""Options: names, precedence, values, and the errors that name them."""

from __future__ import annotations

import json
import logging
import pickle
import time

import pytest

from fencepost.arrow.options import AtOffsets, AtTimestamps, BeforeEnd, Point, SourceOptions
from fencepost.client.metadata import TopicPartition
from fencepost.spark.errors import OptionError
from fencepost.spark.options import (
    ExactlyOnce,
    KeyedWrite,
    SinkOptions,
    sink_options,
    source_options,
    wants_headers,
)
from fencepost.spark.writer import StreamWriter

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


def source(*, streaming: bool = False, **given: str) -> SourceOptions:
    # As Spark hands them over: lower-cased.
    options = {key.lower(): value for key, value in {**BASE, **given}.items()}
    return source_options({k: v for k, v in options.items() if v is not None}, streaming=streaming)


def test_defaults_differ_between_batch_and_stream():
    assert source().start is Point.EARLIEST
    assert source(streaming=True).start is Point.LATEST
    assert source().end is Point.LATEST
    assert source().fail_on_data_loss
    assert source().client.client_id == "fencepost-spark"
    assert not source().include_headers


def test_subscriptions():
    assert source(subscribe=" a, b,,a ").subscription.topics == ("a", "b")
    assigned = source(subscribe=None, assign='{"t":[1,0],"s":[2]}').subscription.assigned
    assert assigned == (("s", 2), ("t", 0), ("t", 1))
    assert source(subscribe=None, subscribePattern="t.*").subscription.pattern == "t.*"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"subscribe": None}, "subscribe"),
        ({"subscribePattern": "x"}, "subscribePattern"),
        ({"assign": '{"t":[0]}'}, "subscribe"),
        ({"subscribe": " , "}, "subscribe"),
        ({"subscribe": None, "assign": "[0]"}, "assign"),
        ({"subscribe": None, "assign": '{"t":[-1]}'}, "assign"),
        ({"subscribe": None, "assign": '{"t":["0"]}'}, "assign"),
        ({"subscribe": None, "assign": '{"t":[true]}'}, "assign"),
        ({"subscribe": None, "assign": "{}"}, "assign"),
        ({"subscribe": None, "assign": "{"}, "assign"),
        ({"subscribe": None, "subscribePattern": "("}, "subscribePattern"),
        ({"subscribe": None, "subscribePattern": ""}, "subscribePattern"),
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":5,"1":-1},"u":{"0":-2}}'}, "startingOffsets"),
        ({"startingOffsets": "soon"}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":"1"}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":1.5}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":[1]}'}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets"),
        ({"startingTimestamp": "-1"}, "startingTimestamp"),
        ({"startingTimestamp": "today"}, "startingTimestamp"),
        ({"startingTimestamp": "-5 parsecs"}, "startingTimestamp"),
        ({"startingTimestamp": "-5 offsets"}, "startingTimestamp"),
        ({"startingOffsets": "-5"}, "startingOffsets"),
        ({"startingOffsets": "-" + "9" * 30 + "s"}, "startingOffsets"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "startingOffsetsByTimestampStrategy"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "1e3"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "9" * 5_000}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": str(2**63)}, "maxOffsetsPerTrigger"),
        ({"startingTimestamp": str(2**63)}, "startingTimestamp"),
        ({"startingTimestamp": "9" * 5_000}, "startingTimestamp"),
        ({"endingTimestamp": str(2**63)}, "endingTimestamp"),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":1,"00":2}}'}, "startingOffsets"),
        ({"startingOffsets": f'{{"t":{{"0":{2**63}}}}}'}, "startingOffsets"),
        ({"startingOffsetsByTimestamp": f'{{"t":{{"0":{2**63}}}}}'}, "startingOffsetsByTimestamp"),
        ({"subscribe": None, "assign": '{"a":' * 50_000}, "assign"),
        ({"subscribe": "t" * 250}, "subscribe"),
        ({"minPartitions": "-1"}, "minPartitions"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "15 parsecs"}, "maxTriggerDelay"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"includeHeaders": "1"}, "includeHeaders"),
        ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers"),
        ({"kafka.fetch.max.bytes": "-1"}, "kafka.fetch.max.bytes"),
        ({"kafka.no.such.thing": "0"}, "kafka.no.such.thing"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], name: str):
    with pytest.raises(OptionError, match=rf"^\[FENCEPOST_INVALID_OPTION\] option (?i:{name})="):
        source(**given)


def test_errors_do_not_repeat_long_values():
    with pytest.raises(OptionError) as raised:
        source(startingOffsets="[" * 100_000)
    assert len(str(raised.value)) < 1_000
    assert all(len(value) < 1_000 for value in raised.value.getMessageParameters().values())


def test_timestamps_beat_offsets_and_a_common_one_beats_all():
    by_partition = json.dumps({"t": {"0": 7}})
    given = {"startingOffsets": "latest", "startingOffsetsByTimestamp": by_partition}
    found = source(streaming=True, **given).start
    assert found == AtTimestamps(None, {TopicPartition("t", 0): 7}, or_latest=False)
    found = source(streaming=True, startingTimestamp="9", **given).start
    assert found == AtTimestamps(9, None, or_latest=False)
    strategy = {"startingOffsetsByTimestampStrategy": "LATEST"}
    found = source(streaming=True, startingTimestamp="9", **strategy).start
    assert found == AtTimestamps(9, None, or_latest=True)
    # An end without a match is the log's end, whatever the strategy for starts.
    assert source(endingTimestamp="9").end == AtTimestamps(9, None, or_latest=True)


def test_relative_starts():
    assert source(startingOffsets="-1000 offsets").start == BeforeEnd(1000)
    for text, ago_ms in {"-10 minutes": 600_000, "-2h": 7_200_000, "- 1 week": 604_800_000}.items():
        for name in ("startingTimestamp", "startingOffsets"):
            before = time.time_ns() // 1_000_000
            found = source(**{name: text}).start
            assert isinstance(found, AtTimestamps) and found.common_ms is not None
            assert 0 <= found.common_ms + ago_ms - before < 600_000
            assert found.or_latest


def test_offsets_by_partition():
    found = source(streaming=True, startingOffsets='{"t":{"0":23,"1":-1,"2":-2}}').start
    assert found == AtOffsets(
        {TopicPartition("t", 0): 23, TopicPartition("t", 1): -1, TopicPartition("t", 2): -2}
    )


def test_a_checkpoint_of_ours_is_a_starting_point_too():
    text = '{"#fencepost":{"t":{"id":"x","epochs":{"0":3}}},"t":{"0":23}}'
    assert source(startingOffsets=text).start == AtOffsets({TopicPartition("t", 0): 23})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_have_no_end(name: str):
    with pytest.raises(OptionError, match=f"{name}.*a stream has no end"):
        source(streaming=True, **{name: "1"})


def test_misspelt_options_are_refused_and_strange_ones_mentioned(caplog: pytest.LogCaptureFixture):
    with pytest.raises(OptionError, match="did you mean startingOffsets"):
        source(startingOffset="earliest")
    with caplog.at_level(logging.WARNING):
        source(path="/tmp/x", groupIdPrefix="g")
    assert "option path has no meaning" in caplog.text
    assert "groupIdPrefix has no effect" in caplog.text


def test_durations():
    assert source().max_trigger_delay_ms == 15 * 60_000
    for text, expected in {"500": 500, "30s": 30_000, "2 min": 120_000, "1h": 3_600_000}.items():
        assert source(maxTriggerDelay=text).max_trigger_delay_ms == expected


def test_client_properties_pass_through():
    options = source(**{"kafka.isolation.level": "read_committed", "kafka.client.id": "me"})
    assert options.client.isolation_level == "read_committed"
    assert options.client.client_id == "me"


def test_sinks():
    options = sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t"})
    assert options.topic == "t"
    assert options.client.allow_auto_create_topics
    assert sink_options({"kafka.bootstrap.servers": "a:1"}).topic is None
    for name in ("kafka.key.serializer", "kafka.value.serializer"):
        with pytest.raises(OptionError, match=name):
            sink_options({"kafka.bootstrap.servers": "a:1", name: "x"})
    with pytest.raises(OptionError, match="topic"):
        sink_options({"kafka.bootstrap.servers": "a:1", "topic": " "})


def test_sinks_take_what_spark_says_of_the_query(caplog: pytest.LogCaptureFixture):
    query = {"queryname": "copy", "checkpointlocation": "/tmp/x"}
    with caplog.at_level(logging.WARNING):
        sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t", **query})
    assert caplog.text == ""


def test_options_can_be_pickled():
    options = source(startingOffsets='{"t":{"0":23}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_headers_are_asked_for_in_any_case():
    assert wants_headers({"INCLUDEHEADERS": "TRUE"})
    assert not wants_headers({})


def once(**given: str) -> SinkOptions:
    base = {"kafka.bootstrap.servers": "a:1", "topic": "t", "deliveryguarantee": "exactly-once"}
    return sink_options({**base, **{key.lower(): value for key, value in given.items()}})


def test_a_key_of_a_batch_write():
    assert once().exactly_once == ExactlyOnce(None, None)
    found = once(txnAppId="Nightly: é", txnVersion=" 12 ", txnRun="r").exactly_once
    assert found is not None
    assert found.write == KeyedWrite("Nightly: é", 12, "r")
    for given, wrong in (
        ({"txnAppId": "a"}, "txnVersion=None"),
        ({"txnVersion": "1"}, "txnAppId=None"),
        *(({"txnAppId": "a", "txnVersion": v}, "txnVersion") for v in ("", "-1", "1.5", "٣", "x")),
        ({"txnAppId": "a", "txnVersion": str(2**63)}, "txnVersion"),
        *(({"txnAppId": a, "txnVersion": "1"}, "txnAppId") for a in ("", "a\nb", "x" * 201)),
    ):
        with pytest.raises(OptionError, match=wrong):
            once(**given)
    assert once(txnAppId="x" * 200, txnVersion=str(2**63 - 1)).exactly_once is not None


@pytest.mark.parametrize("name", ["txnAppId", "txnVersion", "txnRun", "forgottenBatch"])
def test_options_that_need_exactly_once(name: str):
    with pytest.raises(OptionError, match=f"{name}.*needs deliveryGuarantee=exactly-once"):
        once(**{name: "1", "deliveryGuarantee": "at-least-once"})


def test_what_is_done_with_a_batch_that_brokers_forgot():
    assert [
        found.writes_forgotten
        for text in ("fail", "write", " WRITE ")
        if (found := once(forgottenBatch=text).exactly_once)
    ] == [False, True, True]
    with pytest.raises(OptionError, match="forgottenBatch='skip'"):
        once(forgottenBatch="skip")


def test_a_key_is_no_stream_s():
    with pytest.raises(OptionError, match=r"txnAppId.*for batch writes"):
        StreamWriter(once(txnAppId="a", txnVersion="1"))
