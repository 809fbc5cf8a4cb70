"""Keys hashed to partitions, and rows put in the order of theirs. Part of `_kernels`.

What decides is in `_encode.h`; the twins are `partitioner`, `columns_encode_numpy` and NumPy's
`argsort`.
"""

cdef extern from "_encode.h" nogil:
    int32_t fpost_murmur2(const uint8_t *, int64_t)
    void fpost_partition_keys(const fpost_binary_column *, int64_t, int32_t, int32_t *)
    int fpost_order_by_partition(
        const int32_t *, int64_t, int32_t, int64_t *, int32_t *
    )


def murmur2(data):
    """Kafka's hash of a key, as a signed 32-bit number."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return fpost_murmur2(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def partition_of_key(data, int32_t partitions):
    """The partition of one key among so many."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return (fpost_murmur2(<const uint8_t *>view.buf, view.len) & 0x7FFFFFFF) % partitions
    finally:
        PyBuffer_Release(&view)


def partition_keys(keys, int64_t count, int32_t partitions, out):
    """Write the partition of every key of a binary column to int32 `out`, -1 for null."""
    cdef fpost_binary_column column
    cdef Target target = Target(out, 4 * count)
    cdef int32_t *to = <int32_t *>target.address()
    held = []
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    fill_column(&column, held, keys, count)
    with nogil:
        fpost_partition_keys(&column, count, partitions, to)


def order_by_partition(partition, int64_t count, int32_t partitions, ends, order):
    """Sort row numbers by partition; False if a number is not below `partitions`."""
    cdef Source source = Source(partition)
    source.require(4 * count)
    cdef Target to_ends = Target(ends, 8 * <int64_t>partitions)
    cdef Target to_order = Target(order, 4 * count)
    cdef const int32_t *at = <const int32_t *>source.address()
    cdef int64_t *ends_at = <int64_t *>to_ends.address()
    cdef int32_t *order_at = <int32_t *>to_order.address()
    cdef int sorted_all
    with nogil:
        sorted_all = fpost_order_by_partition(at, count, partitions, ends_at, order_at)
    return bool(sorted_all)
