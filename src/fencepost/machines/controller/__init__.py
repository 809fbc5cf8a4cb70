"""What the cluster does about requests that change it: `Controller` and its `Decision`s."""

from fencepost.machines.controller.config import BOOTSTRAP_FEATURES, ControllerConfig
from fencepost.machines.controller.controller import Controller
from fencepost.machines.controller.decision import Decision, Refused

__all__ = ["BOOTSTRAP_FEATURES", "Controller", "ControllerConfig", "Decision", "Refused"]
