"""Records written one by one, as producers have them. Part of `_kernels`.

The twin is `record_writer`.
"""

cdef extern from "_encode.h" nogil:
    int fpost_varint_size(int64_t)
    uint8_t *fpost_write_varint(uint8_t *, int64_t)


cdef enum:
    HEADER_BYTES = 61

cdef int64_t BATCH_BYTES_MAX = 2**31 - 1 + 12


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
