"""The classic group type: members join and sync in generations, and one of them assigns.

`groups.ClassicGroups` is its row in the table of types (`machines.group.types`). Simple groups,
which only keep offsets, are of this type, too.
"""
