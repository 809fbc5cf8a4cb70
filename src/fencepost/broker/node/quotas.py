"""The quotas that the clients of one `Listener` are held to, kept as the metadata has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.broker.net.listener import Listener
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.acls import AuthorizerNotReadyError
from fencepost.machines.image.quotas import Quotas
from fencepost.runtime.requests.access import Access, Client
from fencepost.runtime.requests.permissions import CLUSTER_ACTION

if TYPE_CHECKING:
    from fencepost.broker.net.address_rates import AddressRates
    from fencepost.machines.quota import ClientQuotas, MutationQuota


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
        self.quotas: ClientQuotas | None = None
        """Those of users and client ids; None as long as no quota was set."""
        self._get = get
        self._gate = listener.gate
        listener.quotas = self._requests = QuotaGate(
            now_ms, lambda request: _may_act_for_cluster(access, request)
        )
        self._applied: Quotas | None = None

    @property
    def mutations(self) -> MutationQuota | None:
        """What clients are charged to that change partitions; None as long as no quota was set."""
        return None if self.quotas is None else self.quotas.mutations

    def image_changed(self, image: ClusterImage) -> None:
        """The metadata say so from now on."""
        if image.quotas is self._applied:
            return
        self._applied = image.quotas
        if self.quotas is None and not image.quotas:
            return
        if self.quotas is None or self._gate.rates is None:
            self.quotas, self._gate.rates = self._made()
        self.quotas.apply(image.quotas)
        self._requests.apply(self.quotas)
        self._gate.rates.apply(image.quotas)

    def _made(self) -> tuple[ClientQuotas, AddressRates]:
        # What a node without quotas never needs, its start can do without.
        from fencepost.broker.net.address_rates import AddressRates
        from fencepost.machines.quota import ClientQuotas, Windows

        def windows(prefix: str) -> Windows:
            return Windows(self._get(f"{prefix}.num"), self._get(f"{prefix}.size.seconds") * 1_000)

        of_clients = windows("quota.window")
        quotas = ClientQuotas(of_clients, windows("controller.quota.window"))
        return quotas, AddressRates(of_clients)


def _may_act_for_cluster(access: Access, client: Client) -> bool:
    try:
        return access.allows(client, CLUSTER_ACTION, quiet=True)
    except AuthorizerNotReadyError:  # brokers are super users then
        return False
