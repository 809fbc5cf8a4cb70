"""The coordinator of groups as a machine: decide, then apply.

`coordinator.GroupCoordinator` is the machine. `group` and `group_type` are what a type of groups
provides, `types` is the table of those that are offered, and each has a room: `classic`. Nothing is
imported here, so that a module which needs the bounds of memory or the partition of a group does
not load the machine: a broker that coordinates no groups starts without.
"""
