"""Security of a broker's listeners: key files, TLS, and whom a client's certificate makes it."""
