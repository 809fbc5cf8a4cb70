"""Which of the topics that members subscribe to exist.

Members may name topics by the hundred thousand that no cluster has, and each heartbeat that changes
a subscription asks. So the smaller side is looked through, and only what is found is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.machines.image import ClusterImage, TopicImage


def found_topics(image: ClusterImage, names: Iterable[str]) -> list[TopicImage]:
    """The topics of these names that exist, each once, in the order of their names."""
    by_name, wanted = image.topics_by_name, set(names)
    if len(wanted) > len(by_name):
        found = [topic for name, topic in by_name.items() if name in wanted]
    else:
        found = [topic for name in wanted if (topic := by_name.get(name)) is not None]
    found.sort(key=lambda topic: topic.name)
    return found
