"""What a broker's requests leave out for controllers of older versions."""

from __future__ import annotations

import pytest

from fencepost.machines.broker.requests import for_version
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.types import Uuid


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_heartbeat_names_cordoned_directories_where_that_can_be_said(version: int) -> None:
    cordoned = [Uuid(bytes(15) + b"\x77")]
    request = BrokerHeartbeatRequest(broker_id=1, cordoned_log_dirs=cordoned)
    fitted = for_version(request, version)
    read = BrokerHeartbeatRequest.decode(bytes(fitted.encode(version)), version)
    assert read.cordoned_log_dirs == (cordoned if version >= 2 else None)
    assert request.cordoned_log_dirs == cordoned, "for the next controller"
