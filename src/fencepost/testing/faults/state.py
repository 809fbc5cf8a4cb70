"""`FaultState`: what all gates of a cluster share; it belongs to the thread that they run in."""

from __future__ import annotations

from dataclasses import dataclass, field

from fencepost.testing.faults.addresses import AddressRewriter
from fencepost.testing.faults.links import Links
from fencepost.testing.faults.rules import Rules
from fencepost.testing.faults.topics import TEACHING, TopicIds
from fencepost.wire.message import Message


@dataclass(slots=True)
class FaultState:
    """The faults in force, the cuts, and what is known of the cluster."""

    rules: Rules = field(default_factory=Rules)
    links: Links = field(default_factory=Links)
    topic_ids: TopicIds = field(default_factory=TopicIds)
    rewriter: AddressRewriter | None = None
    """Sends clients back through gates, in front of a cluster that does not know of them."""

    def edits(self, api_key: int, version: int) -> bool:
        """Whether answers of this API are to be shown to `edit`."""
        rewriter = self.rewriter
        return api_key in TEACHING or (rewriter is not None and rewriter.wants(api_key, version))

    def edit(self, answer: Message) -> bool:
        """Learn from an answer, and change it; whether it was changed."""
        if answer.api_key in TEACHING:
            self.topic_ids.learn(answer)
        return self.rewriter is not None and self.rewriter.rewrite(answer)
