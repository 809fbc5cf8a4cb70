"""One process of a cluster: its parts, started and stopped in order."""
