"""A node that has much to catch up with: a piece at a time, each the image of a prefix."""

from __future__ import annotations

import pytest

from fencepost.batch.records import build_batch
from fencepost.runtime.metadata import host as metadata
from fencepost.wire.records.metadata import encode_record

from .metadata_follower import EPOCH, Follower
from .metadata_world import MetadataWorld, topic_records

TOPICS = 40


def batches() -> list[bytes]:
    """A topic each."""
    made = []
    for number in range(TOPICS):
        records = topic_records(number)
        made.append(
            bytes(
                build_batch(
                    [(None, encode_record(record)) for record in records],
                    base_offset=number * len(records),
                    leader_epoch=EPOCH,
                )
            )
        )
    return made


def test_a_follower_gives_others_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = batches()
    monkeypatch.setattr(metadata, "PIECE_BYTES", 3 * len(made[0]))
    follower = Follower()
    world = follower.world
    follower.commit(made, 2 * TOPICS)
    assert follower.machine.high_watermark == 2 * TOPICS
    assert world.topics_in_image == 3, "the rest has its time"
    seen = [world.topics_in_image]
    while world.topics_in_image < TOPICS:
        world.timers.fire_one()
        assert seen[-1] < world.topics_in_image <= seen[-1] + 3, "a prefix, and more of it"
        assert world.host.image.offset == 2 * world.topics_in_image - 1
        seen.append(world.topics_in_image)
    assert [len(image.topics_by_id) for image in world.images] == seen
    world.timers.advance(0)
    assert len(world.images) == len(seen)


def test_what_comes_meanwhile_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = batches()
    monkeypatch.setattr(metadata, "PIECE_BYTES", 10 * len(made[0]))
    follower = Follower()
    follower.commit(made[:30], 60)
    assert follower.world.topics_in_image == 10
    follower.commit(made[30:], 80)
    assert follower.world.topics_in_image == 10
    for count in (20, 30, 40):
        follower.world.timers.fire_one()
        assert follower.world.topics_in_image == count


def test_a_stop_meanwhile_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    made = batches()
    monkeypatch.setattr(metadata, "PIECE_BYTES", 1)
    follower = Follower()
    follower.commit(made, 2 * TOPICS)
    follower.world.stop()
    follower.world.timers.advance(1_000)
    assert len(follower.world.images) == 1


def test_a_leader_is_up_to_date_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides by its image."""
    world = MetadataWorld()
    world.start()
    world.create_topics(20)
    monkeypatch.setattr(metadata, "PIECE_BYTES", 1)
    world.restart()
    assert world.topics_in_image == 20
