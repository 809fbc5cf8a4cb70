"""Which pages there are: their paths, and the functions that make them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fencepost.console.asked import Asked, NotThere
from fencepost.console.page import Page
from fencepost.console.pages.access import access
from fencepost.console.pages.audit_log import audit_log
from fencepost.console.pages.audits import audit, audits
from fencepost.console.pages.batches import batches
from fencepost.console.pages.brokers import broker, brokers
from fencepost.console.pages.changes import changes, sample
from fencepost.console.pages.checkpoints import checkpoint, checkpoints
from fencepost.console.pages.configs import configs
from fencepost.console.pages.faults import faults
from fencepost.console.pages.groups import group, groups
from fencepost.console.pages.overview import overview
from fencepost.console.pages.partition import partition
from fencepost.console.pages.quorum import quorum
from fencepost.console.pages.reassignments import reassignments
from fencepost.console.pages.record import record
from fencepost.console.pages.records import KEPT, records
from fencepost.console.pages.replays import replay, replays
from fencepost.console.pages.replication import replication
from fencepost.console.pages.tail import PASSED_ON, tail
from fencepost.console.pages.topics import topic, topics
from fencepost.console.pages.transactions import transaction, transactions
from fencepost.console.session import Counting, Session

Make = Callable[[Session, Asked], Awaitable[Page]]


class PageKind(NamedTuple):
    """A kind of page. `path` is its path with the names of its parts in braces; `label` is what
    the list of pages at the top calls it, None for one that others link to. `keys` are what its
    query may have. Of a page that shows what is `given` beside the cluster, the list has only what
    there is."""

    name: str
    path: str
    make: Make
    label: str | None
    help: str
    keys: tuple[str, ...] = ()
    is_given: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of its path."""
        return tuple(re.findall(r"{(\w+)", self.path))


PARTS: Final = ("first", "rows")
"""What a list in parts takes."""
LISTED: Final = ("filter", "order", *PARTS)

PAGES: Final = (
    PageKind(
        "overview", "/", overview, "Overview", "health, brokers, events seen", keys=("since",)
    ),
    PageKind(
        "topics", "/topics", topics, "Topics", "all topics, those in trouble first", keys=LISTED
    ),
    PageKind(
        "topic",
        "/topics/{topic}",
        topic,
        None,
        "one topic: partitions, replicas, configs",
        keys=("show", *PARTS),
    ),
    PageKind(
        "records",
        "/topics/{topic}/records",
        records,
        None,
        "records of a topic",
        keys=(*KEPT, "at"),
    ),
    PageKind(
        "record",
        "/topics/{topic}/records/{partition}/{offset}",
        record,
        None,
        "one record, its bytes, and its batch",
        keys=("key", "value", "hex"),
    ),
    PageKind(
        "batches",
        "/topics/{topic}/batches/{partition}",
        batches,
        None,
        "batches of a partition: codec, producer, sequence, leader epoch",
        keys=("offset", "limit", "hex"),
    ),
    PageKind(
        "tail",
        "/topics/{topic}/tail",
        tail,
        None,
        "records of a topic as they come",
        keys=PASSED_ON,
    ),
    PageKind(
        "partition",
        "/topics/{topic}/{partition}",
        partition,
        None,
        "one partition: the leader epochs of every replica's log",
        keys=("epochs",),
    ),
    PageKind(
        "brokers",
        "/brokers",
        brokers,
        "Brokers",
        "all brokers: what they lead and have",
        keys=LISTED,
    ),
    PageKind("broker", "/brokers/{broker}", broker, None, "one broker: disks, features, quotas"),
    PageKind(
        "changes",
        "/changes",
        changes,
        None,
        "what changed since an earlier sample",
        keys=("since", *LISTED),
    ),
    PageKind("sample", "/sample", sample, None, "the newest sample, to compare later ones with"),
    PageKind(
        "replication",
        "/replication",
        replication,
        "Replication",
        "partitions and brokers: leaders, in sync, out of sync",
        keys=("show", "filter", "details", *PARTS),
    ),
    PageKind(
        "reassignments",
        "/reassignments",
        reassignments,
        None,
        "partitions that move, how far",
        keys=PARTS,
    ),
    PageKind("quorum", "/quorum", quorum, "Quorum", "voters, observers, elections, features"),
    PageKind(
        "transactions",
        "/transactions",
        transactions,
        "Transactions",
        "transactional ids, and why readers of committed records wait",
        keys=("state", "explain", *LISTED),
    ),
    PageKind("transaction", "/transactions/{id:path}", transaction, None, "one transactional id"),
    PageKind(
        "configs",
        "/configs",
        configs,
        "Configs",
        "of brokers beside each other; of a topic or a group against defaults",
        keys=("show", "filter", "topic", "group"),
    ),
    PageKind(
        "groups",
        "/groups",
        groups,
        "Groups",
        "groups of every type",
        keys=("type", "state", *LISTED),
    ),
    PageKind(
        "group", "/groups/{group:path}", group, None, "one group: who waits for whom, members, lag"
    ),
    PageKind(
        "access",
        "/access",
        access,
        "Access",
        "ACLs, users, quotas, tokens; who may?",
        keys=("principal", "operation", "type", "name", "host"),
    ),
    PageKind(
        "checkpoints",
        "/checkpoints",
        checkpoints,
        "Spark",
        "checkpoints of Spark's queries",
        is_given=True,
    ),
    PageKind(
        "checkpoint",
        "/checkpoints/{checkpoint}",
        checkpoint,
        None,
        "a query: how far it is behind, and what of it the log has lost",
    ),
    PageKind(
        "audit-log",
        "/audit-log",
        audit_log,
        "Audit log",
        "who did what, and was refused what",
        keys=("show", "principal", "what", "host", "to", "rows"),
        is_given=True,
    ),
    PageKind("audits", "/audits", audits, "Audits", "audits of log directories", is_given=True),
    PageKind(
        "audit",
        "/audits/{audit}",
        audit,
        None,
        "what an audit of log directories has found",
        keys=("filter", "severity", "check", *PARTS),
    ),
    PageKind(
        "faults", "/faults", faults, "Faults", "nodes and faults of a test cluster", is_given=True
    ),
    PageKind(
        "replays", "/replays", replays, "Replays", "recordings of simulated runs", is_given=True
    ),
    PageKind(
        "replay",
        "/replays/{recording}",
        replay,
        None,
        "a simulated run, step by step",
        keys=("messages", "first"),
    ),
)


def page_named(name: str) -> PageKind:
    """The kind of page with this name. Raises NotThere with the names there are."""
    for kind in PAGES:
        if kind.name == name:
            return kind
    raise NotThere(f"no page {name!r}; there are {', '.join(kind.name for kind in PAGES)}")


async def make_page(kind: PageKind, session: Session, asked: Asked) -> Page:
    """The page, with the requests that it cost the cluster. Raises BadQuery, NotThere, and
    ClientError where the cluster does not answer."""
    import msgspec

    asked.check(f"the page {kind.name}", kind.parts, kind.keys)
    with Counting() as requests:
        page = await kind.make(session, asked)
    return msgspec.structs.replace(page, requests=dict(requests))
