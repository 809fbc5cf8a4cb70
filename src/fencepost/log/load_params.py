"""What is known of a log before it is opened, and how it is to be opened."""

from __future__ import annotations

from msgspec import Struct

from fencepost.log.loaded import OFFSET_MAX
from fencepost.log.producers import PRODUCER_ID_EXPIRATION_MS
from fencepost.wire.types import Uuid


class LoadLogParams(Struct, frozen=True, kw_only=True):
    """What `PartitionLog.open` goes by besides the files.

    Without anything but the time it is a log that nothing is written down about: one that is new,
    or that is read through from its beginning.
    """

    wall_ms: int
    """Milliseconds since the Unix epoch, now."""
    topic_id: Uuid | None = None
    """The topic that the log has to belong to; None for whichever it does."""
    recovery_point: int = 0
    """As checkpointed: everything below was durable."""
    start_offset: int = 0
    """As checkpointed: where the log starts."""
    high_watermark: int | None = None
    """As checkpointed; None for who reads no committed data."""
    cleaned_offset: int = 0
    """As checkpointed: everything below was compacted."""
    clean_shutdown: bool = False
    """Whether the log was closed in order, so that its files are trusted."""
    is_name_durable: bool = False
    """Whether nothing need be done for the directory's own name to survive."""
    is_gapless: bool = False
    """Whether every batch must begin where the one before it ends; other logs may be compacted."""
    accept_loss: bool = False
    """Whether the log is opened without records that had been durable, if they are gone."""
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    """Producers that have written nothing for so long are forgotten."""

    @property
    def gaps_below(self) -> int:
        """See `LoadedLog.gaps_below`."""
        return OFFSET_MAX if self.accept_loss else self.cleaned_offset
