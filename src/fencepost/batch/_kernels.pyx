# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled byte work of record batches; everything that decides is in the C headers beside.

Optional: each function here has a twin in Python that gives the same results and reports the same
faults (in `walk`, `records`, `record_writer`, `header`, `key_offsets`, `crc`, `partitioner`,
`columns_numpy`, `columns_encode_numpy`).
Buffers are held while they are read, lengths of what is written are checked before writing, and the
GIL is let go only for work that is long enough to be worth the hand-over.

The parts are included below: `_kernels_records.pxi` reads records, `_kernels_headers.pxi` headers
of batches, `_kernels_writer.pxi` writes records one by one, `_kernels_scanner.pxi` makes columns of
batches and `_kernels_encoder.pxi` batches of columns, `_kernels_partitions.pxi` finds partitions,
`_kernels_compaction.pxi` tells which records compaction keeps. `_kernels_buffers.pxi` is what
scanner, encoder and partitions reach Python's buffers with.
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
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

INTERFACE = 4  # what `backend` expects; raised with every change of a signature below


cdef extern from "_crc32c.h" nogil:
    int fpost_crc_initialise()
    uint32_t fpost_crc32c_of(const uint8_t *data, size_t size, uint32_t value)


CRC_IN_HARDWARE = bool(fpost_crc_initialise())

# Below this, letting the GIL go costs more than it could give.
cdef enum:
    LONG_BYTES = 65536


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


include "_kernels_records.pxi"
include "_kernels_headers.pxi"
include "_kernels_writer.pxi"
include "_kernels_buffers.pxi"
include "_kernels_scanner.pxi"
include "_kernels_encoder.pxi"
include "_kernels_partitions.pxi"
include "_kernels_compaction.pxi"
