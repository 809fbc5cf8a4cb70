"""Buffers of Python's that are written to and read from as they are. Part of `_kernels`."""

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
