"""What is in a file of a data directory, item by item: for `fencepost log dump` and for tests.

* `kinds` tells by its name and path what a file is;
* `batches` finds the batches of a segment, and finds its way back to them behind damage;
* `segments`, `indexes` and `documents` make items of the content; `items` says what those are;
* `files` chooses between them, and has files that are only read.

Nothing here writes, locks, or holds more of a file in memory than a batch. Damage is an item like
any other: an operator who looks at a corrupt file wants to see what is left of it.
"""
