"""Every order of events within bounds, on the real machines and driver.

Theory of operation
-------------------
The simulator draws one history at a time from a seed; this goes through all histories of a small
world, the way a model checker goes through those of a model. A state is everything that the future
depends on: disks, machines (by what they call `canonical`), messages on their way. From each state
all that may happen next is tried, breadth first, until there is no state that was not seen, and
laws are looked at after every step. If a search says that its space is covered, there is no history
within the bounds that breaks one.

There is one explorer, and a package for each world that it goes through: `quorum` and `partition`
say what a node is, what may happen, and what must hold.

| file      | what it holds                                                  |
|-----------|----------------------------------------------------------------|
| `search`  | breadth first, with the shortest path to what is broken        |
| `steps`   | what nodes do, each step taken once and then looked up         |
| `known`   | outcomes of steps, and logs that agree, as worked out before   |
| `packing` | states as integers                                             |
| `flights` | messages on their way, as numbers                              |
| `logs`    | logs of lists, which lose what was not flushed                 |
| `copying` | copies of nodes                                                |
| `laws`    | what is broken, and what of the past the laws need             |
"""

from fencepost.sim.explore.laws import Violation
from fencepost.sim.explore.search import Report, Search

__all__ = ["Report", "Search", "Violation"]
