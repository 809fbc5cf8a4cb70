"""Which quota a client has, of those that are set for users and client ids (KIP-55).

| level | set for                     | whose budget it is        |
|-------|-----------------------------|---------------------------|
| 1     | the user and the client id  | the user's with client id |
| 2     | the user, any client id     | the user's with client id |
| 3     | the user                    | the user's                |
| 4     | any user, the client id     | the user's with client id |
| 5     | any user, any client id     | the user's with client id |
| 6     | any user                    | the user's                |
| 7     | the client id               | the client id's           |
| 8     | any client id               | the client id's           |

The first that is there counts, of the quotas with one key. A client without id has no quota that is
set for any client id.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from typing import Final, NamedTuple

from fencepost.machines.image.quotas import CLIENT_ID, USER, QuotaEntity, Quotas

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class Budget(NamedTuple):
    """What uses up one quota together; '' stands for any user, or any client id."""

    user: str
    client_id: str


class Limits:
    """The quotas with one key."""

    __slots__ = ("_found", "_values")

    CACHED_MAX: Final = 1_024
    """How many clients' quotas are remembered."""

    def __init__(self, values: Mapping[QuotaEntity, float]) -> None:
        self._values = dict(values)
        self._found: dict[tuple[str, str], tuple[Budget, float] | None] = {}

    @classmethod
    def of(cls, quotas: Quotas, key: str) -> Limits:
        """Those of the image that have the key."""
        return cls({entity: own[key] for entity, own in quotas.items() if key in own})

    def __bool__(self) -> bool:
        return bool(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def find(self, user: str, client_id: str) -> tuple[Budget, float] | None:
        """The client's budget and its limit; None if the client has none."""
        client = user, client_id
        try:
            return self._found[client]
        except KeyError:
            if len(self._found) >= self.CACHED_MAX:
                self._found.clear()
            found = self._found[client] = self._find(user, client_id)
            return found

    def _find(self, user: str, client_id: str) -> tuple[Budget, float] | None:
        budget = self._budget(user, client_id)
        limit = self.limit_of(budget)
        return None if limit is None or isinf(limit) else (budget, limit)

    def _budget(self, user: str, client_id: str) -> Budget:
        for name in (user, None):
            if any(both(name, one) in self._values for one in (client_id, None)):
                return Budget(user, client_id)
            if ((USER, name),) in self._values:
                return Budget(user, "")
        return Budget("", client_id)

    def limit_of(self, budget: Budget) -> float | None:
        """The limit that is in force for a budget."""
        user, client_id = budget
        wanted: list[QuotaEntity]
        if user and client_id:
            wanted = [both(one, other) for one in (user, None) for other in (client_id, None)]
        elif user:
            wanted = [((USER, user),), ((USER, None),)]
        else:
            wanted = [((CLIENT_ID, client_id),), ((CLIENT_ID, None),)] if client_id else []
        return next((self._values[one] for one in wanted if one in self._values), None)


def both(user: str | None, client_id: str | None) -> QuotaEntity:
    """The entity of a user with a client id, None for any."""
    return ((CLIENT_ID, client_id), (USER, user))
