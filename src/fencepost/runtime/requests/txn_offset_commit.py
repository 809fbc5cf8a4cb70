"""TxnOffsetCommit (key 28) v0-6: offsets of a group that count if the transaction does.

The client needs WRITE to its transactional id and READ to the group: without one of them that is
the error of all partitions. The order of the other errors, that of topics which the client may not
read among them, is in `runtime.transactional_commits`. v3 names the member, so that one that was
replaced is refused (KIP-447); v5 makes the group's partition part of the transaction by itself
(KIP-890); v6 names topics by id, and calls an unknown group and an old member epoch what they are
(KIP-1319).
"""

from __future__ import annotations

from functools import partial

from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID
from fencepost.runtime.transactional_commits import TransactionalCommits, refused_commit
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


def txn_offset_commit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    *,
    access: Access,
    commits: TransactionalCommits,
) -> TxnOffsetCommitResponse | None:
    """Ask both coordinators; answer when the offsets are in the transaction."""
    refusal = access.refusal(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    if refusal := refusal or access.refusal(context, READ_GROUP, request.group_id):
        return refused_commit(request, refusal)
    topic_refusal = partial(access.refusal, context, READ_TOPIC)
    commits.commit(request, context.api_version, topic_refusal, context.reply)
    return None
