"""The coordinator of classic groups as a machine: decide, then apply.

`coordinator.GroupCoordinator` is the machine. Nothing is imported here, so that whoever needs the
bounds of memory or the partition of a group does not load it: a broker that coordinates no groups
starts without.
"""
