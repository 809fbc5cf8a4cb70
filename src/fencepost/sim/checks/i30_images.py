"""I30: every node's image of the cluster is the replay of a prefix of the one committed log.

So two images of one offset are equal, whether records made them or a snapshot did (I27), and an
image's offset never falls in one incarnation of a node.
"""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation

KEPT = 256
"""Offsets whose images are kept for comparison; older ones are forgotten."""


class Images(Check):
    """The first image that any node has of an offset is what all others are compared with.

    An image shares the parts that did not change with the one before it. So of two images only
    those parts are compared that are not the ones that were found equal the last time.
    """

    kind = "I30"

    def __init__(self) -> None:
        self._images: dict[int, Any] = {}
        self._offsets: dict[int, int] = {}
        self._agreed: dict[int, tuple[Any, Any]] = {}

    def recovered(self, oracle: Oracle, node_id: int, found: list[Any], start_offset: int) -> None:
        self._offsets.pop(node_id, None)

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        seen = self._offsets.get(view.node_id, -1)
        if seen >= view.high_watermark and not oracle.disks[view.node_id].is_damaged:
            raise Violation(
                self.kind,
                f"{view.node_id} shows offset {seen}, and knows {view.high_watermark} as committed",
            )

    def image_moved(self, oracle: Oracle, node_id: int, image: Any) -> None:
        before = self._offsets.get(node_id, -1)
        if image.offset < before:
            raise Violation(
                self.kind, f"the image of {node_id} falls from {before} to {image.offset}"
            )
        self._offsets[node_id] = image.offset
        known = self._images.setdefault(image.offset, image)
        if known is not image and not self._agree(node_id, image, known):
            raise Violation(self.kind, f"{node_id} has another image of {image.offset} than others")
        if len(self._images) > KEPT:
            del self._images[next(iter(self._images))]

    def _agree(self, node_id: int, image: Any, known: Any) -> bool:
        mine, theirs = self._agreed.get(node_id, (None, None))
        self._agreed[node_id] = image, known
        for name in image.__struct_fields__:
            part, other = getattr(image, name), getattr(known, name)
            is_known = part is getattr(mine, name, part) and other is getattr(theirs, name, other)
            if part is not other and not (mine is not None and is_known) and part != other:
                return False
        return True


CHECK = Images
