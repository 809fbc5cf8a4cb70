"""The node among other nodes: connections to them, its registration, and the controller."""
