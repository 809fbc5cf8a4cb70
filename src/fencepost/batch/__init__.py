"""Record batches: header, records, control records, compression, columns."""
