"""Every order of events within bounds, on the real quorum machine.

| file     | what it holds                                      |
|----------|----------------------------------------------------|
| `bounds` | how much of what may happen                        |
| `cell`   | one node: machine, driver, log; time is left out   |
| `steps`  | what comes of an event in a node                   |
| `laws`   | I03, I21-I26, and what of the past they need       |
| `space`  | states of the whole, and what leads to the next    |
| `story`  | a path in words                                    |

What is not in these spaces: snapshots, damage to a disk, lost disks, observers that join on their
own, updates of voters, fetches that wait at the leader, clocks. Seeds and scenarios have those.
"""

from fencepost.sim.explore.quorum.bounds import Bounds
from fencepost.sim.explore.quorum.space import Space
from fencepost.sim.explore.quorum.story import tell

__all__ = ["Bounds", "Space", "tell"]
