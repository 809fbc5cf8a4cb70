"""One partition's files, over a Disk port."""
