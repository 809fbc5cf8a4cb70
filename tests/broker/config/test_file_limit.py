"""How many files a node may have open, and what of them is for whom."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.file_limit import (
    CONNECTIONS_MIN,
    KEPT_FREE_MAX,
    SEGMENT_FILES_MAX,
    SEGMENT_FILES_MIN,
    SPARE_MAX,
    FileLimitError,
    FileShares,
    raise_file_limit,
    share_files,
    warn_of_few_files,
)
from fencepost.log.segment_cache import FILES_PER_MAX


def config_of(directory: Path, dirs: int) -> BrokerConfig:
    names = ",".join(str(directory / str(number)) for number in range(dirs))
    return BrokerConfig.load(None, {"log.dirs": names})


def least_of(config: BrokerConfig) -> int:
    """The fewest files that the node's refusal asks for."""
    with pytest.raises(FileLimitError) as caught:
        share_files(config, 0)
    found = re.search(r"needs (\d+) at least", str(caught.value))
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("dirs", [1, 2, 5])
def test_the_limit_asked_for_is_enough_and_one_less_is_refused(tmp_path: Path, dirs: int):
    config = config_of(tmp_path, dirs)
    least = least_of(config)
    with pytest.raises(FileLimitError):
        share_files(config, least - 1)
    shares = share_files(config, least)
    assert shares.segment_files >= SEGMENT_FILES_MIN
    assert shares.connections >= CONNECTIONS_MIN


@pytest.mark.parametrize("dirs", [1, 2, 5])
@pytest.mark.parametrize("more", [0, 1, 100, 1_000, 10_000, 1_000_000])
def test_what_is_given_to_one_is_taken_from_no_other(tmp_path: Path, dirs: int, more: int):
    config = config_of(tmp_path, dirs)
    shares = share_files(config, least_of(config) + more)
    of_segments = shares.segment_files * FILES_PER_MAX * dirs
    assert shares.kept_free + of_segments + shares.connections < shares.limit
    assert of_segments <= shares.connections, "half for each, and segments have a bound"
    assert shares.segment_files <= SEGMENT_FILES_MAX
    assert shares.kept_free <= KEPT_FREE_MAX
    count = shares.connection_count()
    assert (count.most, count.limit) == (shares.connections, shares.limit)
    # Both come out of what is kept free, and something is left of it.
    assert 0 < shares.spare <= SPARE_MAX
    assert 0 < count.backlog <= shares.kept_free // 2
    assert shares.spare <= shares.kept_free // 3


def test_many_files_are_shared_out_whole(tmp_path: Path):
    """What bounded shares leave is for connections."""
    config = config_of(tmp_path, 1)
    shares = [share_files(config, limit) for limit in (100_000, 100_001)]
    assert [one.segment_files for one in shares] == [SEGMENT_FILES_MAX] * 2
    assert [one.kept_free for one in shares] == [KEPT_FREE_MAX] * 2
    assert shares[1].connections == shares[0].connections + 1


def test_a_thousand_partitions_that_are_read_in_turn_keep_their_files(tmp_path: Path):
    """With fewer, each of them would be closed before it is its turn again."""
    assert share_files(config_of(tmp_path, 1), 20_000).segment_files > 1_000


def test_fewer_connections_than_configured_are_told_at_the_start(tmp_path: Path, caplog):
    config = BrokerConfig.load(None, {"log.dirs": str(tmp_path), "max.connections": "100"})
    enough = FileShares(1000, 20, 5, 7, 100)
    warn_of_few_files(config, enough)
    assert not caplog.records
    warn_of_few_files(config, replace(enough, connections=99))
    (record,) = caplog.records
    assert "99 connections are accepted, not max.connections=100" in record.getMessage()


def test_the_soft_limit_is_raised_to_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        assert raise_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
