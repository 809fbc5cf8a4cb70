"""The APIs of share coordinators (83 to 87); see `runtime.requests.share_group_state`."""

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.share_group_state import share_group_state
from fencepost.runtime.share_states import APIS

for request in APIS:
    handles(request, stores_text=True)(share_group_state)
