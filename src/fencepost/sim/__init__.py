"""The deterministic simulator: one seed, one world, in which the product's own code meets trouble.

Quorum machines, the effect driver, `MetadataHost`, `ControllerHost`, the controller and the real
log run here as they run in a process; what they stand on is simulated: time, the network, disks,
and processes that die. Every choice the world makes is drawn from one tape (`tape.py`), so a seed
is a bug report, and a tape can be cut down to the few choices that matter (`shrink.py`).

docs/SIMULATOR.md is the guide.
"""
