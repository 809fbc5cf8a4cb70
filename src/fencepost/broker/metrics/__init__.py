"""What a node tells of itself over HTTP: metrics for Prometheus, health and readiness."""
