"""Headers of batches that are sound, a buffer's worth in one call. Part of `_kernels`.

What decides is in `_columns.h`; the twin is `header.sound_headers`.
"""

cdef extern from "_columns.h" nogil:
    uint32_t fpost_big32(const uint8_t *)
    int64_t fpost_big64(const uint8_t *)
    int64_t fpost_count_sound_batches(const uint8_t *, const uint8_t *)


cdef object header_at(const uint8_t *at, type header_type):
    """The v2 header at `at`, of `header.BatchHeader`."""
    return fpost_tuple_of(
        header_type,
        ((
            fpost_big64(at),
            <int32_t>fpost_big32(at + 8),
            <int32_t>fpost_big32(at + 12),
            <int8_t>at[16],
            fpost_big32(at + 17),
            <int16_t>(at[21] << 8 | at[22]),
            <int32_t>fpost_big32(at + 23),
            fpost_big64(at + 27),
            fpost_big64(at + 35),
            fpost_big64(at + 43),
            <int16_t>(at[51] << 8 | at[52]),
            <int32_t>fpost_big32(at + 53),
            <int32_t>fpost_big32(at + 57),
        ),),
    )


def sound_headers(buf, int64_t pos, type header_type):
    """Headers of the batches from `pos` on that are sound; see `header.sound_headers`."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t count
    headers = []
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= pos <= view.len:
            raise ValueError(f"no batch begins at {pos} of {view.len} bytes")
        at = <const uint8_t *>view.buf + pos
        end = <const uint8_t *>view.buf + view.len
        if end - at < LONG_BYTES:
            count = fpost_count_sound_batches(at, end)
        else:
            with nogil:
                count = fpost_count_sound_batches(at, end)
        while count > 0:
            headers.append(header_at(at, header_type))
            at += <int64_t>fpost_big32(at + 8) + 12
            count -= 1
        return headers
    finally:
        PyBuffer_Release(&view)
