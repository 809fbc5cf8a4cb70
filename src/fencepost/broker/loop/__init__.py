"""The event loop of a node: timers, the flusher, and the ports that machines act through."""
