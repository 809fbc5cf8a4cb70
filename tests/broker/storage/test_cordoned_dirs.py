"""Cordoned log directories: they keep what they have, and take nothing new (KIP-1066)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.wire.api import (
    CreateTopicsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from fencepost.wire.api.update_features import FeatureUpdateKey
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from .test_moving_replicas import move
from .test_several_dirs import Dirs, create

KEY = "cordoned.log.dirs"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def cordoned(client: Any) -> list[str]:
    """Names of the directories that are said to be cordoned."""
    answer = client.ask(DescribeLogDirsRequest(topics=None), 5)
    return [Path(one.log_dir).name for one in answer.results if one.is_cordoned]


def cordon(client: Any, value: str) -> int:
    change = AlterableConfig(name=KEY, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    [result] = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return int(result.error_code)


def created(client: Any, name: str) -> int:
    """The error of another topic."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [made] = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    return int(made.error_code)


@pytest.fixture
def dirs(tmp_path: Path) -> Any:
    started = Dirs(tmp_path, **{KEY: str(tmp_path / "b")})
    yield started
    started.running.close()


def test_new_partitions_go_elsewhere(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=6)
    assert {dirs.place(index) for index in range(6)} == {"a", "c"}
    assert cordoned(client) == ["b"]
    assert move(client, dirs, "b", 0) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    known = dirs.running.node.storage.data_dirs[1].directory_id
    eventually(lambda: dirs.running.node.image.brokers[1].cordoned_log_dirs == (known,))


def test_directories_are_cordoned_while_the_broker_runs(dirs: Dirs) -> None:
    client = dirs.running.connect()
    image = lambda: dirs.running.node.image.brokers[1]  # noqa: E731
    assert cordon(client, "*") == 0
    eventually(lambda: image().is_cordoned)
    assert cordoned(client) == ["a", "b", "c"]
    assert created(client, "u") == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cordon(client, "") == 0
    eventually(lambda: image().cordoned_log_dirs == ())
    assert (created(client, "u"), cordoned(client)) == (0, [])
    assert cordon(client, "/elsewhere") == ErrorCode.INVALID_REQUEST


def test_an_older_metadata_version_has_no_cordoned_directories(tmp_path: Path) -> None:
    """What the file says waits for the upgrade; a dynamic value is refused until then."""
    paths = ",".join(str(tmp_path / name) for name in "abc")
    config = {KEY: "*", "log.dirs": paths}
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    assert main(["format", "-c", str(file), "-t", CLUSTER, "-r", "4.2"]) == 0
    running = RunningNode(tmp_path, config)
    try:
        client = running.connect()
        assert (created(client, "u"), cordoned(client)) == (0, [])
        assert cordon(client, "") == ErrorCode.INVALID_CONFIG
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        answer = client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
        assert answer.error_code == ErrorCode.NONE
        eventually(lambda: cordoned(client) == ["a", "b", "c"])
        eventually(lambda: running.node.image.brokers[1].is_cordoned)
        assert created(client, "v") == ErrorCode.INVALID_REPLICATION_FACTOR
    finally:
        running.close()
