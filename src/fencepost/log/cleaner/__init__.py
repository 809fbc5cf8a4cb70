"""Log compaction: of each key the last record stays, at its offset, in its order.

Theory of operation
-------------------
Policy `compact` promises that a consumer that reads a log from its start sees at least the last
value of every key. A cleaning goes over a log in two passes. The first reads the *dirty* part,
behind what earlier cleanings have covered, and notes the last offset of every key (`offset_map`).
The second copies all closed segments below, several small ones into one, and leaves out what is
superseded (`filter`); then the copies take the place of the originals (`swap`).

Two threads share the work. The log's owner says what may be cleaned (`plan`), and puts the finished
copies in place (`owner`); between the two a cleaner's thread reads closed segments, which never
change, and writes files that no other thread opens (`job`):

    owner    measure_dirt -> begin_cleaning               begin_swap           finish_swap
    thread                              Cleaning.run: copy              Swap.run

A truncation, a deletion or a new log start while a cleaning runs aborts it: what it has not put in
place is thrown away, and costs nothing but the work.

Kafka's rules (its LogCleaner, KIP-58, KIP-98, KIP-354, KIP-534) hold throughout: nothing from the
active segment, the last stable offset or the recovery point on is cleaned; offsets are never
changed; batches keep what producers are recognized by. Two things are done differently. Every copy
ends with its last batch, emptied if need be, so segments go on following each other without a gap.
And a batch whose CRC fails ends the cleaning, so that damage never gets a good CRC.
"""
