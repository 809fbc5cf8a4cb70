# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Files synced by threads in C, which need no interpreter lock: see `_sync_threads.h`.

Optional: without it, Python's threads run flushes whole (`FlushJob.run`).
`fencepost.log.sync_threads` says what callers may expect of it.
"""

from libc.errno cimport errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free

import os

INTERFACE = 1  # what `sync_threads` expects; raised with every change of a signature below


cdef extern from "_sync_threads.h" nogil:
    enum:
        FPOST_SYNC_UNKNOWN

    ctypedef struct fpost_sync:
        fpost_sync *next
        int64_t number
        int64_t took_ns
        int error
        int descriptors[]

    ctypedef struct fpost_pool:
        int read_end

    fpost_pool *fpost_sync_new(int threads_max)
    int fpost_sync_is_ours(const fpost_pool *pool)
    fpost_sync *fpost_sync_work(int64_t number, int count)
    int fpost_sync_submit(fpost_pool *pool, int64_t lane, fpost_sync *work)
    int fpost_sync_wait(fpost_pool *pool, int64_t number)
    fpost_sync *fpost_sync_take(fpost_pool *pool)
    void fpost_sync_stop(fpost_pool *pool)
    void fpost_sync_free(fpost_pool *pool)


cdef class SyncThreads:
    """See `fencepost.log.sync_threads.SyncThreads`."""

    cdef fpost_pool *_pool

    def __cinit__(self, int threads_max):
        if threads_max < 1:
            raise ValueError("a lane without threads would never do anything")
        self._pool = fpost_sync_new(threads_max)
        if self._pool is NULL:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self._pool is not NULL:
            with nogil:
                fpost_sync_stop(self._pool)
                fpost_sync_free(self._pool)

    def fileno(self):
        """Readable when there is something to take."""
        return self._pool.read_end

    def submit(self, int64_t lane, int64_t number, tuple descriptors):
        """Sync the descriptors, in their order, in the lane. OSError if no thread can."""
        self._check_process()
        cdef int count = <int>len(descriptors)
        cdef int error, i
        cdef fpost_sync *work = fpost_sync_work(number, count)
        if work is NULL:
            raise MemoryError()
        try:
            for i in range(count):
                work.descriptors[i] = descriptors[i]
        except BaseException:
            free(work)
            raise
        error = fpost_sync_submit(self._pool, lane, work)
        if error:
            free(work)
            raise OSError(error, os.strerror(error))

    def wait(self, int64_t number):
        """Wait until that one is done: its errno, 0 if all is well, -1 if it was taken before."""
        self._check_process()
        cdef int error
        with nogil:
            error = fpost_sync_wait(self._pool, number)
        return error

    def take(self):
        """What is done since the last time: (number, errno or 0, microseconds) of each."""
        self._check_process()
        cdef fpost_sync *work = fpost_sync_take(self._pool)
        cdef fpost_sync *behind
        cdef list taken = []
        while work is not NULL:
            taken.append((work.number, work.error, work.took_ns / 1000.0))
            behind = work.next
            free(work)
            work = behind
        return taken

    def stop(self):
        """Do what is left to do, and end the threads; harmless when that is done already."""
        with nogil:
            fpost_sync_stop(self._pool)

    cdef int _check_process(self) except -1:
        if not fpost_sync_is_ours(self._pool):
            raise RuntimeError("the threads are those of the process that this one was forked from")
        return 0
