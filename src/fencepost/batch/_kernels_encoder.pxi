"""Rows of columns written as batches. Part of `_kernels`.

What decides is in `_encode.h`; the twin is `columns_encode_numpy`.
"""

cdef extern from "_encode.h" nogil:
    ctypedef struct fpost_binary_column:
        const int32_t *ends
        const uint8_t *data
        const uint8_t *valid
        int64_t bit_offset

    ctypedef struct fpost_row_columns:
        fpost_binary_column key
        fpost_binary_column value
        const int64_t *timestamps
        const int32_t *order
        const int32_t *list_ends
        const uint8_t *list_valid
        int64_t list_bit_offset
        fpost_binary_column header_key
        fpost_binary_column header_value

    ctypedef struct fpost_batch_plan:
        int64_t end
        int64_t payload_size
        int64_t too_large
        int64_t base_timestamp
        int64_t max_timestamp

    void fpost_plan_batch(const fpost_row_columns *, int64_t, int64_t, int64_t, fpost_batch_plan *)
    uint8_t *fpost_write_records(
        const fpost_row_columns *, int64_t, const fpost_batch_plan *, uint8_t *
    )


cdef int fill_column(fpost_binary_column *column, list held, parts, int64_t rows) except -1:
    """Set a column from (ends, data, valid, offset) as pyarrow has them, checking their sizes."""
    memset(column, 0, sizeof(fpost_binary_column))
    if parts is None:
        return 0
    ends, data, valid, offset = parts
    cdef int64_t first = offset
    cdef Source source = Source(ends)
    if rows == 0:
        return 0
    source.require(4 * (first + rows + 1))
    held.append(source)
    column.ends = <const int32_t *>source.address() + first
    source = Source(data)
    source.require(column.ends[rows])
    held.append(source)
    column.data = <const uint8_t *>source.address()
    source = Source(valid)
    if source.held:
        source.require((first + rows + 7) // 8)
    held.append(source)
    column.valid = <const uint8_t *>source.address()
    column.bit_offset = first
    return 0


cdef class RowEncoder:
    """Writes rows of columns as batches' records; see `_encode.h`. Not for several threads.

    A binary column is (ends, data, valid, offset) or None for all null; `headers` is
    (ends, valid, offset, keys, key count, values) or None. Monotonic, non-negative ends are the
    caller's to guarantee (Arrow's `validate`).
    """

    cdef fpost_row_columns columns
    cdef fpost_batch_plan plan
    cdef list held
    cdef int64_t rows, begin

    def __cinit__(self, int64_t rows, key, value, timestamps, headers, order):
        cdef Source source
        memset(&self.columns, 0, sizeof(self.columns))
        self.held = []
        self.rows = rows
        fill_column(&self.columns.key, self.held, key, rows)
        fill_column(&self.columns.value, self.held, value, rows)
        source = Source(timestamps)
        source.require(8 * rows)
        self.held.append(source)
        self.columns.timestamps = <const int64_t *>source.address()
        if order is not None:
            source = Source(order)
            source.require(4 * rows)
            self.held.append(source)
            self.columns.order = <const int32_t *>source.address()
        if headers is not None and rows:
            self._set_headers(headers)

    cdef int _set_headers(self, tuple headers) except -1:
        ends, valid, first, keys, header_count, values = headers
        cdef int64_t offset = first, count = header_count
        cdef Source source = Source(ends)
        source.require(4 * (offset + self.rows + 1))
        self.held.append(source)
        self.columns.list_ends = <const int32_t *>source.address() + offset
        if self.columns.list_ends[self.rows] > count:
            raise ValueError("more headers than header keys")
        source = Source(valid)
        if source.held:
            source.require((offset + self.rows + 7) // 8)
        self.held.append(source)
        self.columns.list_valid = <const uint8_t *>source.address()
        self.columns.list_bit_offset = offset
        fill_column(&self.columns.header_key, self.held, keys, count)
        fill_column(&self.columns.header_value, self.held, values, count)
        return 0

    def plan_batch(self, int64_t begin, int64_t end, int64_t payload_max):
        """(end, payload bytes, size of a first row too large or 0, base and max timestamp)."""
        if not 0 <= begin < end <= self.rows:
            raise ValueError(f"rows {begin} to {end} of {self.rows}")
        self.begin = begin
        with nogil:
            fpost_plan_batch(&self.columns, begin, end, payload_max, &self.plan)
        return (
            self.plan.end,
            self.plan.payload_size,
            self.plan.too_large,
            self.plan.base_timestamp,
            self.plan.max_timestamp,
        )

    def write_batch(self, int64_t room):
        """The records last planned, behind `room` bytes that are the caller's to fill."""
        batch = PyByteArray_FromStringAndSize(NULL, room + self.plan.payload_size)
        cdef uint8_t *at = <uint8_t *>PyByteArray_AS_STRING(batch) + room
        cdef uint8_t *end
        with nogil:
            end = fpost_write_records(&self.columns, self.begin, &self.plan, at)
        if end - at != self.plan.payload_size:
            raise AssertionError("the columns changed while they were written")
        return batch
