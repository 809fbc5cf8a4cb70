"""Where a secured cluster keeps what clients need, and how the super user logs in by it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fencepost.client.config import ClientConfig
from fencepost.client.security import Security
from fencepost.log.properties import decode_properties

ADMIN: Final = "admin"
"""The super user."""
CLIENT_LISTENER: Final = "CLIENTS"
"""The name of a secured cluster's listener for clients."""
DIRECTORY: Final = "security"
"""Beside the directories of the nodes."""


def security_in(directory: Path) -> Security:
    """The super user's login to the cluster in that directory; none if it is not secured."""
    path = directory / DIRECTORY / f"{ADMIN}.properties"
    if not path.exists():
        return Security()
    entries = decode_properties(str(path), path.read_bytes())
    return ClientConfig.from_props(entries).security
