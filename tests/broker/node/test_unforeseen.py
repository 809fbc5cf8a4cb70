"""Errors that nobody has foreseen: the node ends and says so, rather than stay and do nothing."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.file_limit import share_files
from fencepost.broker.node import main
from fencepost.broker.node.node import Node, StartError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.controller import Controller
from fencepost.machines.quorum import Role
from fencepost.runtime.replicas import ReplicaManager

from ..conftest import QUICK
from ..topic_requests import make_topic

ERRORS = [MemoryError, RecursionError, ValueError]


@pytest.fixture
def logged(caplog, monkeypatch):
    """What the node logs."""
    monkeypatch.setattr(logging.getLogger("fencepost"), "propagate", True)
    return caplog


def refuse(error: Exception):
    def raise_it(*_: object, **__: object) -> None:
        raise error

    return raise_it


@pytest.mark.parametrize("error", ERRORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
def test_a_partition_that_cannot_be_opened_says_why(
    node_factory, monkeypatch, error, is_clean, logged
):
    running = node_factory()
    with running.connect() as client:
        make_topic(client, name="odd")
    running.call(running.node.stop)
    if not is_clean:
        (running.data_dir / ".kafka_cleanshutdown").unlink()
    opened = PartitionLog.open

    def open_or_not(disk, directory, *arguments, **options):
        if directory.endswith("/odd-0"):
            raise error("odd")
        return opened(disk, directory, *arguments, **options)

    monkeypatch.setattr(PartitionLog, "open", open_or_not)
    with pytest.raises(StartError, match=rf"odd-0: {error.__name__}"):
        running.start()
    assert any(record.exc_info for record in logged.records), "the traceback is in the log"
    monkeypatch.undo()
    running.node = running.start()


@pytest.mark.parametrize("place", [(ReplicaManager, "_changes"), (ReplicaManager, "apply")])
def test_a_node_that_cannot_follow_the_metadata_does_not_start(node_factory, monkeypatch, place):
    running = node_factory()
    running.call(running.node.stop)
    monkeypatch.setattr(*place, refuse(RecursionError("too deep")))
    with pytest.raises(StartError, match="cannot be followed: RecursionError: too deep"):
        running.start()
    monkeypatch.undo()
    running.node = running.start()


def test_a_node_whose_controller_cannot_be_made_does_not_start(node_factory, monkeypatch):
    running = node_factory()
    running.call(running.node.stop)
    monkeypatch.setattr(Controller, "from_image", refuse(KeyError("topic")))
    with pytest.raises(StartError, match="cannot be followed: KeyError: 'topic'"):
        running.start()
    monkeypatch.undo()
    running.node = running.start()


@pytest.mark.parametrize("error", ERRORS, ids=lambda kind: kind.__name__)
def test_a_start_that_fails_ends_the_process_with_one(tmp_path, monkeypatch, error, logged):
    monkeypatch.setattr(Node, "start", refuse(error("odd")))
    config = BrokerConfig.load(None, {**QUICK, "log.dirs": str(tmp_path)})
    try:
        assert asyncio.run(main._serve(config, share_files(config, 4096), None, None)) == 1
    finally:
        gc.enable()
    (line,) = (one for one in logged.records if "cannot start" in one.getMessage())
    assert line.getMessage().startswith(f"cannot start: {error.__name__}")
    assert line.exc_info


def test_a_node_that_cannot_follow_the_metadata_leads_no_quorum_until_it_has_stopped(node_factory):
    """Its controller would decide by an image that its other parts do not have."""
    running = node_factory()
    node = running.node
    running.call(node.metadata.on_image, refuse(KeyError("topic")))
    running.call(node.controller.host.submit, lambda one: one.decide_no_op(), lambda *_: None)
    reason, exit_code = running.call(node.stop_requested)
    assert "cannot be followed: KeyError: 'topic'" in reason and exit_code == 1
    assert running.call(lambda: node.metadata.machine.role) is Role.FAILED
    assert running.call(lambda: node.controller.host.controller) is None
