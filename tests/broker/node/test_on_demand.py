"""Parts that are made when they are first asked for, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.node.fetchers_on_demand import FetchersOnDemand
from fencepost.broker.node.on_demand import ClosableOnDemand, OnDemand, PartsOnDemand
from fencepost.broker.node.verification_on_demand import VerificationOnDemand
from fencepost.runtime.claims import Claim
from fencepost.runtime.requests.parts import MissingPartError
from fencepost.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.list_offsets import ListOffsetsRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.message import Message


def test_a_part_is_made_once_and_late():
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    part = OnDemand(make)
    assert part.made is None and not made
    assert part.get() is part.get() is part.made
    assert len(made) == 1


def test_a_part_is_closed_once_whenever_it_is_made():
    closed: list[str] = []

    def part(name: str) -> Any:
        return ClosableOnDemand(lambda: SimpleNamespace(close=lambda: closed.append(name)))

    early, late, never = part("early"), part("late"), part("never")
    early.get()
    for one in (early, late, never):
        one.close()
    assert closed == ["early"]
    assert late.get() is late.get() and early.get() is early.made
    assert closed == ["early", "late"] and never.made is None


class Early:
    """A part that is there from the start."""


class Late:
    """A part that is made on demand."""


class Later:
    """Another one."""


def test_a_handler_is_given_the_part_it_asks_for_and_no_other_is_made():
    made: list[object] = []

    def maker(kind: type) -> Any:
        return lambda: made.append(kind()) or made[-1]

    early = Early()
    parts = PartsOnDemand({Early: early}, {"Late": maker(Late), "Later": maker(Later)})
    assert all(kind in parts for kind in (Early, Late, Later)) and str not in parts
    assert parts[Early] is early and not made
    late = parts[Late]
    assert isinstance(late, Late) and parts[Late] is late and made == [late]


def test_a_part_may_be_of_a_kind_of_what_is_asked_for():
    class Latest(Late):
        """It stands in for that."""

    assert type(PartsOnDemand({}, {"Late": Latest})[Late]) is Latest


def test_a_maker_of_another_part_is_told_of():
    parts = PartsOnDemand({}, {"Late": Later})
    with pytest.raises(MissingPartError, match=r"Late.* makes .*Later"):
        parts[Late]


@pytest.mark.parametrize(
    ("request_class", "made"),
    [
        (AlterReplicaLogDirsRequest, {"moves"}),
        (FetchRequest, {"fetch serving", "cold reads"}),
        (FindCoordinatorRequest, {"coordinators", "cold reads"}),
        (ListOffsetsRequest, {"cold reads"}),
        (MetadataRequest, set()),
    ],
)
def test_the_first_request_of_an_api_makes_what_that_needs_alone(
    node_factory: Any, request_class: type[Message], made: set[str]
):
    broker = node_factory().node.broker
    parts = {
        "cold reads": broker._cold_reads,
        "coordinators": broker._coordinators,
        "fetch serving": broker._fetch_serving,
        "moves": broker._moves,
    }
    assert broker.listener.routes[request_class.api_key]
    assert {name for name, part in parts.items() if part.made is not None} == made


class Fetchers:
    """What `FetchersOnDemand` tells its fetchers."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []
        self.of_partitions = SimpleNamespace(
            looked_at=lambda hosted: self.heard.append(("looked_at", hosted)),
            gone=lambda hosted: self.heard.append(("gone", hosted)),
        )

    def broken(self, key: object, reason: str) -> bool:
        self.heard.append(("broken", key))
        return True

    def close(self) -> None:
        self.heard.append(("close", None))


def hosted(is_following: bool) -> Any:
    return SimpleNamespace(machine=SimpleNamespace(is_following=is_following))


def test_fetchers_are_made_by_the_first_partition_that_follows():
    made: list[Any] = []
    on_demand = FetchersOnDemand(lambda: made.append(Fetchers()) or made[-1])
    leading, following = hosted(False), hosted(True)
    on_demand.looked_at(leading)
    on_demand.gone(leading)
    assert not on_demand.broken("key", "why") and not made
    on_demand.looked_at(following)
    on_demand.looked_at(leading)  # it may have followed before
    on_demand.gone(following)
    assert on_demand.broken("key", "why")
    on_demand.close()
    (fetchers,) = made
    assert [what for what, _ in fetchers.heard] == [
        *("looked_at", "looked_at", "gone", "broken", "close")
    ]


def test_fetchers_that_are_made_late_are_closed():
    on_demand: Any = FetchersOnDemand(Fetchers)  # type: ignore[arg-type]
    on_demand.close()
    assert on_demand.get().heard == [("close", None)]


@pytest.mark.parametrize("answer", [True, False])
def test_nobody_is_being_asked_before_somebody_was(answer: bool):
    claims: list[Claim] = []
    verifier = SimpleNamespace(
        is_asking=lambda claim: answer, ask=lambda claim, on_outcome: claims.append(claim)
    )
    part: Any = VerificationOnDemand(lambda: SimpleNamespace(verifier=verifier))  # type: ignore
    claim = Claim("t", 1, 0, True)
    assert not part.is_asking(claim) and part.made is None
    part.ask(claim, lambda outcome: None)
    assert claims == [claim] and part.is_asking(claim) is answer
