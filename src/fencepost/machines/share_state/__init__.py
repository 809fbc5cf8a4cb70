"""The state of share partitions, as the share coordinator keeps it in `__share_group_state`."""
