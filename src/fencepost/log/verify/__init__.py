"""What is wrong with a data directory: for `fencepost log verify` and for tests.

* `directory` goes through log directories: their own files (`checkpoints`), then each partition;
* `partition` reads a partition's segments once, from the first batch to the last, and shows every
  batch to the checks: `offsets`, `indexes`, `transactions` (with producer snapshots) and `epochs`;
* `facts` is what a log directory says about a partition; `problems` is what is found.

Files are opened for reading only, and no lock is taken. Nothing is held in memory but one batch,
the indexes of one segment, and what is known of producers.
"""
