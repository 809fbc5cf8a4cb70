"""Topic names: which are allowed, and which are too alike."""

from __future__ import annotations

from fencepost.log.names import invalid_topic_reason
from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import ClusterImage
from fencepost.wire.errors import ErrorCode

METADATA_TOPIC = "__cluster_metadata"


def check_topic_name(name: str) -> None:
    """Refuse a name that Kafka does not allow, with INVALID_TOPIC_EXCEPTION."""
    reason = invalid_topic_reason(name)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def collides(name: str) -> bool:
    """Whether another name could be the same but for '.' and '_' (as names of metrics are)."""
    return "." in name or "_" in name


def metric_form(name: str) -> str:
    """The form in which two names collide if they are equal."""
    return name.replace(".", "_")


class CollidingNames:
    """The topics whose names another could collide with, kept up with an image as it changes.

    Looking for them in the image would take longer for every topic there is.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._names: dict[str, set[str]] = {}
        for name in image.topics_by_name:
            self._add(name)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """`new` is the image now; `old` was it until now."""
        for name, before, after in new.topics_by_name.changes_since(old.topics_by_name):
            if before is None:
                self._add(name)
            elif after is None and collides(name):
                alike = self._names[metric_form(name)]
                alike.discard(name)
                if not alike:
                    del self._names[metric_form(name)]

    def like(self, name: str) -> str | None:
        """A topic that a topic of this name would collide with; None if there is none."""
        return min(self._names.get(metric_form(name), ()), default=None)

    def _add(self, name: str) -> None:
        if collides(name):
            self._names.setdefault(metric_form(name), set()).add(name)
