"""Consumer groups (KIP-848): the coordinator assigns, and each member moves to it on its own.

`groups.ConsumerGroups` is their row in the table of types.
"""
