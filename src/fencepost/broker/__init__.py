"""The asyncio shell around the machines: listener, ports, configuration, one module per API."""
