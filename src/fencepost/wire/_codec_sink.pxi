"""Where encoders write: a buffer that grows, and parts that are not copied. Part of `_codec`."""

cdef struct Sink:
    uint8_t *buf
    uint8_t *pos
    uint8_t *end
    PyObject *owner  # a bytes object in the making whose memory `buf` is; NULL on the stack
    PyObject *parts
    Py_ssize_t split_bytes


cdef int grow(Sink *s, Py_ssize_t more) noexcept:
    cdef Py_ssize_t used = s.pos - s.buf
    cdef Py_ssize_t capacity = (s.end - s.buf) * 2
    if capacity < used + more:
        capacity = used + more
    if s.owner == NULL:
        s.owner = PyBytes_FromStringAndSize(NULL, capacity)
        if s.owner != NULL:
            memcpy(PyBytes_AS_STRING(s.owner), s.buf, used)
    else:
        _PyBytes_Resize(&s.owner, capacity)
    if s.owner == NULL:
        return -1
    s.buf = <uint8_t *>PyBytes_AS_STRING(s.owner)
    s.pos = s.buf + used
    s.end = s.buf + capacity
    return 0


cdef inline int need(Sink *s, Py_ssize_t more) noexcept:
    """Room for so many more bytes; MemoryError when there is none."""
    return 0 if s.end - s.pos >= more else grow(s, more)


cdef PyObject *take(Sink *s) noexcept:
    """What was written, as bytes; the sink cannot be used any more."""
    cdef PyObject *written
    if s.owner == NULL:
        return PyBytes_FromStringAndSize(<const char *>s.buf, s.pos - s.buf)
    _PyBytes_Resize(&s.owner, s.pos - s.buf)
    written = s.owner
    s.owner = NULL
    return written


cdef int put_bytes(Sink *s, const void *data, Py_ssize_t size) noexcept:
    if need(s, size) < 0:
        return -1
    memcpy(s.pos, data, size)
    s.pos += size
    return 0


cdef inline int store_uvarint(uint8_t *p, uint32_t value) noexcept:
    """Write a varint where there is room for it; returns its size."""
    cdef int size = 1
    while value > 0x7F:
        p[size - 1] = <uint8_t>(value & 0x7F | 0x80)
        size += 1
        value >>= 7
    p[size - 1] = <uint8_t>value
    return size


cdef inline int put_uvarint(Sink *s, int64_t value) noexcept:
    if value != <uint32_t>value or need(s, VARINT_BYTES) < 0:
        return -1
    s.pos += store_uvarint(s.pos, <uint32_t>value)
    return 0


cdef inline int put_length(
    Sink *s, bint is_compact, int plain_width, int64_t length
) noexcept:
    """A length or count, -1 for null."""
    if is_compact:
        return put_uvarint(s, length + 1)
    if length > (0x7FFF if plain_width == 2 else 0x7FFFFFFF) or need(s, 4) < 0:
        return -1
    if plain_width == 2:
        fpost_store16(s.pos, <uint64_t>length)
    else:
        fpost_store32(s.pos, <uint64_t>length)
    s.pos += plain_width
    return 0


cdef int uvarint_width(int64_t value) noexcept:
    cdef int width = 1
    while value > 0x7F:
        value >>= 7
        width += 1
    return width


cdef bint hold_flat_view(PyObject *value, Py_buffer *buffer) noexcept:
    """Whether `value` is a memoryview that `as_view` would return as it is; if so, holds it."""
    cdef Py_buffer *own
    if not PyMemoryView_Check(value):
        return False
    if PyObject_GetBuffer(value, buffer, PyBUF_SIMPLE) < 0:  # released, or not contiguous
        PyErr_Clear()
        return False
    own = PyMemoryView_GET_BUFFER(value)
    if own.ndim == 1 and own.format != NULL and own.format[0] == b"B" and own.format[1] == 0:
        return True
    PyBuffer_Release(buffer)
    return False


cdef PyObject *flat_part(PyObject *value, const void **data, Py_ssize_t *size) noexcept:
    """A piece of records that is one run of bytes, and where it lies.

    What is no plain `bytes` comes as a view, which keeps a bytearray from being resized.
    """
    cdef Py_buffer buffer
    cdef PyObject *part
    if PyBytes_CheckExact(value):
        data[0] = PyBytes_AS_STRING(value)
        size[0] = PyBytes_GET_SIZE(value)
        return Py_NewRef(value)
    if PyMemoryView_Check(value):
        if hold_flat_view(value, &buffer):
            data[0] = buffer.buf
            size[0] = buffer.len
            PyBuffer_Release(&buffer)
            return Py_NewRef(value)
    elif not (PyBytes_Check(value) or PyByteArray_Check(value)):
        return NULL
    part = PyObject_CallFunctionObjArgs(<PyObject *>AS_VIEW, value, <PyObject *>NULL)
    if part != NULL:
        data[0] = PyMemoryView_GET_BUFFER(part).buf
        size[0] = PyMemoryView_GET_BUFFER(part).len
    return part


cdef int add_part(Sink *s, PyObject *piece) noexcept:
    if s.parts == NULL:
        s.parts = PyList_New(0)
        if s.parts == NULL:
            return -1
    return PyList_Append(s.parts, piece)


cdef int end_part(Sink *s) noexcept:
    """Move what is in the buffer to the list of parts."""
    cdef PyObject *piece
    cdef int result
    if s.pos == s.buf:
        return 0
    piece = PyBytes_FromStringAndSize(<const char *>s.buf, s.pos - s.buf)
    if piece == NULL:
        return -1
    result = add_part(s, piece)
    Py_DECREF(piece)
    s.pos = s.buf
    return result


cdef Py_ssize_t write_part(Sink *s, PyObject *value) noexcept:
    """Returns the size of what was written, or -1."""
    cdef const void *data = NULL
    cdef Py_ssize_t size = 0
    cdef PyObject *part = flat_part(value, &data, &size)
    cdef int result = -1
    if part == NULL:
        return -1
    if size < s.split_bytes:
        result = put_bytes(s, data, size)
    elif end_part(s) == 0:
        result = add_part(s, part)
    Py_DECREF(part)
    return -1 if result < 0 else size
