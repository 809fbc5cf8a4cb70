"""The partitions of this node: their logs and machines, compaction, and fetches that wait."""
