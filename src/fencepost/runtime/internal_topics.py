"""The topics that belong to the brokers, by name: a start needs no more of their coordinators."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Where the coordinators of groups keep what they know (`runtime.groups`)."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""Where the coordinators of transactions do (`runtime.transactions`)."""
SHARE_STATE_TOPIC: Final = "__share_group_state"
"""Where share coordinators keep the state of share partitions (`runtime.share_states`)."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""All of them; clients may read but not write or trim them."""
