"""What a broker serves as Fetch; `runtime.requests.fetch` decides, unless bytes suffice."""

from __future__ import annotations

from fencepost.broker.apis.fetch_from_bytes import fetch_from_bytes
from fencepost.broker.apis.fetch_in_runs import fetch_in_runs
from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.fetch import fetch
from fencepost.wire.api.fetch import FetchRequest

handles(FetchRequest, in_pieces=True, take_bytes=fetch_from_bytes, run_taker=fetch_in_runs)(fetch)
