"""One module per API: the handler, and in its header the versions it serves.

APIs of groups, transactions and offsets are decided in `fencepost.runtime.requests`, which the
simulator runs as well; here `groups`, `group_administration`, `transactions` and `offsets` register
them. A module registers its handlers when it is loaded, for the rows of `broker.net.served` that
name it; a node loads it when the first request arrives. `load_all` loads them all.
"""

from __future__ import annotations

import importlib

from fencepost.broker.net.served import SERVED


def load_all() -> None:
    """Register every handler there is."""
    for row in SERVED:
        importlib.import_module(f"{__name__}.{row.module}")
