"""Parts that are made when they are first asked for, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.cluster.encoded_topics import EncodedTopics
from fencepost.broker.node.late_parts import MAKERS, HandlerParts, LateParts, late
from fencepost.runtime.claims import Claim
from fencepost.runtime.log_dir_moves import LogDirMoves
from fencepost.runtime.requests.parts import MissingPartError
from fencepost.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.list_offsets import ListOffsetsRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.message import Message

NAMES = [name for name, part in vars(LateParts).items() if isinstance(part, late)]
COORDINATORS = {"coordinators", "groups", "transactions"}
FETCHES = {"fetch_serving", "fetch_host", "fetch_policy"}


def parts_with(name: str, part: object) -> LateParts:
    """Late parts of no broker, one of which is there."""
    late: Any = LateParts(None, None)  # type: ignore[arg-type]
    late.__dict__[name] = part
    parts: LateParts = late
    return parts


class Closing:
    """A part that counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class Table(LateParts):
    """Late parts of a kind of their own."""

    made = 0

    @late
    def part(self) -> Closing:
        self.made += 1
        return Closing()


def table() -> Table:
    return Table(None, None)  # type: ignore[arg-type]


def test_a_part_is_made_once_and_late():
    parts = table()
    assert not parts.is_made("part") and not parts.made
    assert parts.part is parts.part and parts.is_made("part")
    assert parts.made == 1


def test_a_part_is_closed_once_whenever_it_is_made():
    early, later, never = table(), table(), table()
    assert early.part.closed == 0
    for parts in (early, later, never):
        parts.close("part")
        parts.close("part")
    assert early.part.closed == 1
    assert Table.part.__get__(later).closed == 1
    assert Table.part.__get__(later).closed == 1
    assert never.made == 0


def test_a_handler_is_given_the_part_it_asks_for_and_no_other_is_made():
    class Early:
        """A part that is there from the start."""

    early, late_parts = Early(), LateParts(None, None)  # type: ignore[arg-type]
    parts = HandlerParts({Early: early}, late_parts)
    assert all(kind in parts for kind in (Early, EncodedTopics, LogDirMoves)) and str not in parts
    assert parts[Early] is early
    topics = parts[EncodedTopics]
    assert isinstance(topics, EncodedTopics) and parts[EncodedTopics] is topics
    assert [name for name in vars(late_parts) if late_parts.is_made(name)][-1] == "encoded_topics"
    assert not late_parts.is_made("moves")


def test_a_part_of_another_class_is_refused():
    moves = parts_with("moves", object())
    with pytest.raises(MissingPartError, match=r"LogDirMoves.* makes .*object"):
        HandlerParts({}, moves)[LogDirMoves]


def test_every_maker_says_what_it_makes():
    assert len(MAKERS) == sum(isinstance(part, late) for part in vars(LateParts).values())
    assert all(name.isidentifier() for name in MAKERS)


@pytest.mark.parametrize(
    ("request_class", "made"),
    [
        (AlterReplicaLogDirsRequest, {"moves"}),
        (
            FetchRequest,
            {*FETCHES, "cached_reads", "cold_reads"},
        ),
        (FindCoordinatorRequest, {*COORDINATORS, "share_states", "cold_reads", "channel"}),
        (ListOffsetsRequest, {"cold_reads", "log_reads"}),
        (MetadataRequest, {"encoded_topics"}),
    ],
)
def test_the_first_request_of_an_api_makes_what_that_needs_alone(
    node_factory: Any, request_class: type[Message], made: set[str]
):
    broker = node_factory().node.broker
    before = {name for name in NAMES if broker.late.is_made(name)}
    assert broker.listener.routes[request_class.api_key]
    assert {name for name in NAMES if broker.late.is_made(name)} - before == made
    assert not before


class Fetchers:
    """What `LateParts` tells its fetchers."""

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


class WithFetchers(LateParts):
    """Late parts of which the fetchers count what they hear."""

    @late
    def fetchers(self) -> Any:
        return Fetchers()


def test_fetchers_are_made_by_the_first_partition_that_follows():
    parts = WithFetchers(None, None)  # type: ignore[arg-type]
    leading, following = hosted(False), hosted(True)
    parts.looked_at(leading)
    parts.gone(leading)
    assert not parts.broken("key", "why") and not parts.is_made("fetchers")
    parts.looked_at(following)
    parts.looked_at(leading)  # it may have followed before
    parts.gone(following)
    assert parts.broken("key", "why")
    parts.close("fetchers")
    assert [what for what, _ in parts.fetchers.heard] == [
        *("looked_at", "looked_at", "gone", "broken", "close")
    ]


def test_fetchers_that_are_made_late_are_closed():
    parts = WithFetchers(None, None)  # type: ignore[arg-type]
    parts.close("fetchers")
    assert parts.fetchers.heard == [("close", None)]


@pytest.mark.parametrize("answer", [True, False])
def test_no_producer_is_asked_about_before_the_first(answer: bool):
    claims: list[Claim] = []
    verifier = SimpleNamespace(
        is_asking=lambda claim: answer, ask=lambda claim, on_outcome: claims.append(claim)
    )
    claim = Claim("t", 1, 0, True)
    assert not LateParts(None, None).is_asking(claim)  # type: ignore[arg-type]
    parts = parts_with("verification", SimpleNamespace(verifier=verifier))
    parts.ask(claim, lambda outcome: None)
    assert claims == [claim] and parts.is_asking(claim) is answer
