"""Share groups (KIP-932): their members, and of which partitions there is a durable state."""
