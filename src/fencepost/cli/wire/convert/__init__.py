"""Bytes into JSON documents, and back into the same bytes.

* Bytes come from files, pipes and hex digits (`bytes_input`, `hex_text`, `packets` for hex dumps of
  packets); `frames` goes through frames.
* `documents` converts messages and frames, `stored` records of Kafka's own logs; `json_parts` reads
  pieces of documents.
* `annotate` adds what is for people, such as the records of a batch (`batches`).
"""
