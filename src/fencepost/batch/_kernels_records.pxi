"""Records read: a payload walked, or made into rows. Part of `_kernels`.

What decides is in `_records.h`; the twins are `walk` and `records`.
"""

cdef extern from *:
    """
    /* What `type.__new__(type, values)` gives for a subclass of tuple that has no `__new__`. */
    static PyObject *fpost_tuple_of(PyTypeObject *type, PyObject *arguments)
    {
        return PyTuple_Type.tp_new(type, arguments, NULL);
    }
    """
    object fpost_tuple_of(type, tuple)


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
        int64_t record_bytes_max
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


cdef tuple as_tuple(const fpost_reason_report *report):
    return report.reason, report.index, report.position, report.detail


def walk(
    payload,
    int32_t count,
    int64_t base_timestamp,
    bint key_required,
    int64_t timestamp_min,
    int64_t timestamp_max,
    int64_t record_bytes_max,
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
    rules.record_bytes_max = record_bytes_max
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
