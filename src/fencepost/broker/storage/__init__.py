"""Log directories: found, formatted, opened, recovered, and which of them a partition is in."""
