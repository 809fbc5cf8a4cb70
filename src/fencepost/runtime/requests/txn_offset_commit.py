"""TxnOffsetCommit (key 28) v0-5: offsets of a group that count if the transaction does.

The order of errors is in `runtime.transactional_commits`. v3 names the member, so that one that
was replaced is refused (KIP-447); v5 makes the group's partition part of the transaction by itself
(KIP-890). v6, which names topics by id, is not stable in Kafka 4.3 and not advertised.
"""

from __future__ import annotations

from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest


def txn_offset_commit(
    context: RequestContext, request: TxnOffsetCommitRequest, *, commits: TransactionalCommits
) -> None:
    """Ask both coordinators; answer when the offsets are in the transaction."""
    commits.commit(request, context.api_version, context.reply)
