"""Brokers that start, stop and register too early, or not again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.machines.broker.lifecycle import BrokerLifecycle
from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_brokers,
    patched,
)

lifecycle = partial(changed, "lifecycle")


TABLE: Final[Mapping[str, Ablation]] = {
    # A broker that starts makes replicas of whatever metadata it has read by then.
    "loads-before-it-has-caught-up": in_brokers(
        "a broker that starts works on a cluster of before its registration",
        lifecycle(has_caught_up=always(True)),
    ),
    # A broker that the controller does not know goes on asking under its old broker epoch.
    "stays-unregistered": in_brokers(
        "a broker that was unregistered by mistake is out of the cluster until it is restarted",
        patched((BrokerLifecycle, "_lose_registration", always(None))),
        "S27",
        searched=False,
    ),
    # A broker that is to stop does so as soon as the controller has answered.
    "stops-before-others-know": in_brokers(
        "a broker is gone before those that lead in its place know of it",
        lifecycle(may_stop=always(True)),
        "S25",
        searched=False,
    ),
    # A broker asks to be unfenced as soon as it is registered.
    "unfenced-before-it-has-loaded": in_brokers(
        "a broker whose logs are not loaded is elected leader",
        lifecycle(wants_to_be_fenced=always(False)),
        "S27",
    ),
}
