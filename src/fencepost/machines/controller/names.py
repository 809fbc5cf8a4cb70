"""Topic names: which are allowed, and which are too alike."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.log.names import TOPIC_NAME_MAX, is_valid_topic
from fencepost.machines.controller.decision import Refused
from fencepost.wire.errors import ErrorCode

METADATA_TOPIC = "__cluster_metadata"


def check_topic_name(name: str) -> None:
    """Refuse a name that Kafka does not allow, with INVALID_TOPIC_EXCEPTION."""
    if is_valid_topic(name):
        return
    if not name:
        flaw = "it is empty"
    elif name in (".", ".."):
        flaw = f"{name!r} is reserved"
    elif len(name) > TOPIC_NAME_MAX:
        flaw = f"it has {len(name)} characters, the most is {TOPIC_NAME_MAX}"
    else:
        flaw = f"{name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"not a topic name: {flaw}")


def collides(name: str) -> bool:
    """Whether another name could be the same but for '.' and '_' (as names of metrics are)."""
    return "." in name or "_" in name


def metric_form(name: str) -> str:
    """The form in which two names collide if they are equal."""
    return name.replace(".", "_")


def metric_forms(names: Iterable[str]) -> dict[str, str]:
    """The names that may collide, by the form in which they do."""
    return {metric_form(name): name for name in names if collides(name)}
