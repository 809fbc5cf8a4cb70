"""What requests are decided by, for the broker and the simulator alike."""
