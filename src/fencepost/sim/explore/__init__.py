"""Every order of events within bounds, on the real quorum machine and driver.

Theory of operation
-------------------
The simulator draws one history at a time from a seed; this goes through all histories of a small
world, the way a model checker goes through those of a model. A state is everything that the future
depends on: disks, machines, messages on their way. From each state all that may happen next is
tried, breadth first, until there is no state that was not seen, and the quorum's laws are looked at
after every step. If a search says that its space is covered, there is no history within the bounds
that breaks one.

| file      | what it holds                                                              |
|-----------|----------------------------------------------------------------------------|
| `bounds`  | how much of what may happen                                                |
| `cell`    | one node: machine, driver, log; how time is left out                       |
| `copying` | copies of machines, and what of them tells two states apart                |
| `flights` | messages on their way, as numbers                                          |
| `steps`   | what a node does, each step taken once and then looked up                  |
| `laws`    | I03, I21-I26, and what of the past they need                               |
| `space`   | states of the whole, and what leads from one to the next                   |
| `search`  | breadth first, with the shortest path to what is broken                    |
| `story`   | that path in words                                                         |

What is not in these spaces: snapshots, damage to a disk, lost disks, observers that join on their
own, updates of voters, fetches that wait at the leader, clocks. Seeds and scenarios have those.
"""

from fencepost.sim.explore.bounds import Bounds
from fencepost.sim.explore.laws import Violation
from fencepost.sim.explore.search import Report, Search
from fencepost.sim.explore.space import Space
from fencepost.sim.explore.story import tell

__all__ = ["Bounds", "Report", "Search", "Space", "Violation", "tell"]
