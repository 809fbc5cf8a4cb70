"""What `fencepost produce` has written, `fencepost consume` prints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from .commands import Fencepost, Ran


def test_text_in_text_out(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    written = produce(topic, "".join(f"{n}\n" for n in range(20)), "--partition", "1")
    assert written.err == f"20 record(s) written to {topic}\n"
    assert run("consume", topic).lines == [str(n) for n in range(20)]
    assert run("consume", topic, "--max-messages", "3").lines == ["0", "1", "2"]
    assert run("consume", topic, "--offset", "17").lines == ["17", "18", "19"]
    assert run("consume", topic, "--offset", "-2").lines == ["18", "19"]
    assert run("consume", topic, "--offset", "latest").lines == []
    assert run("consume", topic, "--partition", "0").lines == []
    assert run("consume", topic, "--partition", "7").code == 2


def test_keys_headers_and_json(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    produce(topic, "a:1\nb:2:3\n", "--key-separator", ":", "--partition", "0", "--header", "h=x")
    assert run("consume", topic, "--key-separator", "=").lines == ["a=1", "b=2:3"]
    record = {"key": None, "value": None, "headers": {"n": None}, "timestamp": 1700000000123}
    assert produce(
        topic, json.dumps(record), "--lines-json", "--partition", "0", "--json"
    ).json == {
        "topic": topic,
        "records": 1,
    }
    found = [json.loads(line) for line in run("consume", topic, "--json").lines]
    assert [(r["offset"], r["key"], r["value"]) for r in found] == [
        (0, "a", "1"),
        (1, "b", "2:3"),
        (2, None, None),
    ]
    assert [r["headers"] for r in found] == [[["h", "x"]], [["h", "x"]], [["n", None]]]
    assert found[2]["timestamp"] == 1700000000123


def test_a_file_may_be_named_behind_the_options(run: Fencepost, topic: str, tmp_path: Path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"key": "k", "value": "from a file"}\n')
    assert run("produce", topic, "--lines-json", str(path)).code == 0
    assert run("consume", topic).lines == ["from a file"]


def test_reading_from_a_time_on(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    base = int(time.time()) * 1000 - 100_000
    for number in range(5):
        record = {"value": str(number), "timestamp": base + number, "partition": 0}
        assert produce(topic, json.dumps(record), "--lines-json").code == 0
    assert run("consume", topic, "--timestamp", str(base + 3)).lines == ["3", "4"]
    moment = datetime.fromtimestamp(base / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.004Z")
    assert run("consume", topic, "--timestamp", moment).lines == ["4"]
    assert run("consume", topic, "--timestamp", "yesterday").code == 2


def test_compressed_records(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert produce(topic, "x" * 500, "--compression", codec, "--partition", "0").code == 0
    assert run("consume", topic).lines == ["x" * 500] * 4
    assert produce(topic, "x", "--compression", "brotli").code == 2
