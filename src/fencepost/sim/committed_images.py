"""The images of the cluster behind each committed batch of the metadata, for checks of brokers.

A high watermark may pass several batches at once, and a node then makes one image of them all. A
broker that was unfenced by the first of them and fenced again by the last was unfenced all the
same: the difference between the node's two images does not say so, the images between them do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencepost.batch.header import read_header
from fencepost.machines.effects import Buffer
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.runtime.metadata.replay import batch_records
from fencepost.sim.oracle import Entry


class CommittedImages:
    """Keeps the batches that nodes have appended until they are committed. It reads no disk: a
    read is an operation that a fault may fail, and counts as one of the node's."""

    def __init__(self) -> None:
        self.newest = ClusterImage()
        """The image behind everything that a node has known to be committed."""
        self._batches: dict[Entry, bytes] = {}

    def appended(self, entry: Entry, data: Buffer) -> None:
        """A node has appended a batch of the metadata."""
        if entry.base_offset > self.newest.offset and entry not in self._batches:
            self._batches[entry] = bytes(data)

    def advance(self, image: ClusterImage, entries: Iterable[Entry]) -> Iterator[ClusterImage]:
        """The images behind each of `entries`, and `image`; `newest` is each of them in turn.

        `entries` are the batches between `newest` and the batch that `image` ends with, in the log
        of the node whose image it is. Those that a snapshot has replaced there have no images.
        """
        for entry in entries:
            data = self._batches.get(entry)
            if data is None or entry.base_offset != self.newest.offset + 1:
                break
            self.newest = _behind(self.newest, entry, data)
            yield self.newest
        self.newest = image
        self._batches = {
            entry: data for entry, data in self._batches.items() if entry.base_offset > image.offset
        }
        yield image


def _behind(image: ClusterImage, entry: Entry, data: bytes) -> ClusterImage:
    header = read_header(data)
    records = () if header.is_control else batch_records(header, data)
    return apply_records(image, records, entry.next_offset - 1, entry.epoch)
