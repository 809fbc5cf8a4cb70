"""How large a registration may be: it stays in the metadata log and in every node's image.

Nodes say a few names of themselves. Without a bound one request of a stranger could put a record of
a hundred megabytes on the disks, and into the memory, of the whole cluster.
"""

from __future__ import annotations

from typing import Final

from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest

LISTENERS_MAX: Final = 100
FEATURES_MAX: Final = 1_000
DIRECTORIES_MAX: Final = 1_000
NAME_LETTERS_MAX: Final = 255
"""Of listeners, hosts, features and racks; a host name of the internet has no more."""


def reason_it_is_too_large(
    request: BrokerRegistrationRequest | ControllerRegistrationRequest,
) -> str | None:
    """What there is too much of in a registration; None if nothing is."""
    if len(request.listeners) > LISTENERS_MAX:
        return f"{len(request.listeners)} listeners are more than {LISTENERS_MAX}"
    if len(request.features) > FEATURES_MAX:
        return f"{len(request.features)} features are more than {FEATURES_MAX}"
    names = [name for one in request.listeners for name in (one.name, one.host)]
    names += [one.name for one in request.features]
    if isinstance(request, BrokerRegistrationRequest):
        if len(request.log_dirs) > DIRECTORIES_MAX:
            return f"{len(request.log_dirs)} log directories are more than {DIRECTORIES_MAX}"
        names.append(request.rack or "")
    longest = max(map(len, names), default=0)
    if longest > NAME_LETTERS_MAX:
        return f"a name of {longest} letters is longer than {NAME_LETTERS_MAX}"
    return None
