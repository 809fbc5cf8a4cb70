"""Streams groups (KIP-1071): the coordinator knows the topology and gives members tasks.

The room beside `machines/group/classic`, in the order in which a heartbeat goes through it:
`heartbeat` (its rules and what follows from them), `topology` (what a member says that it runs),
`configuring` (which topics that needs), `target` and `sticky_assignor` (which member is to have
which task), `reconciliation` (how a member gets there). `group` and `member` are the state that the
records of `records` make, `groups` the row in the table of types.
"""
