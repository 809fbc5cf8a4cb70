"""A metadata log that becomes corrupt in use, and a node that cannot go by its image any more."""

from __future__ import annotations

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.image import ReplayError
from fencepost.machines.quorum import AppendRecords, Role, messages
from fencepost.machines.quorum.inputs import FetchBounds, received
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.wire.errors import ErrorCode

from .metadata_world import MetadataWorld, topic_records
from .test_metadata_damage import END, answer_fetch, follow, one_of_three, spoil, would_vote_for


def test_a_batch_that_becomes_corrupt_after_it_was_read_is_not_applied():
    """S53: whatever was found sound before, its CRC is checked again when its records count."""
    world = one_of_three()
    world.start()
    follow(world)
    offset = spoil(world, 3)
    answer_fetch(world, b"", END)
    assert world.topics_in_image == 3
    assert (world.host.image.offset, world.host.machine.damaged_at) == (offset - 1, offset)
    assert not world.broken, "the leader has a good copy"


def test_damage_right_behind_the_image_leaves_the_image_as_it_is():
    """No other image of the same offset, with another epoch, which a snapshot would be named by."""
    world = one_of_three()
    world.start()
    follow(world)
    answer_fetch(world, b"", 7)
    before, told = world.host.image, len(world.images)
    offset = spoil(world, 3)
    answer_fetch(world, b"", END)
    assert world.host.machine.damaged_at == offset
    assert world.host.image is before and len(world.images) == told
    assert (before.offset, before.epoch) == (offset - 1, 1)


def raise_it(error: Exception):
    def refuse(*_: object) -> None:
        raise error

    return refuse


def unfit_for_a_part(world: MetadataWorld) -> None:
    """One of the node's parts does not hear of an image."""
    world.host.on_image(raise_it(KeyError("a part")))
    world.create_topic()


def unfit_for_the_log(world: MetadataWorld) -> None:
    """The log says what cannot be."""
    partition = topic_records(77)[1]
    world.write([partition])


def unfit_at_a_step(world: MetadataWorld) -> None:
    """A part fails when it looks at the machine, and those behind it are asked all the same."""
    asked: list[Role] = []
    world.host.on_step(raise_it(ReplayError("a part")))
    world.host.on_step(lambda: asked.append(world.host.machine.role))
    world.create_topic()
    assert asked[-1] is Role.FAILED


@pytest.mark.parametrize("make_unfit", [unfit_for_a_part, unfit_for_the_log, unfit_at_a_step])
def test_a_node_that_cannot_apply_the_metadata_neither_leads_nor_answers(make_unfit):
    world = MetadataWorld()
    world.start()
    machine = world.host.machine
    make_unfit(world)
    assert len(world.broken) == 1, "the failure is reported to the node, once"
    assert machine.role is Role.FAILED and not machine.is_active_leader
    outcomes: list[ErrorCode] = []
    batch = build_batch([(None, b"x")])
    append = AppendRecords(
        [batch], lambda outcome: outcomes.append(outcome.error), machine.epoch, machine.end_offset
    )
    end_offset = world.host.log.end_offset
    world.ports.driver.feed(METADATA_KEY, append)
    assert outcomes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.host.log.end_offset == end_offset
    assert not would_vote_for(world, (9, 1_000))
    answers: list[FetchBounds] = []
    fetch = messages.fetch_request(world.config, 2, machine.epoch, (machine.epoch, end_offset), 0)
    world.ports.driver.feed(METADATA_KEY, received(answers.append, fetch))
    assert [answer.error for answer in answers] == [ErrorCode.BROKER_NOT_AVAILABLE]
