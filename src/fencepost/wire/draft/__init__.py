"""Messages of drafts: proposed for Kafka, tried out on a branch, and never released.

A draft has no API key. The number its branch used was given to another API later (53 is
BeginQuorumEpoch today), so a draft is in no table of APIs, no broker advertises it by itself, and
`frame` refuses its requests: a client that speaks one must agree with the peer on how to reach it.

* `fetch_quorum_records`: how Raft voters read the log before Fetch v12 learned it (KIP-595);
* `mapping`: that draft and Fetch v12+, translated into each other.
"""
