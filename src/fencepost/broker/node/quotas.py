"""The client quotas that one listener's requests are held to, kept as the metadata has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.quotas import Quotas
from fencepost.machines.quota import ClientQuotas, Windows


class NodeQuotas:
    """See the module. A node that is broker and controller has two, as in Kafka."""

    def __init__(self, get: Callable[[str], Any], now_ms: Callable[[], int]) -> None:
        self.quotas = ClientQuotas(
            windows_of(get, "quota.window"), windows_of(get, "controller.quota.window")
        )
        self.gate = QuotaGate(self.quotas, now_ms)
        """For the listener."""
        self._applied: Quotas | None = None

    def image_changed(self, image: ClusterImage) -> None:
        """The metadata say so from now on."""
        if image.quotas is not self._applied:
            self._applied = image.quotas
            self.quotas.apply(image.quotas)
            self.gate.apply()


def windows_of(get: Callable[[str], Any], prefix: str) -> Windows:
    """How rates are sampled, by the configs that begin so."""
    return Windows(get(f"{prefix}.num"), get(f"{prefix}.size.seconds") * 1_000)
