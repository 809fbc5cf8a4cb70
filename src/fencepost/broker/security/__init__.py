"""How listeners and connections to other nodes are secured: what is made of the configuration, and
all that reads files of keys, passwords and tokens."""
