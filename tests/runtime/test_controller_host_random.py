"""The controller's host over random histories: what it says has happened has, and nothing else.

One leader of three voters gets decisions, commits, foreign batches in the midst of its own, lost
leaderships with and without the loss of what was not committed, and restarts. At every moment the
image is the replay of the committed log; what a request was answered is done is in that log; and
when all is quiet the controller decides on just that image.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fencepost.batch.records import build_batch, read_records
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.runtime.controller_host import ControllerHost
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records import metadata as records

from .controller_world import Asked, ControllerWorld

NAMES = ("a", "b", "c", "d")
STEPS = 60


class History:
    """One seed's life of a controller."""

    def __init__(self, seed: int, host_class: type[ControllerHost] = ControllerHost) -> None:
        self.random = random.Random(seed)
        self.world = ControllerWorld(3, host_class=host_class)
        self.world.start()
        self.lead()
        self.world.with_broker()
        self.asked: list[tuple[str, str, Asked]] = []
        self.step_hooks = 0
        self.world.host.on_step(self._in_the_midst)

    def run(self) -> None:
        choices: list[tuple[int, Callable[[], None]]] = [
            (30, self.create),
            (15, self.delete),
            (20, self.world.fetch),
            (6, self.disturb),
            (3, self.lose_all),
            (3, self.lose_the_lead),
            (2, self.restart),
        ]
        weights = [weight for weight, _ in choices]
        for _ in range(STEPS):
            ((_, act),) = self.random.choices(choices, weights)
            act()
            self.check()
        self.settle()

    # -- what happens --------------------------------------------------------------------------

    def create(self) -> None:
        name = self.random.choice(NAMES)
        self.asked.append(("create", name, self.world.create(name)))

    def delete(self) -> None:
        name = self.random.choice(NAMES)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
        asked = self.world.ask(lambda controller: controller.decide_delete_topics(request))
        self.asked.append(("delete", name, asked))

    def disturb(self) -> None:
        """In the midst of the next step, a foreign batch comes before some decisions."""
        self.step_hooks = 1
        self.world.fetch()

    def _in_the_midst(self) -> None:
        if self.step_hooks and self.world.machine.role.value == "leader":
            self.step_hooks = 0
            self.world.slip_in(
                build_batch([(None, records.encode_record(records.NoOpRecord()))], timestamp_ms=1)
            )
            for _ in range(self.random.randrange(1, 4)):
                self.random.choice((self.create, self.delete))()

    def lose_all(self) -> None:
        """Another leads, without what was not committed; then this one again."""
        if self.world.machine.is_active_leader:
            self.world.depose()
            self.world.truncate_to_committed()
        self.lead()

    def lose_the_lead(self) -> None:
        """It leads again, and no other node has written anything meanwhile."""
        if self.world.machine.is_active_leader:
            self.world.depose()
        self.lead()

    def restart(self) -> None:
        self.asked = [one for one in self.asked if one[2].told]  # the others get no answer now
        self.world.restart()
        self.world.host.on_step(self._in_the_midst)
        self.lead()

    def lead(self) -> None:
        self.world.elect()
        self.world.commit()
        assert self.world.machine.is_active_leader

    # -- what must hold ------------------------------------------------------------------------

    def replayed(self, end_offset: int) -> ClusterImage:
        """The image that another node would make of the committed log."""
        image = ClusterImage()
        for header, batch in self.world.host.log.read_all_batches(0, end_offset):
            read = [] if header.is_control else read_records(batch)
            messages = [records.decode_record(record.value) for record in read]
            image = apply_records(image, messages, header.last_offset, 0)
        return image

    def check(self) -> None:
        assert not self.world.broken, self.world.broken
        image = self.world.host.image
        assert same(image, self.replayed(self.world.machine.high_watermark))

    def settle(self) -> None:
        """All is committed: no request waits, and the controller's image is the committed one."""
        self.lead()
        self.world.commit()
        assert all(asked.told for _, _, asked in self.asked)
        controller = self.world.controller_host.controller
        assert controller is not None
        assert same(controller.image, self.world.host.image)
        created = self._done("create")
        deleted = self._done("delete")
        logged = self._logged()
        assert created <= logged["TopicRecord"], "each acknowledged creation is in the log"
        assert deleted <= logged["RemoveTopicRecord"]

    def _done(self, kind: str) -> int:
        """How many were told that what they wanted is done."""
        done = 0
        for what, _, asked in self.asked:
            if what == kind and asked.error is ErrorCode.NONE:
                results = asked.reply.topics if kind == "create" else asked.reply.responses
                done += results[0].error_code == 0
        return done

    def _logged(self) -> dict[str, int]:
        found = {"TopicRecord": 0, "RemoveTopicRecord": 0}
        log = self.world.host.log
        for header, batch in log.read_all_batches(0, log.end_offset):
            for record in [] if header.is_control else read_records(batch):
                name = type(records.decode_record(record.value)).__name__
                if name in found:
                    found[name] += 1
        return found


def same(one: ClusterImage, other: ClusterImage) -> bool:
    """Whether they say the same of the cluster."""
    return replace(one, offset=0, epoch=0) == replace(other, offset=0, epoch=0)


@pytest.mark.parametrize("seed", range(60))
def test_any_history(seed: int) -> None:
    History(seed).run()


class Unreverted(ControllerHost):
    """The old mistake (KAFKA-13100)."""

    def _revert_state(self) -> None:
        pass


class Hasty(ControllerHost):
    """Hands over what was decided on a state that is void."""

    def _void(self, error: ErrorCode) -> None:
        unwritten = self._unwritten
        super()._void(error)
        self._unwritten = unwritten


@pytest.mark.parametrize("mistake", [Unreverted, Hasty])
def test_mistakes_are_found(mistake: type[ControllerHost]) -> None:
    found = 0
    for seed in range(30):
        try:
            History(seed, mistake).run()
        except AssertionError:
            found += 1
    assert found, "else the histories are too tame"
