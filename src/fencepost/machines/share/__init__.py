"""Share groups (KIP-932): what the leader of a partition decides, and the form of its state."""
