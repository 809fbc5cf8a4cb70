"""Decisions without I/O: quorum, partitions, groups, controller, and the driver they share."""
