"""The quotas that the clients of one `Listener` are held to, kept as the metadata has them."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable
from typing import Any

from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.broker.net.connection_gate import AddressRates
from fencepost.broker.net.listener import Listener
from fencepost.machines.authorizer import AuthorizerNotReadyError
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.quotas import IP, Quotas
from fencepost.machines.quota import ClientQuotas, Windows
from fencepost.machines.quota.limits import CONNECTION_CREATION_RATE
from fencepost.runtime.requests.access import Access, Client
from fencepost.runtime.requests.permissions import CLUSTER_ACTION


class NodeQuotas:
    """See the module. A node that is broker and controller has two, as in Kafka."""

    def __init__(
        self,
        get: Callable[[str], Any],
        now_ms: Callable[[], int],
        listener: Listener,
        access: Access,
    ) -> None:
        """The listener's requests and connections are held to the quotas from now on; what brokers
        ask is not, if `access` has them act for the cluster."""
        self.quotas = ClientQuotas(
            windows_of(get, "quota.window"), windows_of(get, "controller.quota.window")
        )
        listener.quotas = self._requests = QuotaGate(
            self.quotas, now_ms, lambda request: _may_act_for_cluster(access, request)
        )
        listener.gate.rates = self._addresses = AddressRates(windows_of(get, "quota.window"))
        self._applied: Quotas | None = None

    def image_changed(self, image: ClusterImage) -> None:
        """The metadata say so from now on."""
        if image.quotas is not self._applied:
            self._applied = image.quotas
            self.quotas.apply(image.quotas)
            self._requests.apply()
            self._addresses.apply(*address_rates(image.quotas))


def _may_act_for_cluster(access: Access, client: Client) -> bool:
    try:
        return access.allows(client, CLUSTER_ACTION, quiet=True)
    except AuthorizerNotReadyError:  # brokers are super users then
        return False


def address_rates(quotas: Quotas) -> tuple[dict[str, float], float | None]:
    """The connections per second that addresses may make, and what holds for all others."""
    rates: dict[str, float] = {}
    default: float | None = None
    for entity, values in quotas.items():
        names, rate = dict(entity), values.get(CONNECTION_CREATION_RATE)
        if rate is None or IP not in names:
            continue
        name = names[IP]
        if name is None:
            default = rate
        else:
            with contextlib.suppress(ValueError):  # a host's name, as Kafka's controllers take
                rates[str(ipaddress.ip_address(name))] = rate
    return rates, default


def windows_of(get: Callable[[str], Any], prefix: str) -> Windows:
    """How rates are sampled, by the configs that begin so."""
    return Windows(get(f"{prefix}.num"), get(f"{prefix}.size.seconds") * 1_000)
