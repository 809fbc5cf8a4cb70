"""Simulated brokers: the product's broker machines, partitions and logs, over one world's disks,
clocks and network.
"""
