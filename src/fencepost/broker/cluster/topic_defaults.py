"""Whose file says what a new topic gets: where nodes differ, the log says so.

Theory of operation
-------------------
Kafka reads these keys on several nodes, and not all of them count:

| key                          | counts                                                          |
|------------------------------|-----------------------------------------------------------------|
| `num.partitions`             | CreateTopics without a number: the active controller's file;    |
| `default.replication.factor` | topics that a broker has created automatically: its file        |
| `min.insync.replicas`        | the config that all brokers share, if there is one; without it  |
|                              | each leader's file for acks=all, the active controller's file   |
|                              | for elections                                                   |

A broker asks the active controller for its values (DescribeConfigs), and the active controller asks
each broker, once per controller and per registration, in `look`. Each logs a WARNING that names
what differs and what counts. Nothing is changed by it. A node that does not answer is asked again
at the next `look`.

A controller may have no way to brokers: it needs none for its work. Where its configuration does
not say how brokers' listener is secured it asks none of them, and says so once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from fencepost.broker.cluster.controller_channel import LeaderView, PeerSender
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.security_protocols import PROTOCOLS_KEY
from fencepost.broker.config.view import ConfigSource
from fencepost.machines.image import RESOURCE_BROKER, ClusterImage
from fencepost.runtime.requests.leader_hints import endpoint_of
from fencepost.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

log = logging.getLogger(__name__)

MIN_ISR: Final = "min.insync.replicas"
CREATION_KEYS: Final = ("num.partitions", "default.replication.factor")
KEYS: Final = (*CREATION_KEYS, MIN_ISR)
TIMEOUT_MS: Final = 5_000
ASKED_AT_ONCE: Final = 20
"""Brokers that a controller asks in one `look`."""
PURPOSE: Final = "topic defaults"
ADVICE: Final = "set it in the files of all controllers and brokers alike"
_OF_FILES: Final = frozenset({ConfigSource.STATIC, ConfigSource.DEFAULT})

Values = Mapping[str, str]
"""What a node's file says, or Kafka's defaults, by key."""


class TopicDefaults:
    """Compares this node's file with those of others; see the module."""

    def __init__(
        self,
        config: BrokerConfig,
        brokers: PeerSender,
        controllers: PeerSender,
        quorum: LeaderView,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._config = config
        self._brokers = brokers
        self._controllers = controllers
        self._quorum = quorum
        self._image = image
        self._own: Values = {key: str(config.get(key)) for key in KEYS}
        self._controller_id = -1
        self._compared: set[tuple[int, int]] = set()
        """Nodes that have answered, or are being asked, with their broker epochs."""
        self._overridden: str | None = None
        self._has_told_of_no_way = False

    def look(self) -> None:
        """Ask the nodes that have not answered yet, and see what the shared config overrides."""
        self._look_at_shared()
        leader_id = self._quorum.leader_id
        if leader_id != self._controller_id:
            self._controller_id = leader_id
            self._compared.clear()
        if leader_id == self._config.node_id:
            self._ask_brokers()
        elif leader_id >= 0 and self._config.is_broker:
            address = self._quorum.address_of(leader_id)
            if address is not None:
                self._ask(self._controllers, (leader_id, -1), (address.host, address.port))

    def _look_at_shared(self) -> None:
        shared = self._image().broker_configs().get(MIN_ISR)
        own = self._own[MIN_ISR] if self._config.is_set(MIN_ISR) else None
        overridden = shared if own is not None and shared != own else None
        if overridden is not None and overridden != self._overridden:
            log.warning(
                "ignoring %s=%s of this node's file: the cluster-wide value is %s=%s; change"
                " it with fencepost configs alter --broker-defaults --set %s=%s",
                *(MIN_ISR, own, MIN_ISR, overridden, MIN_ISR, own),
            )
        self._overridden = overridden

    def _ask_brokers(self) -> None:
        listener = self._config.inter_broker_listener
        try:
            self._config.protocol_of(listener)
        except KeyError:
            if not self._has_told_of_no_way:
                self._has_told_of_no_way = True
                log.info(
                    "not comparing %s with brokers' files: %s has no %s, the listener of brokers",
                    ", ".join(KEYS),
                    PROTOCOLS_KEY,
                    listener,
                )
            return
        wanted = [
            ((one.broker_id, one.epoch), (endpoint.host, endpoint.port))
            for one in self._image().brokers.values()
            if one.is_active
            and one.broker_id != self._config.node_id
            and (endpoint := endpoint_of(one, listener)) is not None
        ]
        for key, address in [one for one in wanted if one[0] not in self._compared][:ASKED_AT_ONCE]:
            self._ask(self._brokers, key, address)

    def _ask(self, peers: PeerSender, key: tuple[int, int], address: tuple[str, int]) -> None:
        if key in self._compared:
            return
        self._compared.add(key)
        resource = DescribeConfigsResource(
            resource_type=RESOURCE_BROKER,
            resource_name=str(key[0]),
            configuration_keys=list(KEYS),
        )
        peers.send(
            address,
            DescribeConfigsRequest(resources=[resource], include_synonyms=True),
            partial(self._answered, key, self._controller_id),
            lambda _: self._compared.discard(key),
            TIMEOUT_MS,
            purpose=PURPOSE,
        )

    def _answered(
        self, key: tuple[int, int], controller_id: int, response: DescribeConfigsResponse
    ) -> None:
        values = dict(_values_of_file(response))
        if controller_id != self._controller_id or not values:
            return
        is_shared = MIN_ISR in self._image().broker_configs()
        for line in self._differences(key[0], values, is_shared=is_shared):
            log.warning("%s", line)

    def _differences(self, node_id: int, theirs: Values, *, is_shared: bool) -> Iterator[str]:
        """What to say of another node's values: the active controller's, or a broker's."""
        if self._controller_id == self._config.node_id:
            of_broker, of_controller = theirs, self._own
            broker, controller = f"broker {node_id}", "this controller"
        else:
            of_broker, of_controller = self._own, theirs
            broker, controller = "this broker", f"the active controller, node {node_id}"
        keys = [key for key in CREATION_KEYS if of_broker.get(key) != of_controller.get(key)]
        if keys:
            yield (
                f"{_listed(keys, of_broker)} of {broker} counts only for topics that it has created"
                f" automatically: CreateTopics without a number takes"
                f" {_listed(keys, of_controller)} of {controller}; {ADVICE}"
            )
        if not is_shared and of_broker.get(MIN_ISR) != of_controller.get(MIN_ISR):
            yield (
                f"{_listed([MIN_ISR], of_broker)} of {broker} counts for acks=all where it leads,"
                f" {_listed([MIN_ISR], of_controller)} of {controller} for elections; {ADVICE}"
            )


def _values_of_file(response: DescribeConfigsResponse) -> Iterator[tuple[str, str]]:
    """The values that a node has in its file or by default, whatever overrides them."""
    for result in response.results:
        for entry in result.configs:
            values = [one.value for one in entry.synonyms if one.source in _OF_FILES]
            if values and values[0] is not None:
                yield entry.name, values[0]


def _listed(keys: list[str], values: Values) -> str:
    return ", ".join(f"{key}={values.get(key)}" for key in keys)
