"""Rows collected of many batches, and filled into columns. Part of `_kernels`.

What decides is in `_columns.h`; the twin is `columns_numpy`.
"""

cdef extern from "_columns.h" nogil:
    enum:
        FPOST_EVENT_END
        FPOST_EVENT_FULL
        FPOST_EVENT_BATCH
        FPOST_EVENT_BAD_BATCH
        FPOST_EVENT_BAD_RECORD
        FPOST_EVENT_NO_MEMORY

    ctypedef struct fpost_batch_facts:
        int64_t base_offset

    ctypedef struct fpost_scanner:
        int64_t start_offset, end_offset, bytes_max
        int32_t rows_max
        int want_headers, want_micros, check_crc, ask_transactional
        const uint8_t *blob
        const uint8_t *blob_at
        const uint8_t *blob_end
        fpost_batch_facts batch
        fpost_byte_pair *rows
        int64_t *offsets
        int64_t *timestamps
        int32_t *types
        fpost_byte_pair *headers
        int64_t row_count, header_count
        int64_t key_bytes, value_bytes, header_key_bytes, header_value_bytes
        int64_t key_nulls, value_nulls, header_value_nulls, rows_without_headers
        int header_keys_ascii
        fpost_reason_report report

    void fpost_scanner_clear_rows(fpost_scanner *)
    void fpost_scanner_free(fpost_scanner *)
    void fpost_scanner_open_payload(
        fpost_scanner *, const uint8_t *, int64_t, const fpost_batch_facts *
    )
    int fpost_scanner_advance(fpost_scanner *)
    int fpost_read_batch_facts(const uint8_t *, int64_t *, fpost_batch_facts *)
    void fpost_fill_keys(const fpost_byte_pair *, int64_t, int32_t *, uint8_t *, uint8_t *)
    void fpost_fill_values(const fpost_byte_pair *, int64_t, int32_t *, uint8_t *, uint8_t *)
    void fpost_fill_lists(const fpost_scanner *, int32_t *, uint8_t *)


END, FULL, BATCH = FPOST_EVENT_END, FPOST_EVENT_FULL, FPOST_EVENT_BATCH
BAD_BATCH, BAD_RECORD = FPOST_EVENT_BAD_BATCH, FPOST_EVENT_BAD_RECORD
NO_MEMORY = FPOST_EVENT_NO_MEMORY


cdef class RowScanner:
    """Collects rows of many batches; see `_columns.h`. Not to be shared between threads."""

    cdef fpost_scanner state
    cdef Py_buffer blob
    cdef bint held
    cdef list payloads

    def __cinit__(
        self,
        blob,
        int64_t start_offset,
        int64_t end_offset,
        int32_t rows_max,
        int64_t bytes_max,
        *,
        bint want_headers,
        bint want_micros,
        bint check_crc,
        bint ask_transactional,
    ):
        memset(&self.state, 0, sizeof(self.state))
        fpost_scanner_clear_rows(&self.state)
        self.payloads = []
        PyObject_GetBuffer(blob, &self.blob, PyBUF_SIMPLE)
        self.held = True
        self.state.blob = self.state.blob_at = <const uint8_t *>self.blob.buf
        self.state.blob_end = self.state.blob + self.blob.len
        self.state.start_offset = start_offset
        self.state.end_offset = end_offset
        self.state.rows_max = rows_max
        self.state.bytes_max = bytes_max
        self.state.want_headers = want_headers
        self.state.want_micros = want_micros
        self.state.check_crc = check_crc
        self.state.ask_transactional = ask_transactional

    def __dealloc__(self):
        fpost_scanner_free(&self.state)
        if self.held:
            PyBuffer_Release(&self.blob)

    def advance(self):
        """Go on until something is to be done, and say what."""
        cdef int event
        with nogil:
            event = fpost_scanner_advance(&self.state)
        return event

    @property
    def position(self):
        """Where the batch that the last event speaks of begins in the blob."""
        return self.state.blob_at - self.state.blob

    @property
    def report(self):
        """The reason behind BAD_RECORD."""
        return as_tuple(&self.state.report)

    @property
    def base_offset(self):
        """Base offset of the batch whose record is invalid."""
        return self.state.batch.base_offset

    @property
    def row_count(self):
        """Rows collected since the last `clear`."""
        return self.state.row_count

    def skip_batch(self):
        """Pass over the batch at `position`."""
        self._pass_batch(NULL)

    def take_batch(self, bytes payload):
        """Go on with the records of the batch at `position`: these, or its own when None."""
        cdef fpost_batch_facts facts
        cdef const uint8_t *at = self.state.blob_at
        cdef int64_t size = self._pass_batch(&facts)
        if payload is None:
            fpost_scanner_open_payload(&self.state, at + 61, size - 61, &facts)
        else:
            self.payloads.append(payload)
            fpost_scanner_open_payload(
                &self.state,
                <const uint8_t *>PyBytes_AS_STRING(payload),
                PyBytes_GET_SIZE(payload),
                &facts,
            )

    cdef int64_t _pass_batch(self, fpost_batch_facts *facts) except -1:
        cdef fpost_batch_facts ignored
        cdef int64_t size
        if self.state.blob_end - self.state.blob_at < 61 or not fpost_read_batch_facts(
            self.state.blob_at, &size, &ignored if facts == NULL else facts
        ) or size > self.state.blob_end - self.state.blob_at:
            raise ValueError("there is no whole batch at the position")
        self.state.blob_at += size
        return size

    def sizes(self):
        """Bytes and nulls to come: keys, values, header keys, header values, and list facts."""
        s = self.state
        return (
            (s.key_bytes, s.key_nulls),
            (s.value_bytes, s.value_nulls),
            (s.header_count, s.rows_without_headers, bool(s.header_keys_ascii)),
            (s.header_key_bytes, 0),
            (s.header_value_bytes, s.header_value_nulls),
        )

    def fill_pairs(self, bint of_headers, bint values, ends, data, valid):
        """Write keys or values, of the rows or of their headers, in Arrow's binary layout."""
        cdef fpost_scanner *s = &self.state
        cdef int64_t count = s.header_count if of_headers else s.row_count
        cdef const fpost_byte_pair *pairs = s.headers if of_headers else s.rows
        cdef int64_t size
        if of_headers:
            size = s.header_value_bytes if values else s.header_key_bytes
        else:
            size = s.value_bytes if values else s.key_bytes
        cdef Target to_ends = Target(ends, 4 * (count + 1))
        cdef Target to_data = Target(data, size)
        cdef Target to_valid = Target(valid, (count + 7) // 8)
        cdef int32_t *ends_at = <int32_t *>to_ends.address()
        cdef uint8_t *data_at = <uint8_t *>to_data.address()
        cdef uint8_t *valid_at = <uint8_t *>to_valid.address()
        with nogil:
            if values:
                fpost_fill_values(pairs, count, ends_at, data_at, valid_at)
            else:
                fpost_fill_keys(pairs, count, ends_at, data_at, valid_at)

    def fill_lists(self, ends, valid):
        """Write the list level of the headers."""
        cdef Target to_ends = Target(ends, 4 * (self.state.row_count + 1))
        cdef Target to_valid = Target(valid, (self.state.row_count + 7) // 8)
        fpost_fill_lists(
            &self.state, <int32_t *>to_ends.address(), <uint8_t *>to_valid.address()
        )

    def fill_numbers(self, offsets, timestamps, types):
        """Copy offsets, timestamps (int64) and timestamp types (int32); None is left out."""
        cdef int64_t count = self.state.row_count
        cdef Target target = Target(offsets, 8 * count)
        if target.held and count:
            memcpy(target.address(), self.state.offsets, 8 * count)
        target = Target(timestamps, 8 * count)
        if target.held and count:
            memcpy(target.address(), self.state.timestamps, 8 * count)
        target = Target(types, 4 * count)
        if target.held and count:
            memcpy(target.address(), self.state.types, 4 * count)

    def clear(self, bint keep_last):
        """Forget the rows; `keep_last` when the payload given last is not read to its end."""
        fpost_scanner_clear_rows(&self.state)
        self.payloads = [self.payloads.pop()] if keep_last and self.payloads else []
