"""Our quotas against the classes of Apache Kafka 4.4.0 that throttle clients, at drawn values."""

from __future__ import annotations

import random
from types import MappingProxyType
from typing import Any

import pytest

from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.quotas import QuotaEntity
from fencepost.machines.quota import ClientQuotas, MutationQuota, Windows

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SEEDS = range(60)
BEGINS_MS = 1_800_000_000_000
"""Kafka's buckets count from the epoch on, so that they are full long before."""
KEYS = {
    "PRODUCE": "producer_byte_rate",
    "FETCH": "consumer_byte_rate",
    "REQUEST": "request_percentage",
    "CONTROLLER_MUTATION": "controller_mutation_rate",
}
USERS, CLIENTS = ("u", "v"), ("c", "d", "")


class History:
    """What was asked of both, and what we have answered."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self.questions: list[str] = []
        self.answers: list[float] = []
        self._kind = list(KEYS)[seed % len(KEYS)]
        self._is_fraction = self._kind in ("REQUEST", "CONTROLLER_MUTATION")
        self._windows = Windows(rng.randint(2, 12), 1_000 * rng.randint(1, 3))
        self._quotas = ClientQuotas(self._windows, self._windows)
        self._set: dict[QuotaEntity, float] = {}
        self._now_ms = BEGINS_MS
        self._ask("MANAGER", self._kind, self._windows.count, self._windows.size_ms // 1_000)

    def _ask(self, *words: Any) -> None:
        self.questions.append("\t".join(map(str, words)))

    def draw(self, steps: int) -> None:
        """Quotas first; later their values change, and which there are does not. Kafka also counts
        what a client uses while it has no quota of a kind that others have."""
        rng = self._rng
        choices = [(user, name) for user in (*USERS, "*", "-") for name in ("c", "d", "*", "-")]
        entities = rng.sample(choices[:-1], rng.randint(1, 8))
        for entity in entities:
            self._set_one(*entity)
        for _ in range(steps):
            if rng.random() < 0.1:
                self._set_one(*rng.choice(entities))
            else:
                self._charge(rng.choice(USERS), rng.choice(CLIENTS))

    def _set_one(self, user: str, client_id: str) -> None:
        parts = [("client-id", client_id), ("user", user)]
        entity = tuple((kind, None if n == "*" else n) for kind, n in parts if n != "-")
        value = self._rng.choice([1.0, 10.0, 100.0, 0.5 if self._is_fraction else 7.0])
        self._set[entity] = value
        self._ask("QUOTA", user, client_id, value)
        key = KEYS[self._kind]
        self._quotas.apply(
            PersistentMap().update(
                {entity: MappingProxyType({key: one}) for entity, one in self._set.items()}
            )
        )

    def _charge(self, user: str, client_id: str) -> None:
        rng, quotas = self._rng, self._quotas
        self._now_ms += rng.choice([0, 1, rng.randint(0, 999), rng.randint(0, 5_000), 40_000])
        value = rng.choice([0, 1, 5, 20, 300, 5_000])
        (quota,) = (one for one in quotas.all if one.key == KEYS[self._kind])
        self._ask("RECORD", user, client_id, value, self._now_ms)
        if isinstance(quota, MutationQuota):
            answer = quota.charge(user, client_id, value, self._now_ms, strict=True)
            self.answers.append(answer)
            return
        account = quota.account(user, client_id)
        if account is None:
            self.answers.append(0)
        else:
            self.answers.append(account.record(value, self._now_ms))
        if self.answers[-1] and rng.random() < 0.5:
            self._ask("UNRECORD", user, client_id, value, self._now_ms)
            quota.record(user, client_id, -value, self._now_ms)
        if account is not None:
            self._ask("BURST", user, client_id)
            self.answers.append(account.burst)


def test_throttle_times_are_kafkas_to_the_millisecond(kafka_jars: JarSet) -> None:
    histories = [History(seed) for seed in SEEDS]
    for history in histories:
        history.draw(60)
    questions = [line for one in histories for line in one.questions]
    said = ask(PROGRAMS / "QuotaOracle.java", jars=kafka_jars, questions=questions).split()
    ours = [answer for one in histories for answer in one.answers]
    assert len(said) == len(ours)
    begins = 0
    for seed, history in zip(SEEDS, histories, strict=True):
        told = [int(float(one)) for one in said[begins : begins + len(history.answers)]]
        begins += len(history.answers)
        assert history.answers == told, seed
    assert sum(answer > 0 for answer in ours) > len(ours) // 4, "many were throttled"
