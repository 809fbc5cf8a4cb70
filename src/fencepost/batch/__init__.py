"""Record batches: header, records, control records, compression, columns, older formats.

A record batch is the unit in which Kafka stores, sends and compresses records, and the unit in
which a leader gives them offsets. This package turns bytes into batches and back, and knows
nothing of topics' settings, files or sockets:

* `header` reads and stamps the 61 bytes in front of a batch, without touching its records;
* `validate` decides whether a producer's batch may enter a log;
* `records` reads and builds batches record by record, `control` the records Kafka writes itself;
* `legacy` reads and writes the messages of formats v0 and v1, `conversion` turns them into batches
  and batches into them;
* `columns` moves whole fetch responses into Arrow and Arrow into batches (needs pyarrow);
* `partitioner` says which partition a key belongs to;
* `compression`, `crc` and `walk` are what these stand on, `backend` chooses C or Python.

Readers take all formats there ever were, also mixed, as logs have them that have seen an upgrade;
only format v2 (magic 2) comes in from producers, and only v2 is written without being asked.
"""
