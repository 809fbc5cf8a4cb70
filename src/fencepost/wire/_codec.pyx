# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The C backend: one interpreter that reads and writes any message by its layout.

A plan is a layout in C: per field one `Op` with its type, its versions' properties and the offset
of its slot inside the objects. The interpreter walks the ops and touches the slots directly, with
no attribute lookups and no calls in between; the objects are those of the Python backend.

Two conventions keep it short:

* Functions of the interpreter are plain C. They return NULL or -1 when something does not fit,
  with or without a Python exception; what it was is found out by `diagnose`, for both backends.
* Every `PyObject *` that is returned is a new reference, every one that is passed is borrowed.

The parts are included below: `_codec_plan.pxi`, `_codec_read.pxi`, `_codec_sink.pxi`,
`_codec_write.pxi`, `_codec_tags.pxi` and `_codec_methods.pxi`. Under them lies `_codec_objects.h`,
which makes objects and looks into them.

Limits of the input are checked before each read and before each allocation. Lists of structs and
strings grow with their elements beyond `PREALLOCATED` of them, so that nested arrays cannot each
claim the whole input. Buffers being written are grown before each write. Nothing is released while
it is being read: values that are written are held wherever writing one may run Python code, which
plain numbers, strings and bytes cannot.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from fencepost.wire import runtime
from fencepost.wire.diagnose import (
    explain_decode,
    explain_encode,
    negative,
    too_many_elements,
    trailing_bytes,
)
from fencepost.wire.runtime import DECODE_FAILURES, ENCODE_FAILURES, Malformed, as_view
from fencepost.wire.schema import MISSING, records_size
from fencepost.wire.types import (
    ELEMENTS_UNLIMITED,
    FIXED_CODES,
    MAX_STRING_BYTES,
    Primitive,
    Uuid,
)

INTERFACE = 5  # what `backend` expects; raised with every change of a signature below


cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    ctypedef void (*destructor)(PyObject *)
    ctypedef struct PyTypeObject:
        destructor tp_dealloc
    ctypedef struct Py_buffer:
        void *buf
        Py_ssize_t len
        Py_ssize_t itemsize
        int ndim
        char *format
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    PyTypeObject PyMemberDescr_Type
    int PyBUF_SIMPLE
    int Py_EQ
    void Py_INCREF(PyObject *)
    PyObject *Py_NewRef(PyObject *)
    void Py_DECREF(PyObject *)
    void Py_XDECREF(PyObject *)
    PyTypeObject *Py_TYPE(PyObject *)
    int PyObject_GetBuffer(PyObject *, Py_buffer *, int)
    void PyBuffer_Release(Py_buffer *)
    bint PyMemoryView_Check(PyObject *)
    Py_buffer *PyMemoryView_GET_BUFFER(PyObject *)
    PyObject *PyMemoryView_FromObject(PyObject *)
    PyObject *PyLong_FromLongLong(long long)
    PyObject *PyFloat_FromDouble(double)
    double PyFloat_AsDouble(PyObject *)
    long long PyLong_AsLongLongAndOverflow(PyObject *, int *)
    PyObject *PyNumber_Index(PyObject *)
    bint PyUnicode_Check(PyObject *)
    const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *)
    bint PyBytes_CheckExact(PyObject *)
    bint PyBytes_Check(PyObject *)
    bint PyByteArray_Check(PyObject *)
    char *PyBytes_AS_STRING(PyObject *)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *)
    PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t)
    int _PyBytes_Resize(PyObject **, Py_ssize_t)
    bint PyList_Check(PyObject *)
    bint PyTuple_Check(PyObject *)
    PyObject *PyList_New(Py_ssize_t)
    int PyList_Append(PyObject *, PyObject *)
    void PyList_SET_ITEM(PyObject *, Py_ssize_t, PyObject *)
    PyObject *PyList_GET_ITEM(PyObject *, Py_ssize_t)
    Py_ssize_t PyList_GET_SIZE(PyObject *)
    PyObject *PyTuple_GET_ITEM(PyObject *, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *)
    PyObject *PyDict_New()
    int PyDict_SetItem(PyObject *, PyObject *, PyObject *)
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *)
    Py_ssize_t PyObject_Size(PyObject *)
    Py_ssize_t PY_SSIZE_T_MAX
    int PyObject_IsTrue(PyObject *)
    int PyObject_RichCompareBool(PyObject *, PyObject *, int)
    PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...)
    PyObject *PyErr_Occurred()
    void PyErr_Clear()


cdef extern from "_codec_objects.h":
    int fpost_share_numbers() except -1
    Py_ssize_t fpost_slot_offset(PyObject *)
    Py_ssize_t fpost_slot_index(Py_ssize_t)
    bint fpost_adopt(PyTypeObject *, Py_ssize_t, destructor)
    PyObject *fpost_new_struct(PyTypeObject *, Py_ssize_t)
    PyObject *fpost_copy_struct(PyTypeObject *, Py_ssize_t, PyObject **)
    PyObject *fpost_track_struct(PyObject *)
    PyObject *FPOST_SLOT(PyObject *, Py_ssize_t)
    void fpost_fill_slot(PyObject *, Py_ssize_t, PyObject *)
    PyObject *fpost_number_of(int64_t)
    bint fpost_plain_number(PyObject *, int64_t *)
    PyObject *fpost_text_of(const uint8_t *, Py_ssize_t)
    const char *fpost_ascii_of(PyObject *, Py_ssize_t *)
    PyObject *fpost_uuid_of(PyTypeObject *, const uint8_t *)
    PyObject *fpost_view_piece(PyObject **, PyObject *, const uint8_t *, Py_ssize_t)
    uint16_t fpost_load16(const uint8_t *)
    uint32_t fpost_load32(const uint8_t *)
    uint64_t fpost_load64(const uint8_t *)
    int64_t fpost_load_signed(const uint8_t *, int)
    void fpost_store16(uint8_t *, uint64_t)
    void fpost_store32(uint8_t *, uint64_t)
    void fpost_store64(uint8_t *, uint64_t)


cdef enum Kind:
    INT8
    INT16
    INT32
    INT64
    SIGNED_END  # all above are integers in two's complement
    UINT16
    UINT32
    NUMBERS_END  # all above are integers
    BOOL
    FLOAT64
    UUID
    FIXED_END  # all above have one size
    STRING
    BYTES
    RECORDS
    STRUCT
    ARRAY

cdef dict KINDS = {
    Primitive.BOOL: BOOL,
    Primitive.INT8: INT8,
    Primitive.INT16: INT16,
    Primitive.INT32: INT32,
    Primitive.INT64: INT64,
    Primitive.UINT16: UINT16,
    Primitive.UINT32: UINT32,
    Primitive.FLOAT64: FLOAT64,
    Primitive.UUID: UUID,
    Primitive.STRING: STRING,
    Primitive.BYTES: BYTES,
    Primitive.RECORDS: RECORDS,
}

cdef dict WIDTHS = {
    **{KINDS[primitive]: width for primitive, (_, width) in FIXED_CODES.items()},
    UUID: 16,
}

cdef enum:
    PREALLOCATED = 4096  # elements of a list made at its final size
    STACK_BYTES = 1024  # a message up to this size needs no heap but for the result
    EXPECTED_BYTES_MAX = 1 << 20  # allocated at once because the last message needed it
    VARINT_BYTES = 5  # the most that a length or count takes
    SPLIT_BYTES = 4096  # records from this size on are not copied into the buffer
    TAGS_MAX = 64

fpost_share_numbers()

cdef Py_ssize_t STRING_BYTES_MAX = MAX_STRING_BYTES
cdef int64_t ELEMENTS_MAX = ELEMENTS_UNLIMITED
cdef object UNLIMITED = ELEMENTS_UNLIMITED
cdef object ZERO_UUID = Uuid.ZERO
cdef object UUID_CLASS = Uuid
cdef object BOOL_BYTE = runtime.BOOL_BYTE
cdef object AS_BYTES = runtime.as_bytes
cdef object AS_UUID = runtime.as_uuid
cdef object AS_VIEW = runtime.as_view
cdef object TAGGED_SECTION = runtime.tagged_section
cdef object RECORDS_SIZE = records_size
cdef object EMPTY_JOIN = b"".join


include "_codec_plan.pxi"
include "_codec_read.pxi"
include "_codec_sink.pxi"
include "_codec_write.pxi"
include "_codec_tags.pxi"


# What the rest of the package calls

cdef int raise_if_pending() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


cdef int raise_pending() except -1:
    """Raise what a function of the interpreter left behind, or Malformed."""
    if PyErr_Occurred() != NULL:
        return -1
    raise Malformed


cdef int64_t bound_of(str name, object value) except -1:
    """A number that is not negative; what is too large to matter comes as the largest."""
    cdef int overflow = 0
    cdef int64_t number
    if value is UNLIMITED:
        return ELEMENTS_MAX
    number = PyLong_AsLongLongAndOverflow(<PyObject *>value, &overflow)
    if number == -1 and not overflow:
        raise_if_pending()
    if number < 0 and overflow <= 0:
        raise negative(name)
    return ELEMENTS_MAX if overflow else number


cdef class CompiledCodec:
    """Codec of one message and version."""

    cdef Plan _plan
    cdef object _layout
    cdef Py_ssize_t _expected_bytes

    def __cinit__(self, object layout):
        self._layout = layout
        self._plan = plan_of(layout)

    def decode(self, data, max_elements=ELEMENTS_UNLIMITED):
        """The message that fills `data`."""
        return self._whole(data, max_elements, False)

    def read(self, data, pos, max_elements=ELEMENTS_UNLIMITED):
        """The message that begins at `pos`, and the position behind it."""
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t size = 0
        cdef int64_t limit = bound_of("max_elements", max_elements)
        message = self._read(data, bound_of("pos", pos), limit, &end, &size)
        return message, end

    def encode(self, message):
        """The message in one piece."""
        return self._joined(message)

    def encode_parts(self, message):
        """The message in pieces, with records uncopied."""
        return self._write(message, 1, True)

    cdef object _whole(self, object data, object max_elements, bint allow_trailing):
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t size = 0
        message = self._read(data, 0, bound_of("max_elements", max_elements), &end, &size)
        if end != size and not allow_trailing:
            raise trailing_bytes(end, size)
        return message

    cdef object _joined(self, object message):
        result = self._write(message, SPLIT_BYTES, False)
        if type(result) is bytes:
            return result
        try:
            return EMPTY_JOIN(result)
        except ENCODE_FAILURES as error:  # a view in it was released meanwhile
            raise explain_encode(self._layout, message, error) from None

    cdef object _read(
        self,
        object data,
        int64_t pos,
        int64_t max_elements,
        Py_ssize_t *end,
        Py_ssize_t *size,
    ):
        cdef Py_buffer buffer
        cdef Cursor c
        cdef PyObject *found
        cdef bint is_bytes = PyBytes_CheckExact(<PyObject *>data)
        if is_bytes:
            c.start = <const uint8_t *>PyBytes_AS_STRING(<PyObject *>data)
            size[0] = PyBytes_GET_SIZE(<PyObject *>data)
        else:
            if not hold_flat_view(<PyObject *>data, &buffer):
                data = as_view(data)
                if PyObject_GetBuffer(<PyObject *>data, &buffer, PyBUF_SIMPLE) < 0:
                    raise_pending()
            c.start = <const uint8_t *>buffer.buf
            size[0] = buffer.len
        c.end = c.start + size[0]
        c.pos = c.start + min(pos, <int64_t>size[0])
        c.elements_left = max_elements
        c.source = <PyObject *>data
        c.view = NULL
        found = NULL if pos > size[0] else read_struct(&self._plan.c, &c)
        end[0] = c.pos - c.start
        if not is_bytes:
            PyBuffer_Release(&buffer)
        Py_XDECREF(c.view)
        if found == NULL:
            if c.elements_left < 0:
                raise too_many_elements(max_elements, end[0])
            try:
                raise_pending()
            except DECODE_FAILURES as error:
                raise explain_decode(self._layout, data, pos, error) from None
        message = <object>found
        Py_DECREF(found)
        return message

    cdef object _write(self, object message, Py_ssize_t split_bytes, bint as_parts):
        cdef uint8_t stack[STACK_BYTES]
        cdef Sink s
        cdef int result = 0
        cdef PyObject *written = NULL
        s.buf = s.pos = stack
        s.end = s.buf + STACK_BYTES
        s.owner = NULL
        s.parts = NULL
        s.split_bytes = split_bytes
        if self._expected_bytes > STACK_BYTES and not as_parts:
            result = grow(&s, self._expected_bytes)
        if result == 0:
            result = write_struct(&self._plan.c, &s, <PyObject *>message)
        if result == 0 and (as_parts or s.parts != NULL):
            if end_part(&s) == 0:
                written = s.parts if s.parts != NULL else PyList_New(0)
                s.parts = NULL
        elif result == 0:
            self._expected_bytes = min(s.pos - s.buf, EXPECTED_BYTES_MAX)
            written = take(&s)
        Py_XDECREF(s.owner)
        Py_XDECREF(s.parts)
        if written == NULL:
            try:
                raise_pending()
            except ENCODE_FAILURES as error:
                raise explain_encode(self._layout, message, error) from None
        found = <object>written
        Py_DECREF(written)
        return found


include "_codec_methods.pxi"
