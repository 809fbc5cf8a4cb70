"""Fixtures of the tests of commands against a served broker."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

from .commands import Fencepost, Ran


@pytest.fixture
def run(served: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Fencepost:
    """Runs a command line in this process."""

    def run_command(*words: str, bootstrap: str = served) -> Ran:
        capfdbinary.readouterr()
        code = main([*words, "--bootstrap-server", bootstrap])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out.decode(), captured.err.decode())

    return run_command


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


@pytest.fixture
def partitions() -> int:
    """How many `topic` has; a file that needs another number overrides it."""
    return 2


@pytest.fixture
def topic_configs() -> dict[str, str]:
    """Configs of the topic."""
    return {}


@pytest.fixture
def topic(cluster: Cluster, partitions: int, topic_configs: dict[str, str]) -> str:
    """A new topic."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    Admin(cluster).create_topic(name, partitions, configs=topic_configs)
    Admin(cluster).wait_for_topic(name)
    return name


@pytest.fixture
def produce(run: Fencepost, tmp_path: Path) -> Callable[..., Ran]:
    """Feeds lines to `fencepost produce`."""

    def feed(topic: str, text: str, *options: str) -> Ran:
        path = tmp_path / "lines"
        path.write_text(text)
        return run("produce", topic, str(path), *options)

    return feed
