"""The coordinator of transactions as a machine: decide, then apply.

`coordinator.TransactionCoordinator` is the machine. Nothing is imported here, so that a broker that
coordinates no transactions starts without it.
"""
