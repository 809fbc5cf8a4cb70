"""Every order of events within bounds, for one partition, its brokers and the controller.

Theory of operation
-------------------
After every step it is looked at what must hold of replicated logs. What runs is the product: the
machines of partitions and fetchers, `runtime.replicas`, `runtime.fetchers` and
`runtime.alter_partition`, and the controller's decisions about in-sync sets, fencing, registration
and elections.

Covered in the tests are three replicas through two elections, a power cut and a change of the
in-sync set, with a batch while all hear of new metadata at once, and without one while any of them
is behind with the metadata.

| file       | what it holds                                                   |
|------------|-----------------------------------------------------------------|
| `bounds`   | how much of what may happen                                     |
| `cell`     | one broker over a log of lists; how time is left out            |
| `serving`  | how a leader answers its followers                              |
| `metadata` | the controller: images by number, and what is decided on them   |
| `steps`    | what comes of an event in a broker                              |
| `merging`  | states that differ in nothing that can matter                   |
| `laws`     | I03, I05-I09, I11-I14, I17, I20, and what of the past they need |
| `space`    | states of the whole, and what leads from one to the next        |
| `story`    | a path in words                                                 |

What is not in these spaces: several partitions, idempotent producers, deletion of records, fetch
sessions, reassignment, controlled shutdown, lost and damaged disks, unclean elections. Seeds and
scenarios have those.
"""

from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.space import Space
from fencepost.sim.explore.partition.story import tell

__all__ = ["Bounds", "Space", "tell"]
