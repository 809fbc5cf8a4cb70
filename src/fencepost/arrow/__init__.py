"""Topics as Arrow: planning of reads, detection of lost records, and reading, without Spark."""
