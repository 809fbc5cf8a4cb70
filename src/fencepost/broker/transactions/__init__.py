"""The transaction coordinators of this node."""
