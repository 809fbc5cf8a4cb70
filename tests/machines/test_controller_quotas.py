"""AlterClientQuotas: every check, and the records that are left when none refuses."""

from __future__ import annotations

import math
from typing import cast

import pytest

from fencepost.machines.controller import Controller
from fencepost.machines.controller.config import ControllerConfig
from fencepost.machines.controller.quotas import decide_quotas
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.records.metadata import ClientQuotaRecord

from .controller_fixtures import CLUSTER_ID

Entity = tuple[tuple[str, str | None], ...]
USER: Entity = (("user", "u"),)
IP: Entity = (("ip", "10.0.0.1"),)


def entry(entity: Entity, *ops: tuple[str, float | None]) -> EntryDataRequest:
    return EntryDataRequest(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def decide(
    *entries: EntryDataRequest, image: ClusterImage | None = None
) -> tuple[list[tuple[int, str | None]], list[tuple[str, float, bool]], ClusterImage]:
    """(code, message) of each entity; (key, value, remove) of each record; the image after them."""
    image = image or ClusterImage()
    results, records = decide_quotas(image, AlterClientQuotasRequest(entries=list(entries)))
    told = [(one.key, one.value, one.remove) for one in cast(list[ClientQuotaRecord], records)]
    errors = [(one.error_code, one.error_message) for one in results]
    return errors, told, apply_records(image, records)


def test_values_are_set_kept_changed_and_removed() -> None:
    errors, records, image = decide(
        entry(USER, ("producer_byte_rate", 5.0), ("request_percentage", 0.25))
    )
    assert errors == [(0, None)] and len(records) == 2
    assert image.quotas == {USER: {"producer_byte_rate": 5.0, "request_percentage": 0.25}}
    same = entry(USER, ("producer_byte_rate", 5.0), ("consumer_byte_rate", None))
    assert decide(same, image=image)[:2] == ([(0, None)], [])
    other = entry(USER, ("producer_byte_rate", 6.0), ("request_percentage", None))
    errors, records, after = decide(other, image=image)
    assert records == [("producer_byte_rate", 6.0, False), ("request_percentage", 0.0, True)]
    assert after.quotas == {USER: {"producer_byte_rate": 6.0}}
    gone = decide(entry(USER, ("producer_byte_rate", None)), image=after)[2]
    assert not gone.quotas


@pytest.mark.parametrize(
    ("entity", "ops", "message"),
    [
        ((), [("producer_byte_rate", 1.0)], "Invalid empty client quota entity"),
        ((("topic", "t"),), [], "Unhandled client quota entity type: topic"),
        ((("user", ""),), [], "Empty user not supported"),
        ((("client-id", ""), ("user", None)), [], "Empty client-id not supported"),
        (
            (("ip", None), ("user", "u")),
            [],
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId",
        ),
        ((("ip", "host.example"),), [], "host.example is not a valid IP or resolvable host."),
        (USER, [("connection_creation_rate", 1.0)], "Invalid configuration key "
         "connection_creation_rate"),
        (IP, [("producer_byte_rate", 1.0)], "Invalid configuration key producer_byte_rate"),
        (USER, [("nothing", 1.0)], "Invalid configuration key nothing"),
        (USER, [("producer_byte_rate", -0.0)], None),
        (USER, [("producer_byte_rate", -1.0)], "Quota producer_byte_rate must be greater than 0"),
        *(
            (USER, [("controller_mutation_rate", value)], "Quota controller_mutation_rate must be"
             " a finite number")
            for value in (math.nan, math.inf, -math.inf)
        ),
        (USER, [("consumer_byte_rate", 1.5)], "consumer_byte_rate cannot be a fractional value."),
        (USER, [("consumer_byte_rate", 1e19)], "Proposed value for consumer_byte_rate is too large"
         " for a LONG."),
        (IP, [("connection_creation_rate", 2.0**31)], "Proposed value for connection_creation_rate"
         " is too large for an INT."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    entity: Entity, ops: list[tuple[str, float]], message: str | None
) -> None:
    fine = entry((("client-id", "c"),), ("producer_byte_rate", 7.0))
    asked = entry(entity, ("request_percentage", 3.0), *ops) if entity == USER else entry(entity)
    asked.ops += [] if entity == USER else entry(entity, *ops).ops
    if message is None:  # 0.0 stands for a removal in `entry`
        asked.ops = [OpData(key="producer_byte_rate", value=-0.0, remove=False)]
        message = "Quota producer_byte_rate must be greater than 0"
    errors, records, _ = decide(asked, fine)
    assert errors == [(42, message), (0, None)]
    assert records == [("producer_byte_rate", 7.0, False)], "nothing of the entity, all others"


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((("user", None), ("client-id", None)), "controller_mutation_rate", 0.001),
        ((("ip", None),), "connection_creation_rate", 2.0**31 - 1),
        ((("ip", "::1"),), "connection_creation_rate", 1.0),
        (USER, "producer_byte_rate", 5.000_000_1),
        (USER, "request_percentage", 1e300),
    ],
)
def test_what_is_allowed_at_the_edge(entity: Entity, key: str, value: float) -> None:
    errors, records, _ = decide(entry(entity, (key, value)))
    assert errors == [(0, None)] and records == [(key, value, False)]


def test_what_is_named_twice_is_refused_and_the_first_takes_effect() -> None:
    both: Entity = (("user", "u"), ("client-id", None))
    first, second = entry(both, ("producer_byte_rate", 1.0)), entry(both[::-1])
    errors, records, _ = decide(first, second)
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=u})"
    assert errors == [(42, text)]
    assert records == [("producer_byte_rate", 1.0, False)]
    twice = entry(USER, ("producer_byte_rate", 1.0), ("producer_byte_rate", None))
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert decide(twice)[:2] == ([(42, text)], [])


def test_of_a_type_named_twice_the_last_name_counts() -> None:
    image = decide(entry((("user", "a"), ("user", "b")), ("producer_byte_rate", 1.0)))[2]
    assert list(image.quotas) == [(("user", "b"),)]


def test_what_is_only_checked_makes_no_records() -> None:
    controller = Controller(ClusterImage(), ControllerConfig(CLUSTER_ID), 0)
    request = AlterClientQuotasRequest(
        entries=[entry(USER, ("producer_byte_rate", 1.0))], validate_only=True
    )
    decision = controller.security.decide_alter_client_quotas(request)
    assert decision.records == [] and decision.reply.entries[0].error_code == 0
    request.validate_only = False
    assert len(controller.security.decide_alter_client_quotas(request).records) == 1


def test_a_request_comes_to_a_limited_number_of_records() -> None:
    many = [
        entry((("client-id", f"c{number}"),), ("producer_byte_rate", 5.0))
        for number in range(10_001)
    ]
    errors, records, image = decide(*many)
    assert set(errors) == {(44, "Request parameters do not satisfy the configured policy.")}
    assert len(errors) == 10_001 and not records and not image.quotas
    errors, records, _ = decide(*many[1:])
    assert set(errors) == {(0, None)} and len(records) == 10_000
