"""A page's way to the cluster: the newest sample, and requests that are counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.config import ClientConfig
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import ClientError
from fencepost.console.coordinators import needed_state, requiring_state_topic
from fencepost.console.kept_samples import KeptSamples
from fencepost.console.lag_history import LagHistory
from fencepost.console.records.topic_decoders import SchemaValues
from fencepost.console.sample import Sample
from fencepost.console.sampling import INTERVAL_S, Sampler
from fencepost.console.standing import WINDOW_S, Rate, Standing
from fencepost.console.summary import Summaries, Summary

T = TypeVar("T")
K = TypeVar("K")
M = TypeVar("M")
EACH_TIMEOUT_S: Final = 3.0
"""How long a page waits for one of several brokers."""

AT_ONCE: Final = 4
"""Pages that may ask the cluster at the same time; others wait for their turn."""
FIRST_LOOK_S: Final = 3.0
"""How long a page waits for the first sample before it says that there is none."""
POLL_S: Final = 0.02

_counted: ContextVar[Counter[str] | None] = ContextVar("counted", default=None)
_changing: ContextVar[bool] = ContextVar("changing", default=False)


class CountingCluster(AsyncCluster):
    """A cluster whose requests are counted by name for the page that they are sent for, and all
    of them together in `sent`. Outside of `Changing` nothing is asked that has brokers create the
    internal topics of coordinators."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config=config)
        self.sent = Rate()

    async def _exchange(self, asked: Exchange[Any]) -> Any:
        needed = None if _changing.get() else needed_state(asked)
        if needed is not None:
            await self.run(requiring_state_topic(asked, needed))
        if asked.version is None:  # what a broker has no version of is not sent to it
            asked.connection.version_for(type(asked.message), highest=asked.highest)
        self.sent.add(1)
        counted = _counted.get()
        if counted is not None:
            counted[type(asked.message).__name__.removesuffix("Request")] += 1
        return await super()._exchange(asked)


@dataclass(frozen=True, slots=True)
class Options:
    """What the console's owner chose: whether pages may change the cluster, directories of Spark
    checkpoints (as commands take them) and of simulator recordings, brokers' audit logs and
    directories of them, results of audits, a test cluster's control port, seconds between looks."""

    allow_writes: bool = False
    checkpoints: tuple[str, ...] = ()
    recordings: tuple[Path, ...] = ()
    audit_logs: tuple[Path, ...] = ()
    audits: tuple[str, ...] = ()
    faults: str | None = None
    interval_s: float = INTERVAL_S
    registry: str | None = None
    """The address of a schema registry to decode records by, None without one."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Which of the things beside a cluster were given, by the pages that show them."""
        given = {
            "checkpoints": self.checkpoints,
            "replays": self.recordings,
            "audit-log": self.audit_logs,
            "audits": self.audits,
            "faults": self.faults,
        }
        return tuple(name for name, value in given.items() if value)


@dataclass(slots=True)
class Session:
    """A cluster as pages see it. Its sampler is started apart; `close` ends both."""

    config: ClientConfig
    options: Options = field(default_factory=Options)
    sampler: Sampler = field(init=False)
    samples: KeptSamples = field(init=False)
    cluster: CountingCluster = field(init=False)
    lag: LagHistory = field(init=False, default_factory=LagHistory)
    schemas: SchemaValues | None = field(init=False, default=None)
    """What decodes by the registry's schemas, where there is one."""
    _turns: asyncio.Semaphore = field(init=False)
    _memories: dict[type[Any], Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # To look for a topic must not create it, whatever the owner's other clients do.
        self.config = replace(self.config, allow_auto_create_topics=False)
        self.sampler = Sampler(self.config, self.options.interval_s)
        self.sampler.also_look(self.lag.looking)
        self.cluster = CountingCluster(config=self.config)
        self.cluster.unknown_topic_attempts = 2
        self._turns = asyncio.Semaphore(AT_ONCE)
        if self.options.registry is not None:
            self.schemas = SchemaValues(self.options.registry)
        self.samples = KeptSamples()
        self.sampler.on_sample(self.samples.keep)
        self.sampler.on_sample(self.summary)

    def memory(self, kind: type[M]) -> M:
        """The one value of this kind that pages keep from look to look; made, without arguments,
        when it is first asked for."""
        if kind not in self._memories:
            self._memories[kind] = kind()
        found: M = self._memories[kind]
        return found

    def summary(self, sample: Sample) -> Summary:
        """What a sample comes to, counted once for all pages."""
        return self.memory(Summaries).of(sample)

    async def sample(self) -> Sample:
        """The newest sample; before there is one, the first that comes within FIRST_LOOK_S, and
        where none are taken in the background, a look of one's own. Raises ClientError."""
        sampler = self.sampler
        if sampler.newest is None and not sampler.runs:
            return await asyncio.to_thread(sampler.look)
        waited_until = time.monotonic() + FIRST_LOOK_S
        while sampler.newest is None:
            if sampler.failing is not None:
                raise ClientError(str(sampler.failing.error))
            if time.monotonic() > waited_until:
                raise ClientError(f"no answer to the first look within {FIRST_LOOK_S:.0f} s")
            await asyncio.sleep(POLL_S)
        return sampler.newest

    @property
    def unanswered_since_ms(self) -> int | None:
        """Since when looks at the cluster have failed, None while it answers."""
        failing = self.sampler.failing
        return None if failing is None else failing.since_ms

    def standing(self) -> Standing:
        """How the console and its cluster are now."""
        newest, failing = self.sampler.newest, self.sampler.failing
        return Standing(
            now_ms(),
            None if newest is None else newest.cluster_id,
            None if newest is None else newest.taken_at_ms,
            self.unanswered_since_ms,
            0 if failing is None else failing.failures,
            None if failing is None else str(failing.error),
            max(self.sampler.next_look_at - time.monotonic(), 0.0),
            int(self.cluster.sent.total()),
            int(self.sampler.requests.total()),
            min(self.sampler.looked_s.total() / WINDOW_S, 1.0),
            AT_ONCE,
            self.options.allow_writes,
            self.options.sources,
        )

    async def run(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation with the cluster, in turn with other pages."""
        async with self._turns:
            return await self.cluster.run(conversation)

    async def run_each(
        self, conversations: Mapping[K, Conversation[T]], timeout_s: float = EACH_TIMEOUT_S
    ) -> dict[K, T | str]:
        """Carry out conversations with different brokers at the same time; what came of each, or
        why it failed. A broker that does not answer costs `timeout_s`, not the page."""

        async def one(conversation: Conversation[T]) -> T | str:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self.cluster.run(conversation)
            except ClientError as error:
                return str(error)
            except TimeoutError:
                return f"no answer within {timeout_s:g} s"

        async with self._turns:
            found = await asyncio.gather(*map(one, conversations.values()))
        return dict(zip(conversations, found, strict=True))

    async def close(self) -> None:
        """Close the connections and stop the sampler."""
        await asyncio.to_thread(self.sampler.close)
        await self.cluster.close()


class Counting:
    """Counts the requests that are sent inside `with`: `requests`, by name."""

    def __enter__(self) -> Mapping[str, int]:
        counter: Counter[str] = Counter()
        self._token = _counted.set(counter)
        return counter

    def __exit__(self, *exc: object) -> None:
        _counted.reset(self._token)


class Changing:
    """Inside `with` the cluster is changed, on a reader's confirmed order."""

    def __enter__(self) -> None:
        self._token = _changing.set(True)

    def __exit__(self, *exc: object) -> None:
        _changing.reset(self._token)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
