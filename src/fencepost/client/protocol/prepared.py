"""`PreparedTxnState`: a transaction that is prepared for a two-phase commit (KIP-939), by name.

The application stores its text with what it changes elsewhere, in one transaction of the other
system, so that after a crash it can tell whether that was committed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_NONE: Final = -1
_PRODUCER_ID_MAX: Final = (1 << 63) - 1
_EPOCH_MAX: Final = (1 << 15) - 1


class PreparedTxnState(NamedTuple):
    """Producer id and epoch of a prepared transaction; without arguments of none. The text is
    that of Kafka's class of this name: "producer id:epoch", or "" for none."""

    producer_id: int = _NONE
    epoch: int = _NONE

    @property
    def has_transaction(self) -> bool:
        """Whether it is of a transaction."""
        return self.producer_id != _NONE

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.has_transaction else ""

    @classmethod
    def parse(cls, text: str) -> PreparedTxnState:
        """The state that `str` wrote. ValueError."""
        if not text:
            return cls()
        producer_id, colon, epoch = text.partition(":")
        try:
            state = cls(int(producer_id), int(epoch))
        except ValueError:
            colon = ""
        if not colon or not (
            0 <= state.producer_id <= _PRODUCER_ID_MAX and 0 <= state.epoch <= _EPOCH_MAX
        ):
            raise ValueError(f"{text!r} is not PRODUCER_ID:EPOCH of a prepared transaction")
        return state
