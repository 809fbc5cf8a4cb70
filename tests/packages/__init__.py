"""What people install: wheels, containers, units of systemd and of Kubernetes."""
