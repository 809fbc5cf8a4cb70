# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads from the page cache into memory that is not cleared before; see `page_cache`.

Optional: `os.preadv` does the same into a `bytearray`, which is full of zeros first. For a megabyte
that is a twentieth of what it costs to read and send it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t

INTERFACE = 1  # what `page_cache` expects; raised with every change of a signature below

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <stdint.h>
    #include <sys/types.h>
    #include <sys/uio.h>

    /* As `pread`: -1 and EAGAIN where it would wait for the disk; ENOSYS without such a call. */
    static inline ssize_t fpost_read_cached(int descriptor, void *to, size_t size, int64_t position)
    {
    #ifdef RWF_NOWAIT
        struct iovec vector = {to, size};
        return preadv2(descriptor, &vector, 1, (off_t)position, RWF_NOWAIT);
    #else
        (void)descriptor, (void)to, (void)size, (void)position;
        errno = ENOSYS;
        return -1;
    #endif
    }
    """
    ssize_t fpost_read_cached(int descriptor, void *to, size_t size, int64_t position) nogil

cdef enum:
    LONG_BYTES = 65536  # below this, letting the GIL go costs more than it could give


def read_cached(int descriptor, Py_ssize_t size, int64_t position):
    """Up to `size` bytes from `position`, as far as they are cached or the file goes.

    BlockingIOError if none are; OSError; ValueError for what is negative.
    """
    if size < 0 or position < 0:  # the call takes -1 for wherever the descriptor stands
        raise ValueError(f"{size} bytes from {position} on cannot be read")
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef char *to = PyBytes_AS_STRING(data)
    cdef ssize_t count
    while True:
        if size < LONG_BYTES:
            count = fpost_read_cached(descriptor, to, size, position)
        else:
            with nogil:
                count = fpost_read_cached(descriptor, to, size, position)
        if count >= 0:
            return data if count == size else data[:count]
        if errno != EINTR:
            PyErr_SetFromErrno(OSError)
        PyErr_CheckSignals()
