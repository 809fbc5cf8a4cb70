"""AlterClientQuotas and DescribeClientQuotas with drawn entities, keys, values and filters."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

from .comparing import Ask, Settling, Side, Step, compare
from .drawing import INT32_MAX, INT64_MAX, often, own_name

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
VALUES = (
    *(1.0, 0.0, -0.0, -1.0, 0.5, 1.5, 1e-300, 1e19, 1e300, math.inf, -math.inf),
    *(float(INT32_MAX), float(INT32_MAX + 1), float(INT64_MAX), 2.0**53, 0.1 + 0.2),
)  # Not NaN, which is not equal to itself.
Parts = tuple[tuple[str, str | None], ...]


class Quotas:
    """Draws changes of the quotas of a few entities that no other history has, and what is set."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.user, self.client = own_name(rng, "user"), own_name(rng, "client")
        # An address that no test connects from.
        self.ip = ".".join(("10", *(str(rng.randint(1, 254)) for _ in range(3))))

    def entity(self) -> Parts:
        user, client = ("user", self.user), ("client-id", self.client)
        if self.rng.random() < 0.15:
            hostile: tuple[Parts, ...] = (
                (),
                (("user", ""),),
                (("topic", "t"),),
                (("", self.user),),
                (user, ("user", "other")),
                (user, ("ip", self.ip)),
                (("ip", "no such host"),),
                (("ip", ""),),
                (("User", self.user),),
            )
            return self.rng.choice(hostile)
        # The default of everything is not drawn: it would change how tests are served.
        return self.rng.choice(
            (
                (user,),
                (client,),
                (user, client),
                (client, user),
                (user, ("client-id", None)),
                (("user", None), client),
                (("ip", self.ip),),
            )
        )

    def op(self) -> OpData:
        key = often(self.rng, self.rng.choice(KEYS), ("", "nothing", "Producer_Byte_Rate"), 0.95)
        return OpData(
            key=key, value=self.rng.choice((1.0, *VALUES)), remove=self.rng.random() < 0.2
        )

    def alter(self) -> Step:
        entries = [
            EntryDataRequest(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                ops=[self.op() for _ in range(self.rng.choice((0, 1, 1, 1, 2)))],
            )
            for parts in self._distinct(self.rng.choice((0, 1, 1, 2)))
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=self.rng.random() < 0.2)
        version = self.rng.randint(0, 1)
        told = f"{request.validate_only} {entries!r}"
        return Ask("AlterClientQuotas", lambda _: request, version, told, only=entities_in_order)

    def _distinct(self, count: int) -> list[Parts]:
        found: dict[frozenset[Any], Parts] = {}
        for _ in range(count):
            parts = self.entity()
            found[frozenset(parts)] = parts
        return list(found.values())

    def describe(self) -> Step:
        rng = self.rng
        named = {"user": self.user, "client-id": self.client, "ip": self.ip}
        kinds = rng.sample(list(named), k=rng.choice((0, 1, 1, 2)))
        if rng.random() < 0.1:
            kinds += rng.choice((["user"], ["topic"], [""]))
        components = []
        for kind in kinds:
            match_type = often(rng, rng.choice((0, 0, 1, 2)), (3, -1), 0.95)
            name = named.get(kind, "t") if match_type == 0 else None
            match = often(rng, name, (None, "", self.user), 0.9)
            components.append(ComponentData(entity_type=kind, match_type=match_type, match=match))
        request = DescribeClientQuotasRequest(components=components, strict=rng.random() < 0.5)

        def own_entries(seen: dict) -> Any:
            """Those of this history: what others left matches, too."""
            own = set(named.values())
            rows = [
                (parts, sorted((one["key"], one["value"]) for one in entry["values"]))
                for entry in seen["entries"] or ()
                for parts in [entity_parts(entry)]
                if any(name in own for _, name in parts)
            ]
            return {
                "error_code": seen["error_code"],
                "is_null": seen["entries"] is None,
                "entries": sorted(rows, key=str),
            }

        told = f"{request.strict} {components!r}"
        # A broker applies the controller's records a moment after the change was answered.
        return Settling(
            "DescribeClientQuotas", lambda _: request, rng.randint(0, 1), told, only=own_entries
        )


def entity_parts(entry: dict) -> list[tuple[str, str | None]]:
    """An entity's parts, which have no order."""
    found = [(one["entity_type"], one["entity_name"]) for one in entry["entity"]]
    return sorted(found, key=str)


def entities_in_order(seen: dict) -> Any:
    rows = [(entity_parts(entry), entry["error_code"]) for entry in seen["entries"]]
    return {"entries": sorted(rows, key=str)}


def test_client_quotas(sides: Sequence[Side]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        quotas = Quotas(rng)
        kinds = (quotas.alter, quotas.alter, quotas.describe)
        return [rng.choice(kinds)() for _ in range(rng.randint(2, 12))]

    assert compare(sides, draw) > 0
