# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled byte work of record batches; everything that decides is in the C headers beside.

Optional: each function here has a twin in Python that gives the same results and reports the same
faults (in `walk`, `records`, `record_writer`, `crc`, `partitioner`, `columns_numpy`,
`columns_encode_numpy`).
Buffers are held while they are read, lengths of what is written are checked before writing, and the
GIL is let go only for work that is long enough to be worth the hand-over.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

INTERFACE = 2  # what `backend` expects; raised with every change of a signature below


cdef extern from *:
    """
    /* What `type.__new__(type, values)` gives for a subclass of tuple that has no `__new__`. */
    static PyObject *fpost_tuple_of(PyTypeObject *type, PyObject *arguments)
    {
        return PyTuple_Type.tp_new(type, arguments, NULL);
    }
    """
    object fpost_tuple_of(type, tuple)


cdef extern from "_crc32c.h" nogil:
    int fpost_crc_initialise()
    uint32_t fpost_crc32c_of(const uint8_t *data, size_t size, uint32_t value)


cdef extern from "_records.h" nogil:
    enum:
        FPOST_REASON_OFFSET_DELTA
        FPOST_REASON_BATCH_REST
        FPOST_NO_TIMESTAMP

    ctypedef struct fpost_reason_report:
        int32_t reason
        int64_t index
        int64_t position
        int64_t detail

    ctypedef struct fpost_byte_pair:
        const uint8_t *key
        const uint8_t *value
        int32_t key_size
        int32_t value_size

    ctypedef struct fpost_record_view:
        fpost_byte_pair pair
        const uint8_t *headers
        const uint8_t *end
        int64_t timestamp_delta
        int32_t offset_delta

    ctypedef struct fpost_walk_rules:
        int32_t count
        int64_t base_timestamp
        int64_t timestamp_min
        int64_t timestamp_max
        int key_required

    int fpost_read_record(
        const uint8_t **, const uint8_t *, fpost_record_view *, fpost_reason_report *
    )
    int fpost_read_header_count(const uint8_t **, const uint8_t *, int32_t *, fpost_reason_report *)
    int fpost_read_header(
            const uint8_t **, const uint8_t *, fpost_byte_pair *, fpost_reason_report *
        )
    int fpost_check_record_rest(const uint8_t *, const uint8_t *, fpost_reason_report *)
    int fpost_add_timestamp(int64_t, int64_t, int64_t *, fpost_reason_report *)
    int fpost_walk_payload(
        const uint8_t *, int64_t, const fpost_walk_rules *, int64_t *, fpost_reason_report *
    )


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

    int fpost_varint_size(int64_t)
    uint8_t *fpost_write_varint(uint8_t *, int64_t)
    void fpost_plan_batch(const fpost_row_columns *, int64_t, int64_t, int64_t, fpost_batch_plan *)
    uint8_t *fpost_write_records(
        const fpost_row_columns *, int64_t, const fpost_batch_plan *, uint8_t *
    )
    int32_t fpost_murmur2(const uint8_t *, int64_t)
    void fpost_partition_keys(const fpost_binary_column *, int64_t, int32_t, int32_t *)
    int fpost_order_by_partition(
        const int32_t *, int64_t, int32_t, int64_t *, int32_t *
    )


CRC_IN_HARDWARE = bool(fpost_crc_initialise())

END, FULL, BATCH = FPOST_EVENT_END, FPOST_EVENT_FULL, FPOST_EVENT_BATCH
BAD_BATCH, BAD_RECORD = FPOST_EVENT_BAD_BATCH, FPOST_EVENT_BAD_RECORD
NO_MEMORY = FPOST_EVENT_NO_MEMORY

# Below this, letting the GIL go costs more than it could give.
cdef enum:
    LONG_BYTES = 65536
    HEADER_BYTES = 61

cdef int64_t BATCH_BYTES_MAX = 2**31 - 1 + 12


cdef tuple as_tuple(const fpost_reason_report *report):
    return report.reason, report.index, report.position, report.detail


def crc32c(data, uint32_t value=0):
    """CRC-32C of `data` behind what gave `value`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < LONG_BYTES:
            return fpost_crc32c_of(<const uint8_t *>view.buf, view.len, value)
        with nogil:
            value = fpost_crc32c_of(<const uint8_t *>view.buf, view.len, value)
        return value
    finally:
        PyBuffer_Release(&view)


def walk(
    payload,
    int32_t count,
    int64_t base_timestamp,
    bint key_required,
    int64_t timestamp_min,
    int64_t timestamp_max,
):
    """(None or the reason, greatest timestamp) of a producer's records; see `walk.walk`."""
    cdef Py_buffer view
    cdef fpost_reason_report report
    cdef fpost_walk_rules rules
    cdef int64_t greatest
    cdef int sound
    rules.count = count
    rules.base_timestamp = base_timestamp
    rules.timestamp_min = timestamp_min
    rules.timestamp_max = timestamp_max
    rules.key_required = key_required
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if view.len < LONG_BYTES:
            sound = fpost_walk_payload(
                <const uint8_t *>view.buf, view.len, &rules, &greatest, &report
            )
        else:
            with nogil:
                sound = fpost_walk_payload(
                    <const uint8_t *>view.buf, view.len, &rules, &greatest, &report
                )
    finally:
        PyBuffer_Release(&view)
    return (None if sound else as_tuple(&report)), greatest


cdef object as_bytes(const uint8_t *data, int32_t size):
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>data, size)


cdef object read_header_list(const fpost_record_view *record, fpost_reason_report *report):
    """The record's headers as a tuple of (str, bytes or None), or None with the reason reported."""
    cdef const uint8_t *at = record.headers
    cdef int32_t count, index
    cdef fpost_byte_pair header
    if not fpost_read_header_count(&at, record.end, &count, report):
        return None
    if count == 0:
        return () if fpost_check_record_rest(at, record.end, report) else None
    headers = []
    for index in range(count):
        if not fpost_read_header(&at, record.end, &header, report):
            return None
        key = PyUnicode_DecodeUTF8(<char *>header.key, header.key_size, "replace")
        headers.append((key, as_bytes(header.value, header.value_size)))
    return tuple(headers) if fpost_check_record_rest(at, record.end, report) else None


def read_rows(
    payload,
    int32_t count,
    int64_t base_offset,
    int32_t last_offset_delta,
    int64_t base_timestamp,
    log_append_time,
    type row_type=tuple,
    tuple prefix=(),
):
    """(None or the reason, rows) of a batch's records, each row in the order of `records.Record`.

    `log_append_time` is the timestamp of all records, or None when they have their own. Rows are of
    `row_type`, tuple or a NamedTuple, and begin with what is in `prefix`.
    """
    cdef Py_buffer view
    cdef fpost_reason_report report
    cdef fpost_record_view record
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int32_t kind = 0 if log_append_time is None else 1
    cdef int64_t timestamp = 0 if log_append_time is None else log_append_time
    cdef bint plain = row_type is tuple
    cdef tuple row
    if not issubclass(row_type, tuple):
        raise TypeError(f"rows are tuples, not {row_type.__name__}")
    rows = []
    memset(&report, 0, sizeof(report))
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t *>view.buf
        end = at + view.len
        while report.index < count:
            report.position = at - <const uint8_t *>view.buf
            if not fpost_read_record(&at, end, &record, &report):
                return as_tuple(&report), rows
            if record.offset_delta < 0 or record.offset_delta > last_offset_delta:
                report.reason = FPOST_REASON_OFFSET_DELTA
                report.detail = record.offset_delta
                return as_tuple(&report), rows
            if kind == 0 and not fpost_add_timestamp(
                base_timestamp, record.timestamp_delta, &timestamp, &report
            ):
                return as_tuple(&report), rows
            headers = read_header_list(&record, &report)
            if headers is None:
                return as_tuple(&report), rows
            row = (
                base_offset + record.offset_delta,
                timestamp,
                kind,
                as_bytes(record.pair.key, record.pair.key_size),
                as_bytes(record.pair.value, record.pair.value_size),
                headers,
            )
            if prefix:
                row = prefix + row
            rows.append(row if plain else fpost_tuple_of(row_type, (row,)))
            report.index += 1
        if at != end:
            report.position = at - <const uint8_t *>view.buf
            report.reason = FPOST_REASON_BATCH_REST
            report.detail = end - at
            return as_tuple(&report), rows
        return None, rows
    finally:
        PyBuffer_Release(&view)


cdef uint8_t *write_bytes(uint8_t *at, bytes data) noexcept:
    if data is None:
        return fpost_write_varint(at, -1)
    at = fpost_write_varint(at, PyBytes_GET_SIZE(data))
    memcpy(at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return at + PyBytes_GET_SIZE(data)


cdef int64_t bytes_size(bytes data) noexcept:
    if data is None:
        return 1
    return fpost_varint_size(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef int64_t body_size(
    int64_t offset_delta, int64_t timestamp_delta, bytes key, bytes value, headers
) except -1:
    """Bytes of a record behind its length; OverflowError beyond 2 GiB."""
    cdef int64_t size = (
        1
        + fpost_varint_size(timestamp_delta)
        + fpost_varint_size(offset_delta)
        + bytes_size(key)
        + bytes_size(value)
        + fpost_varint_size(len(headers))
    )
    for name, content in headers:
        size += bytes_size(name) + bytes_size(content)
    if size > 0x7FFFFFFF:
        raise OverflowError(f"a record of {size} bytes")
    return size


cdef int write_record(
    uint8_t *at, int64_t body, int64_t offset_delta, int64_t timestamp_delta,
    bytes key, bytes value, headers,
) except -1:
    """Write the record whose `body_size` that is; there is room for it."""
    at = fpost_write_varint(at, body)
    at[0] = 0
    at = fpost_write_varint(at + 1, timestamp_delta)
    at = fpost_write_varint(at, offset_delta)
    at = write_bytes(at, key)
    at = write_bytes(at, value)
    at = fpost_write_varint(at, len(headers))
    for name, content in headers:
        at = write_bytes(at, name)
        at = write_bytes(at, content)
    return 0


def encode_record(
    int32_t offset_delta, int64_t timestamp_delta, bytes key, bytes value, list headers
):
    """One record; `headers` is a list of (key bytes, value bytes or None)."""
    cdef int64_t body = body_size(offset_delta, timestamp_delta, key, value, headers)
    record = PyBytes_FromStringAndSize(NULL, fpost_varint_size(body) + body)
    write_record(
        <uint8_t *>PyBytes_AS_STRING(record), body, offset_delta, timestamp_delta,
        key, value, headers,
    )
    return record


cdef bytes checked(str what, data):
    """What a record may hold, as bytes."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"a {what} is bytes or None, not {type(data).__name__}")


cdef class RecordWriter:
    """Collects the records of one batch; see `record_writer.RecordWriter`."""

    cdef readonly bytearray payload
    cdef readonly int64_t count, base_timestamp, max_timestamp

    def __cinit__(self):
        self.payload = bytearray()
        self.base_timestamp = self.max_timestamp = FPOST_NO_TIMESTAMP

    def append(self, key, value, headers, timestamp_ms):
        """Add a record; the bytes that the batch would have now, without compression."""
        cdef int64_t timestamp, base, delta, body, size
        cdef int64_t before = PyByteArray_GET_SIZE(self.payload)
        cdef bytes key_bytes, value_bytes
        try:
            timestamp = timestamp_ms
            base = timestamp if self.count == 0 else self.base_timestamp
            delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base)
            if ((timestamp ^ base) & (timestamp ^ delta)) < 0:
                raise OverflowError
        except OverflowError:
            told = timestamp_ms if self.count == 0 else self.base_timestamp
            raise OverflowError(
                f"timestamp {timestamp_ms} ms beside {told} ms passes 64 bits"
            ) from None
        encoded = () if headers == () else [
            (name.encode(), checked("header value", one)) for name, one in headers
        ]
        key_bytes = checked("key", key)
        value_bytes = checked("value", value)
        body = body_size(self.count, delta, key_bytes, value_bytes, encoded)
        size = fpost_varint_size(body) + body
        if HEADER_BYTES + before + size > BATCH_BYTES_MAX:
            raise OverflowError("a batch has at most 2 GiB")
        PyByteArray_Resize(self.payload, before + size)
        write_record(
            <uint8_t *>PyByteArray_AS_STRING(self.payload) + before, body, self.count, delta,
            key_bytes, value_bytes, encoded,
        )
        self.count += 1
        self.base_timestamp = base
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return HEADER_BYTES + before + size


cdef class Target:
    """A writable buffer of at least the size that will be written, held while it is."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, buffer, int64_t size):
        if buffer is None:
            return
        PyObject_GetBuffer(buffer, &self.view, PyBUF_WRITABLE)
        self.held = True
        if self.view.len < size:
            raise ValueError(f"{size} bytes do not fit into a buffer of {self.view.len}")

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef void *address(self):
        return self.view.buf if self.held else NULL


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


cdef class Source:
    """A read-only buffer, held; None has the address NULL."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, buffer):
        if buffer is not None:
            PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
            self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef const void *address(self):
        return self.view.buf if self.held else NULL

    cdef int require(self, int64_t size) except -1:
        """Raise unless there are `size` bytes."""
        cdef int64_t found = self.view.len if self.held else 0
        if found < size:
            raise ValueError(f"a buffer of {found} bytes should have {size}")
        return 0


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
