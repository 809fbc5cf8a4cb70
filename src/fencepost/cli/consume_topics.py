"""Which topics `fencepost consume` reads: those that are named, or those of a pattern."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from fencepost.cli.failures import UsageError

if TYPE_CHECKING:
    from fencepost.client.cluster import Cluster


def topics_of(cluster: Cluster, arguments: argparse.Namespace) -> list[str]:
    """The topics that the command line names, all of which exist. UsageError, UnknownTopic,
    ClientError if no topic matches."""
    from fencepost.client.errors import ClientError

    if arguments.include is None:
        names = list(dict.fromkeys(arguments.topics))
        for name in names:
            cluster.topic(name)
        return names
    found = matching_topics(cluster, arguments.include)
    if not found and (arguments.group is not None or not arguments.follow):
        raise ClientError(f"--include {arguments.include!r}: no topic has such a name")
    return found


def matching_topics(cluster: Cluster, include: str) -> list[str]:
    """The topics, but for internal ones, whose whole names match. UsageError."""
    from fencepost.client.admin import Admin

    try:
        pattern = re.compile(include)
    except re.error as error:
        raise UsageError(f"--include {include!r}: {error}") from None
    return [one.name for one in Admin(cluster).list_topics() if pattern.fullmatch(one.name)]
