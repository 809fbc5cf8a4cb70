"""The group coordinators of this node."""
