"""What commands print, held against `printed.txt`: users' scripts read the JSON, so neither a key
nor an order may change by accident. What differs from run to run is masked.

FENCEPOST_REWRITE=1 writes the file again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as ClientCluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

from ..waiting import eventually
from .commands import Fencepost

PRINTED = Path(__file__).parent / "printed.txt"
TOPIC, HELD = "flights", TopicPartition("held", 0)
NUMBERS = (
    "broker_epoch|coordinator_epoch|features_epoch|high_watermark|last_caught_up_timestamp"
    "|last_fetch_timestamp|last_timestamp_ms|first_timestamp_ms|leader_epoch|log_end_offset|port"
    "|producer_id|size_bytes|start_ms|timestamp_ms|total_bytes|usable_bytes|leader_epoch_of_quorum"
    "|level|min_level|max_level|features|lag"
)
MASKS = (
    (re.compile(rf'("(?:{NUMBERS})": )-?\d+'), r"\1N"),
    (re.compile(r'(?<=["\s])[\w-]{22}(?="?[,\s])'), "ID"),
    (re.compile(r"/[\w./-]*fencepost[\w./-]*"), "PATH"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
)
COMMANDS = (
    ("topics", "list"),
    ("topics", "describe", TOPIC),
    ("topics", "create", "more", "--validate-only"),
    ("topics", "alter", TOPIC, "--partitions", "3"),
    ("configs", "describe", "--topic", TOPIC),
    ("configs", "describe", "--topic", TOPIC, "cleanup.policy"),
    ("configs", "alter", "--topic", TOPIC, "--set", "retention.ms=2000"),
    ("offsets", TOPIC),
    ("offsets", f"{TOPIC}:0", "--at", "@1000", "--at", "latest"),
    ("groups", "offsets", "readers", "--topic", TOPIC, "--to", "1", "--dry-run"),
    ("groups", "offsets", "readers", "--topic", TOPIC, "--to", "1"),
    ("groups", "offsets", "readers"),
    ("groups", "list"),
    ("groups", "describe", "readers"),
    ("groups", "delete-offsets", "readers", f"{TOPIC}:1"),
    ("groups", "delete", "readers"),
    ("transactions", "list"),
    ("transactions", "describe", "writer"),
    ("transactions", "describe-producers", "held:0"),
    ("transactions", "explain", "held"),
    ("transactions", "find-hanging", "held"),
    ("transactions", "force-terminate", "writer"),
    ("brokers", "list"),
    ("brokers", "describe"),
    ("quorum", "describe"),
    ("features", "describe"),
    ("features", "upgrade", "kraft.version=1"),
    ("reassign", "list"),
    ("elect", "preferred", f"{TOPIC}:0"),
    ("log-dirs", "describe", f"{TOPIC}:0"),
    ("delete-records", f"{TOPIC}:0=1"),
    ("epochs", TOPIC),
    ("topics", "delete", TOPIC),
)
LOOKING = ("list", "describe", "describe-producers", "explain", "offsets", "find-hanging", TOPIC)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """A broker of its own, with two records, a group's offsets and an open transaction."""
    with Cluster(faults=False, offsets_topic_num_partitions=1) as cluster:
        with ClientCluster(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            admin.create_topic(TOPIC, 2, configs={"retention.ms": "-1"})
            admin.create_topic(HELD.topic, 1)
            admin.wait_for_topic(TOPIC)
            admin.wait_for_topic(HELD.topic)
            with Producer(client) as producer:
                for number in range(2):
                    producer.send(TOPIC, b"x", partition=0, timestamp_ms=1_000 + number)
        with ClientCluster(cluster.bootstrap_servers, transactional_id="writer") as client:
            producer = Producer(client)
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(HELD.topic, b"x", partition=0)
            producer.flush()
            level = {"isolation_level": "read_uncommitted"}
            eventually(lambda: list_offsets(client, {HELD: LATEST}, **level)[HELD].offset == 1)
            yield cluster.bootstrap_servers


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def test_commands_print_what_they_printed(run: Fencepost):
    said = []
    for words in COMMANDS:
        line = " ".join(words)
        said.append(f"$ fencepost {line} --json\n{masked(run(*words, '--json').out)}")
        if words[1] in LOOKING:  # others have changed something, which they do only once
            text = re.sub(r"\d+", "N", masked(run(*words).out))
            said.append(f"$ fencepost {line}\n{re.sub(' +', ' ', text)}")
    found = "\n".join(said)
    if os.environ.get("FENCEPOST_REWRITE"):
        PRINTED.write_text(found)
    assert found == PRINTED.read_text()
