"""What the console can change in a cluster where its owner allows it: planned and shown first."""
