"""The metadata log at work: opened, replayed, its snapshots generated and fetched."""
