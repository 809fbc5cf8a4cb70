"""How a broker serves Produce: from the bytes where it can, else `runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.apis.produce_from_bytes import produce_from_bytes
from fencepost.broker.apis.produce_in_blocks import produce_in_blocks
from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.produce import produce
from fencepost.wire.api.produce import ProduceRequest

MAX_TOPICS_AND_PARTITIONS = 20_000

handles(
    ProduceRequest,
    max_elements=MAX_TOPICS_AND_PARTITIONS,
    take_bytes=produce_from_bytes,
    run_taker=produce_in_blocks,
    is_opaque=True,
    is_collected=True,
)(produce)
