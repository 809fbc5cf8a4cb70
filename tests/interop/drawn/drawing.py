"""Values as hostile as a client may send: around every limit, negative, largest, and plain ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
T = TypeVar("T")


def near(rng: random.Random, *limits: int, spread: int = 2) -> int:
    """One of the limits, or a value a little beside it."""
    return rng.choice(limits) + rng.randint(-spread, spread)


def int32(rng: random.Random, *limits: int) -> int:
    """A value of 32 bits, often beside one of the limits."""
    if limits and rng.random() < 0.7:
        return max(-INT32_MAX - 1, min(INT32_MAX, near(rng, *limits)))
    return rng.choice((-INT32_MAX - 1, -2, -1, 0, 1, INT32_MAX - 1, INT32_MAX))


def int64(rng: random.Random, *limits: int) -> int:
    """A value of 64 bits, often beside one of the limits."""
    if limits and rng.random() < 0.7:
        return max(-INT64_MAX - 1, min(INT64_MAX, near(rng, *limits)))
    return rng.choice((-INT64_MAX - 1, -6, -5, -4, -3, -2, -1, 0, 1, INT64_MAX))


def often(rng: random.Random, usual: T, others: Sequence[T], share: float = 0.8) -> T:
    """The usual value, and sometimes another one."""
    return usual if rng.random() < share else rng.choice(others)


def own_name(rng: random.Random, kind: str) -> str:
    """A name that no other history uses, and this one whenever it is drawn."""
    return f"{kind}-{rng.getrandbits(48):012x}"


def name(rng: random.Random) -> str:
    """A topic's name, legal or not, at most as long as the wire allows to be interesting."""
    letters = rng.choice(("ab.-_", "aZ09", "a b", "aé", "a/b", "a\0b", "."))
    length = rng.choice((0, 1, 2, 3, 8, 248, 249, 250, 300))
    return "".join(rng.choice(letters) for _ in range(length))
