"""Every order of events within bounds, for one partition, its brokers and the controller.

Theory of operation
-------------------
As the search of the quorum, one package up, and by the same breadth-first walk: a state is
everything that the future depends on, from each all that may happen next is tried, and what must
hold of replicated logs is looked at after every step. What runs is the product: the machines of
partitions and fetchers, `runtime.replicas`, `runtime.fetchers` and `runtime.alter_partition`, and
the controller's decisions about in-sync sets, fencing, registration and elections.

Covered in the tests are three replicas through two elections, a power cut and a change of the
in-sync set, with a batch while all hear of new metadata at once, and without one while any of them
is behind with the metadata.

| file       | what it holds                                                   |
|------------|-----------------------------------------------------------------|
| `bounds`   | how much of what may happen                                     |
| `cell`     | one broker over a log of lists; how time is left out            |
| `objects`  | copies of brokers, and what of them tells two states apart      |
| `serving`  | how a leader answers its followers                              |
| `metadata` | the controller: images by number, and what is decided on them   |
| `steps`    | what a broker does, each step taken once and then looked up     |
| `merging`  | states that differ in nothing that can matter                   |
| `laws`     | I03, I05-I09, I11-I14, I17, I20, and what of the past they need |
| `space`    | states of the whole, and what leads from one to the next        |
| `story`    | a path in words                                                 |

What is not in these spaces: several partitions, idempotent producers, deletion of records, fetch
sessions, reassignment, controlled shutdown, lost and damaged disks, unclean elections. Seeds and
scenarios have those.
"""

from fencepost.sim.explore.laws import Violation
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.space import Space
from fencepost.sim.explore.partition.story import tell

__all__ = ["Bounds", "Space", "Violation", "tell"]
