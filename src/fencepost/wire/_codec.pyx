# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The C backend: one interpreter that reads and writes any message by its layout.

A plan is a layout in C: per field one `Op` with its type, its versions' properties and the offset
of its slot inside the objects. The interpreter walks the ops and touches the slots directly, with
no attribute lookups and no calls in between; the objects are those of the Python backend.

Two conventions keep it short:

* Functions of the interpreter are plain C. They return NULL or -1 when something does not fit,
  with or without a Python exception; what it was is found out by `diagnose`, for both backends.
* Every `PyObject *` that is returned is a new reference, every one that is passed is borrowed.

Limits of the input are checked before each read and before each allocation. Lists grow with their
elements beyond `PREALLOCATED` of them, so that nested arrays cannot each claim the whole input.
Buffers being written are grown before each write. Nothing is released while it is being read:
values are held while they are written, since writing an odd one may run Python code.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.limits cimport LLONG_MAX, LLONG_MIN
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from fencepost.wire import runtime
from fencepost.wire.diagnose import explain_decode, explain_encode, trailing_bytes
from fencepost.wire.runtime import DECODE_FAILURES, ENCODE_FAILURES, Malformed, as_view
from fencepost.wire.schema import MISSING, records_size
from fencepost.wire.types import MAX_STRING_BYTES, Primitive, Uuid


cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    ctypedef struct PyTypeObject:
        pass
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
    void Py_DECREF(PyObject *)
    void Py_XDECREF(PyObject *)
    PyTypeObject *Py_TYPE(PyObject *)
    PyObject *PyType_GenericAlloc(PyTypeObject *, Py_ssize_t)
    int PyObject_GetBuffer(PyObject *, Py_buffer *, int)
    void PyBuffer_Release(Py_buffer *)
    int PyBuffer_IsContiguous(Py_buffer *, char)
    bint PyMemoryView_Check(PyObject *)
    Py_buffer *PyMemoryView_GET_BUFFER(PyObject *)
    PyObject *PyMemoryView_FromObject(PyObject *)
    PyObject *PySequence_GetSlice(PyObject *, Py_ssize_t, Py_ssize_t)
    PyObject *PyLong_FromLong(long)
    PyObject *PyLong_FromLongLong(long long)
    PyObject *PyFloat_FromDouble(double)
    double PyFloat_AsDouble(PyObject *)
    bint PyLong_Check(PyObject *)
    long long PyLong_AsLongLongAndOverflow(PyObject *, int *)
    PyObject *PyNumber_Index(PyObject *)
    PyObject *PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *)
    bint PyUnicode_Check(PyObject *)
    const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *)
    bint PyBytes_CheckExact(PyObject *)
    bint PyBytes_Check(PyObject *)
    bint PyByteArray_Check(PyObject *)
    char *PyByteArray_AS_STRING(PyObject *)
    Py_ssize_t PyByteArray_GET_SIZE(PyObject *)
    char *PyBytes_AS_STRING(PyObject *)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *)
    PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t)
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
    int PyObject_IsTrue(PyObject *)
    int PyObject_RichCompareBool(PyObject *, PyObject *, int)
    PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...)
    PyObject *PyErr_Occurred()
    PyObject *PyErr_NoMemory()


cdef extern from *:
    """
    #include "structmember.h"  /* PyMemberDef, before Python 3.12 */

    /* Where a slot lies inside its object; the descriptor comes from the class itself. */
    static Py_ssize_t slot_offset(PyObject *descriptor) {
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    #define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

    static inline uint16_t load16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
    static inline uint32_t load32(const uint8_t *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static inline uint64_t load64(const uint8_t *p) {
        return (uint64_t)load32(p) << 32 | load32(p + 4);
    }
    static inline void store_big_endian(uint8_t *p, uint64_t value, int width) {
        while (width-- > 0) { p[width] = (uint8_t)value; value >>= 8; }
    }
    """
    Py_ssize_t slot_offset(PyObject *)
    PyObject *SLOT(PyObject *, Py_ssize_t)
    uint16_t load16(const uint8_t *)
    uint32_t load32(const uint8_t *)
    uint64_t load64(const uint8_t *)
    void store_big_endian(uint8_t *, uint64_t, int)


cdef enum Kind:
    BOOL
    INT8
    INT16
    INT32
    INT64
    UINT16
    UINT32
    FLOAT64
    UUID
    STRING
    BYTES
    RECORDS
    STRUCT

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

cdef enum:
    PREALLOCATED = 4096  # elements of a list made at its final size
    STACK_BYTES = 1024  # a message up to this size needs no heap but for the result
    SPLIT_BYTES = 4096  # records from this size on are not copied into the buffer
    TAGS_MAX = 64

cdef Py_ssize_t STRING_BYTES_MAX = MAX_STRING_BYTES
cdef object ZERO_UUID = Uuid.ZERO
cdef object UUID_CLASS = Uuid
cdef object NEW_BYTES = bytes.__new__
cdef object BOOL_BYTE = runtime.BOOL_BYTE
cdef object AS_BYTES = runtime.as_bytes
cdef object AS_UUID = runtime.as_uuid
cdef object AS_VIEW = runtime.as_view
cdef object TAGGED_SECTION = runtime.tagged_section
cdef object RECORDS_SIZE = records_size
cdef object EMPTY_JOIN = b"".join


# Plans

cdef struct PlanC:
    PyTypeObject *type
    Py_ssize_t unknown_tags
    bint is_flexible
    int plain_end
    int tagged_end
    int absent_end
    Op *ops
    PyObject *declared

cdef struct Op:
    int kind
    bint is_array
    bint is_nullable
    bint is_ignorable
    uint32_t tag
    Py_ssize_t offset
    int64_t element_min_size
    PyObject *default
    PlanC *plan


cdef class Plan:
    """Owns a `PlanC` and everything it points to."""

    cdef PlanC c
    cdef list _kept

    def __cinit__(self, object struct, bint is_flexible, tuple plain, tuple tagged, tuple absent):
        if len(tagged) > TAGS_MAX:
            raise TypeError(f"{struct.__name__} has more than {TAGS_MAX} tags")
        cdef int total = len(plain) + len(tagged) + len(absent)
        self._kept = [struct]
        self.c.ops = <Op *>PyMem_Malloc(max(total, 1) * sizeof(Op))
        if self.c.ops == NULL:
            raise MemoryError
        self.c.type = <PyTypeObject *><PyObject *>struct
        self.c.unknown_tags = self._offset(struct, "unknown_tags")
        self.c.is_flexible = is_flexible
        self.c.plain_end = len(plain)
        self.c.tagged_end = self.c.plain_end + len(tagged)
        self.c.absent_end = total
        declared = frozenset(slot.field.tag for slot in tagged)
        self._kept.append(declared)
        self.c.declared = <PyObject *>declared
        cdef int index = 0
        for slot in plain + tagged:
            inner = None if slot.layout is None else plan_of(slot.layout)
            self._set(&self.c.ops[index], struct, slot.field, inner)
            self.c.ops[index].is_nullable = slot.is_nullable
            self.c.ops[index].element_min_size = slot.element_min_size
            index += 1
        for field in absent:
            inner = None if field.struct is None else defaults_of(field.struct)
            self._set(&self.c.ops[index], struct, field, inner)
            index += 1

    def __dealloc__(self):
        PyMem_Free(self.c.ops)

    cdef Py_ssize_t _offset(self, object struct, str name) except -1:
        descriptor = getattr(struct, name)
        if Py_TYPE(<PyObject *>descriptor) != &PyMemberDescr_Type:
            raise TypeError(f"{struct.__name__}.{name} is not a slot")
        return slot_offset(<PyObject *>descriptor)

    cdef int _set(self, Op *op, object struct, object field, Plan inner) except -1:
        op.kind = STRUCT if field.primitive is None else KINDS[field.primitive]
        op.is_array = field.is_array
        op.is_nullable = False
        op.is_ignorable = field.ignorable
        op.tag = 0 if field.tag is None else field.tag
        op.offset = self._offset(struct, field.name)
        op.element_min_size = 1
        default = field.default
        op.default = NULL if default is MISSING else <PyObject *>default
        op.plan = NULL if inner is None else &inner.c
        self._kept.append((default, inner))
        return 0


cdef dict _plans = {}
cdef dict _defaults = {}


cdef Plan plan_of(object layout):
    key = (layout.struct, layout.version, layout.is_flexible)
    if key not in _plans:
        _plans[key] = Plan(
            layout.struct, layout.is_flexible, layout.plain, layout.tagged, layout.absent
        )
    return _plans[key]


cdef Plan defaults_of(object struct):
    """A plan good for nothing but making and recognising default objects."""
    if struct not in _defaults:
        _defaults[struct] = Plan(struct, False, (), (), struct.fields)
    return _defaults[struct]


# Reading

cdef struct Cursor:
    const uint8_t *start
    const uint8_t *pos
    const uint8_t *end
    PyObject *source
    PyObject *view


cdef int read_uvarint(Cursor *c, uint32_t *value) noexcept:
    cdef uint32_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while c.pos < c.end:
        byte = c.pos[0]
        c.pos += 1
        if shift == 28 and byte > 0x0F:
            return -1
        result |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return 0
        shift += 7
    return -1


cdef int read_length(Cursor *c, bint is_flexible, int plain_width, int64_t *length) noexcept:
    """A length or count; -1 for null, which the caller judges."""
    cdef uint32_t compact = 0
    if is_flexible:
        if c.pos < c.end and c.pos[0] < 0x80:
            length[0] = <int64_t>c.pos[0] - 1
            c.pos += 1
            return 0
        if read_uvarint(c, &compact) < 0:
            return -1
        length[0] = <int64_t>compact - 1
        return 0
    if c.end - c.pos < plain_width:
        return -1
    if plain_width == 2:
        length[0] = <int16_t>load16(c.pos)
    else:
        length[0] = <int32_t>load32(c.pos)
    c.pos += plain_width
    return 0


cdef PyObject *read_uuid(Cursor *c) noexcept:
    cdef PyObject *raw
    cdef PyObject *value
    if memcmp(c.pos, PyBytes_AS_STRING(<PyObject *>ZERO_UUID), 16) == 0:
        c.pos += 16
        Py_INCREF(<PyObject *>ZERO_UUID)
        return <PyObject *>ZERO_UUID
    raw = PyBytes_FromStringAndSize(<const char *>c.pos, 16)
    if raw == NULL:
        return NULL
    value = PyObject_CallFunctionObjArgs(
        <PyObject *>NEW_BYTES, <PyObject *>UUID_CLASS, raw, <PyObject *>NULL
    )
    Py_DECREF(raw)
    c.pos += 16
    return value


cdef PyObject *read_records(Cursor *c, int64_t size) noexcept:
    cdef PyObject *value
    cdef Py_ssize_t at = c.pos - c.start
    if c.view == NULL:
        c.view = PyMemoryView_FromObject(c.source)
        if c.view == NULL:
            return NULL
    value = PySequence_GetSlice(c.view, at, at + size)
    c.pos += size
    return value


cdef PyObject *read_sized(int kind, Cursor *c, bint is_flexible, bint is_nullable) noexcept:
    cdef int64_t size = 0
    cdef PyObject *value
    if read_length(c, is_flexible, 2 if kind == STRING else 4, &size) < 0:
        return NULL
    if size < 0:
        if size == -1 and is_nullable:
            Py_INCREF(Py_None)
            return Py_None
        return NULL
    if size > c.end - c.pos:
        return NULL
    if kind == STRING:
        if size > STRING_BYTES_MAX:
            return NULL
        value = PyUnicode_DecodeUTF8(<const char *>c.pos, size, NULL)
    elif kind == BYTES:
        value = PyBytes_FromStringAndSize(<const char *>c.pos, size)
    else:
        return read_records(c, size)
    c.pos += size
    return value


cdef PyObject *read_single(
    const Op *op, Cursor *c, bint is_flexible, bint is_nullable
) noexcept:
    cdef const uint8_t *p = c.pos
    cdef Py_ssize_t left = c.end - p
    cdef PyObject *value
    cdef uint64_t bits
    cdef double number
    cdef int kind = op.kind
    if kind == INT32:
        if left < 4:
            return NULL
        c.pos += 4
        return PyLong_FromLong(<int32_t>load32(p))
    elif kind == STRING or kind == BYTES or kind == RECORDS:
        return read_sized(kind, c, is_flexible, is_nullable)
    elif kind == INT64:
        if left < 8:
            return NULL
        c.pos += 8
        return PyLong_FromLongLong(<int64_t>load64(p))
    elif kind == INT16:
        if left < 2:
            return NULL
        c.pos += 2
        return PyLong_FromLong(<int16_t>load16(p))
    elif kind == STRUCT:
        if is_nullable:
            if left < 1:
                return NULL
            c.pos += 1
            if p[0] > 0x7F:
                Py_INCREF(Py_None)
                return Py_None
        return read_struct(op.plan, c)
    elif kind == INT8:
        if left < 1:
            return NULL
        c.pos += 1
        return PyLong_FromLong(<int8_t>p[0])
    elif kind == BOOL:
        if left < 1:
            return NULL
        c.pos += 1
        value = Py_True if p[0] else Py_False
        Py_INCREF(value)
        return value
    elif kind == UUID:
        if left < 16:
            return NULL
        return read_uuid(c)
    elif kind == UINT16:
        if left < 2:
            return NULL
        c.pos += 2
        return PyLong_FromLong(load16(p))
    elif kind == UINT32:
        if left < 4:
            return NULL
        c.pos += 4
        return PyLong_FromLongLong(load32(p))
    else:
        if left < 8:
            return NULL
        c.pos += 8
        bits = load64(p)
        memcpy(&number, &bits, 8)
        return PyFloat_FromDouble(number)


cdef PyObject *read_array(const Op *op, Cursor *c, bint is_flexible) noexcept:
    cdef int64_t count = 0
    cdef int64_t index
    cdef bint grows
    cdef PyObject *items
    cdef PyObject *item
    cdef int failed
    if read_length(c, is_flexible, 4, &count) < 0:
        return NULL
    if count < 0:
        if count == -1 and op.is_nullable:
            Py_INCREF(Py_None)
            return Py_None
        return NULL
    if count * op.element_min_size > c.end - c.pos:
        return NULL
    grows = count > PREALLOCATED
    items = PyList_New(0 if grows else count)
    if items == NULL:
        return NULL
    for index in range(count):
        item = read_single(op, c, is_flexible, False)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        if grows:
            failed = PyList_Append(items, item)
            Py_DECREF(item)
            if failed < 0:
                Py_DECREF(items)
                return NULL
        else:
            PyList_SET_ITEM(items, index, item)
    return items


cdef int set_slot(PyObject *self, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a new reference into a slot; -1 when there is none to put."""
    if value == NULL:
        return -1
    cdef PyObject **slot = <PyObject **>(<char *>self + offset)
    cdef PyObject *old = slot[0]
    slot[0] = value
    Py_XDECREF(old)
    return 0


cdef int read_field(const Op *op, Cursor *c, bint is_flexible, PyObject *self) noexcept:
    if op.is_array:
        return set_slot(self, op.offset, read_array(op, c, is_flexible))
    return set_slot(self, op.offset, read_single(op, c, is_flexible, op.is_nullable))


cdef int set_default(const Op *op, PyObject *self) noexcept:
    if op.default != NULL:
        Py_INCREF(op.default)
        return set_slot(self, op.offset, op.default)
    if op.is_array:
        return set_slot(self, op.offset, PyList_New(0))
    return set_slot(self, op.offset, make_default(op.plan))


cdef PyObject *make_default(const PlanC *plan) noexcept:
    cdef int index
    cdef PyObject *self = PyType_GenericAlloc(plan.type, 0)
    if self == NULL:
        return NULL
    for index in range(plan.absent_end):
        if set_default(&plan.ops[index], self) < 0:
            Py_DECREF(self)
            return NULL
    Py_INCREF(Py_None)
    set_slot(self, plan.unknown_tags, Py_None)
    return self


cdef PyObject *read_struct(const PlanC *plan, Cursor *c) noexcept:
    cdef int index
    cdef PyObject *self = PyType_GenericAlloc(plan.type, 0)
    if self == NULL:
        return NULL
    for index in range(plan.plain_end):
        if read_field(&plan.ops[index], c, plan.is_flexible, self) < 0:
            Py_DECREF(self)
            return NULL
    for index in range(plan.plain_end, plan.absent_end):
        if set_default(&plan.ops[index], self) < 0:
            Py_DECREF(self)
            return NULL
    Py_INCREF(Py_None)
    set_slot(self, plan.unknown_tags, Py_None)
    if not plan.is_flexible:
        return self
    if c.pos < c.end and c.pos[0] == 0:
        c.pos += 1
        return self
    if read_tags(plan, c, self) < 0:
        Py_DECREF(self)
        return NULL
    return self


cdef int read_tags(const PlanC *plan, Cursor *c, PyObject *self) noexcept:
    cdef uint32_t count = 0
    cdef uint32_t tag = 0
    cdef uint32_t size = 0
    cdef int64_t last = -1
    cdef int index
    cdef int result
    cdef const uint8_t *outer_end = c.end
    if read_uvarint(c, &count) < 0:
        return -1
    while count > 0:
        count -= 1
        if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0:
            return -1
        if <int64_t>tag <= last or <int64_t>size > c.end - c.pos:
            return -1
        last = tag
        for index in range(plan.plain_end, plan.tagged_end):
            if plan.ops[index].tag == tag:
                c.end = c.pos + size
                result = read_field(&plan.ops[index], c, True, self)
                if result == 0 and c.pos != c.end:
                    result = -1
                c.end = outer_end
                break
        else:
            result = keep_unknown(plan, c, self, tag, size)
        if result < 0:
            return -1
    return 0


cdef int keep_unknown(
    const PlanC *plan, Cursor *c, PyObject *self, uint32_t tag, uint32_t size
) noexcept:
    cdef PyObject *tags = SLOT(self, plan.unknown_tags)
    cdef PyObject *key
    cdef PyObject *value
    cdef int result = -1
    if tags == Py_None:
        tags = PyDict_New()
        if set_slot(self, plan.unknown_tags, tags) < 0:
            return -1
    key = PyLong_FromLongLong(tag)
    value = PyBytes_FromStringAndSize(<const char *>c.pos, size)
    if key != NULL and value != NULL:
        result = PyDict_SetItem(tags, key, value)
    Py_XDECREF(key)
    Py_XDECREF(value)
    c.pos += size
    return result


# Writing

cdef struct Sink:
    uint8_t *buf
    Py_ssize_t size
    Py_ssize_t capacity
    bint on_heap
    PyObject *parts
    Py_ssize_t split_bytes


cdef int need(Sink *s, Py_ssize_t more) noexcept:
    """Room for so many more bytes; MemoryError when there is none."""
    cdef Py_ssize_t capacity
    cdef uint8_t *grown
    if s.size + more <= s.capacity:
        return 0
    capacity = s.capacity * 2
    if capacity < s.size + more:
        capacity = s.size + more
    if s.on_heap:
        grown = <uint8_t *>PyMem_Realloc(s.buf, capacity)
    else:
        grown = <uint8_t *>PyMem_Malloc(capacity)
        if grown != NULL:
            memcpy(grown, s.buf, s.size)
    if grown == NULL:
        PyErr_NoMemory()
        return -1
    s.buf = grown
    s.capacity = capacity
    s.on_heap = True
    return 0


cdef int put_int(Sink *s, uint64_t value, int width) noexcept:
    if need(s, width) < 0:
        return -1
    store_big_endian(s.buf + s.size, value, width)
    s.size += width
    return 0


cdef int put_bytes(Sink *s, const void *data, Py_ssize_t size) noexcept:
    if need(s, size) < 0:
        return -1
    memcpy(s.buf + s.size, data, size)
    s.size += size
    return 0


cdef int put_uvarint(Sink *s, int64_t value) noexcept:
    if value > 0xFFFFFFFF or need(s, 5) < 0:
        return -1
    while value > 0x7F:
        s.buf[s.size] = <uint8_t>(value & 0x7F | 0x80)
        s.size += 1
        value >>= 7
    s.buf[s.size] = <uint8_t>value
    s.size += 1
    return 0


cdef int put_length(Sink *s, bint is_flexible, int plain_width, int64_t length) noexcept:
    """A length or count, -1 for null."""
    if is_flexible:
        return put_uvarint(s, length + 1)
    if length > (0x7FFF if plain_width == 2 else 0x7FFFFFFF):
        return -1
    return put_int(s, <uint64_t>length, plain_width)


cdef int write_int(Sink *s, PyObject *value, int64_t low, int64_t high, int width) noexcept:
    cdef int overflow = 0
    cdef long long number
    cdef PyObject *index
    if PyLong_Check(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
    else:
        index = PyNumber_Index(value)
        if index == NULL:
            return -1
        number = PyLong_AsLongLongAndOverflow(index, &overflow)
        Py_DECREF(index)
    if overflow or number < low or number > high:
        return -1
    return put_int(s, <uint64_t>number, width)


cdef int write_bool(Sink *s, PyObject *value) noexcept:
    cdef PyObject *byte
    if value == Py_True or value == Py_False:
        return put_int(s, value == Py_True, 1)
    byte = PyDict_GetItemWithError(<PyObject *>BOOL_BYTE, value)
    if byte == NULL:
        return -1
    return write_int(s, byte, 0, 1, 1)


cdef int write_float(Sink *s, PyObject *value) noexcept:
    cdef uint64_t bits = 0
    cdef double number = PyFloat_AsDouble(value)
    if number == -1.0 and PyErr_Occurred() != NULL:
        return -1
    memcpy(&bits, &number, 8)
    return put_int(s, bits, 8)


cdef int write_uuid(Sink *s, PyObject *value) noexcept:
    cdef PyObject *raw
    cdef int result
    if PyBytes_Check(value):
        if PyBytes_GET_SIZE(value) != 16:
            return -1
        return put_bytes(s, PyBytes_AS_STRING(value), 16)
    raw = PyObject_CallFunctionObjArgs(<PyObject *>AS_UUID, value, <PyObject *>NULL)
    if raw == NULL:
        return -1
    result = put_bytes(s, PyBytes_AS_STRING(raw), 16)
    Py_DECREF(raw)
    return result


cdef int write_string(Sink *s, PyObject *value, bint is_flexible) noexcept:
    cdef Py_ssize_t size = 0
    cdef const char *text
    if not PyUnicode_Check(value):
        return -1
    text = PyUnicode_AsUTF8AndSize(value, &size)
    if text == NULL or size > STRING_BYTES_MAX:
        return -1
    if put_length(s, is_flexible, 2, size) < 0:
        return -1
    return put_bytes(s, text, size)


cdef int write_bytes(Sink *s, PyObject *value, bint is_flexible) noexcept:
    cdef PyObject *raw = value
    cdef int result = -1
    if PyBytes_Check(value):
        Py_INCREF(raw)
    else:
        raw = PyObject_CallFunctionObjArgs(<PyObject *>AS_BYTES, value, <PyObject *>NULL)
        if raw == NULL:
            return -1
    if put_length(s, is_flexible, 4, PyBytes_GET_SIZE(raw)) == 0:
        result = put_bytes(s, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    Py_DECREF(raw)
    return result


cdef bint is_flat_view(PyObject *value) noexcept:
    """Whether `value` is a memoryview that `as_view` would return as it is."""
    cdef Py_buffer *buffer
    if not PyMemoryView_Check(value):
        return False
    buffer = PyMemoryView_GET_BUFFER(value)
    if buffer.ndim != 1 or buffer.format == NULL:
        return False
    if buffer.format[0] != b"B" or buffer.format[1] != 0:
        return False
    return PyBuffer_IsContiguous(buffer, b"C")


cdef PyObject *flat_part(PyObject *value, const void **data, Py_ssize_t *size) noexcept:
    """A piece of records that is one run of bytes, and where it lies."""
    cdef Py_buffer *buffer
    if PyBytes_Check(value):
        data[0] = PyBytes_AS_STRING(value)
        size[0] = PyBytes_GET_SIZE(value)
    elif PyByteArray_Check(value):
        data[0] = PyByteArray_AS_STRING(value)
        size[0] = PyByteArray_GET_SIZE(value)
    elif PyMemoryView_Check(value):
        if is_flat_view(value):
            Py_INCREF(value)
        else:
            value = PyObject_CallFunctionObjArgs(<PyObject *>AS_VIEW, value, <PyObject *>NULL)
            if value == NULL:
                return NULL
        buffer = PyMemoryView_GET_BUFFER(value)
        data[0] = buffer.buf
        size[0] = buffer.len
        return value
    else:
        return NULL
    Py_INCREF(value)
    return value


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
    if s.size == 0:
        return 0
    piece = PyBytes_FromStringAndSize(<const char *>s.buf, s.size)
    if piece == NULL:
        return -1
    result = add_part(s, piece)
    Py_DECREF(piece)
    s.size = 0
    return result


cdef int write_part(Sink *s, PyObject *value) noexcept:
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
    return result


cdef PyObject *element_at(PyObject *items, Py_ssize_t index) noexcept:
    """A new reference to an element of a list or tuple; NULL when it has become too short."""
    cdef PyObject *item = NULL
    if PyList_Check(items):
        if index < PyList_GET_SIZE(items):
            item = PyList_GET_ITEM(items, index)
    elif index < PyTuple_GET_SIZE(items):
        item = PyTuple_GET_ITEM(items, index)
    if item != NULL:
        Py_INCREF(item)
    return item


cdef int64_t records_total(PyObject *items) noexcept:
    """Bytes in all parts of a records value; -1 when one of them is no buffer."""
    cdef const void *data = NULL
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t index
    cdef int64_t total = 0
    cdef PyObject *item
    cdef PyObject *part
    for index in range(PyObject_Size(items)):
        item = element_at(items, index)
        if item == NULL:
            return -1
        part = flat_part(item, &data, &size)
        Py_DECREF(item)
        if part == NULL:
            return -1
        Py_DECREF(part)
        total += size
    return total


cdef int write_records(Sink *s, PyObject *value, bint is_flexible) noexcept:
    cdef const void *data = NULL
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t index
    cdef int64_t total
    cdef PyObject *part
    cdef int result
    if not (PyList_Check(value) or PyTuple_Check(value)):
        part = flat_part(value, &data, &size)
        if part == NULL:
            return -1
        Py_DECREF(part)
        if put_length(s, is_flexible, 4, size) < 0:
            return -1
        return write_part(s, value)
    total = records_total(value)
    if total < 0 or put_length(s, is_flexible, 4, total) < 0:
        return -1
    for index in range(PyObject_Size(value)):
        part = element_at(value, index)
        if part == NULL:
            return -1
        result = write_part(s, part)
        Py_DECREF(part)
        if result < 0:
            return -1
    return 0


cdef int write_single(
    const Op *op, Sink *s, PyObject *value, bint is_flexible, bint is_nullable
) noexcept:
    cdef int kind = op.kind
    if value == Py_None:
        if not is_nullable:
            return -1
        if kind == STRUCT:
            return put_int(s, 0xFF, 1)
        return put_length(s, is_flexible, 2 if kind == STRING else 4, -1)
    if kind == INT32:
        return write_int(s, value, -0x80000000LL, 0x7FFFFFFF, 4)
    elif kind == STRING:
        return write_string(s, value, is_flexible)
    elif kind == INT64:
        return write_int(s, value, LLONG_MIN, LLONG_MAX, 8)
    elif kind == INT16:
        return write_int(s, value, -0x8000, 0x7FFF, 2)
    elif kind == STRUCT:
        if is_nullable and put_int(s, 1, 1) < 0:
            return -1
        return write_struct(op.plan, s, value)
    elif kind == INT8:
        return write_int(s, value, -0x80, 0x7F, 1)
    elif kind == BOOL:
        return write_bool(s, value)
    elif kind == UUID:
        return write_uuid(s, value)
    elif kind == BYTES:
        return write_bytes(s, value, is_flexible)
    elif kind == RECORDS:
        return write_records(s, value, is_flexible)
    elif kind == UINT16:
        return write_int(s, value, 0, 0xFFFF, 2)
    elif kind == UINT32:
        return write_int(s, value, 0, 0xFFFFFFFFLL, 4)
    else:
        return write_float(s, value)


cdef int write_array(const Op *op, Sink *s, PyObject *items, bint is_flexible) noexcept:
    cdef Py_ssize_t count
    cdef Py_ssize_t index
    cdef PyObject *item
    cdef int result
    if items == Py_None:
        return put_length(s, is_flexible, 4, -1) if op.is_nullable else -1
    if PyList_Check(items):
        count = PyList_GET_SIZE(items)
    elif PyTuple_Check(items):
        count = PyTuple_GET_SIZE(items)
    else:
        return -1
    if put_length(s, is_flexible, 4, count) < 0:
        return -1
    for index in range(count):
        item = element_at(items, index)
        if item == NULL:
            return -1
        result = write_single(op, s, item, is_flexible, False)
        Py_DECREF(item)
        if result < 0:
            return -1
    # Writing an element may have run code that made the list longer; what is written says `count`.
    return 0


cdef int write_field(const Op *op, Sink *s, PyObject *self, bint is_flexible) noexcept:
    cdef PyObject *value = SLOT(self, op.offset)
    cdef int result
    if value == NULL:
        return -1
    Py_INCREF(value)
    if op.is_array:
        result = write_array(op, s, value, is_flexible)
    else:
        result = write_single(op, s, value, is_flexible, op.is_nullable)
    Py_DECREF(value)
    return result


cdef int is_default(const Op *op, PyObject *value) noexcept:
    """1 when `value` is the default, 0 when not, -1 when that cannot be told."""
    cdef Py_ssize_t size
    cdef PyObject *total
    if value == op.default:
        return 1
    if value == Py_None or op.default == Py_None:
        return 0
    if op.is_array or op.kind == BYTES:
        size = PyObject_Size(value)
        return -1 if size < 0 else size == 0
    if op.kind == STRUCT:
        return is_all_default(op.plan, value)
    if op.kind == RECORDS:
        total = PyObject_CallFunctionObjArgs(
            <PyObject *>RECORDS_SIZE, value, <PyObject *>NULL
        )
        if total == NULL:
            return -1
        size = PyObject_IsTrue(total)
        Py_DECREF(total)
        return -1 if size < 0 else size == 0
    return PyObject_RichCompareBool(value, op.default, Py_EQ)


cdef int slot_is_default(const Op *op, PyObject *self) noexcept:
    cdef PyObject *value = SLOT(self, op.offset)
    cdef int result
    if value == NULL:
        return -1
    Py_INCREF(value)
    result = is_default(op, value)
    Py_DECREF(value)
    return result


cdef int is_all_default(const PlanC *plan, PyObject *self) noexcept:
    cdef int index
    cdef int result
    if Py_TYPE(self) != plan.type:
        return -1
    for index in range(plan.absent_end):
        result = slot_is_default(&plan.ops[index], self)
        if result != 1:
            return result
    result = has_unknown_tags(plan, self)
    return result if result < 0 else not result


cdef int has_unknown_tags(const PlanC *plan, PyObject *self) noexcept:
    cdef PyObject *tags = SLOT(self, plan.unknown_tags)
    if tags == Py_None:
        return 0
    return -1 if tags == NULL else PyObject_IsTrue(tags)


cdef int write_struct(const PlanC *plan, Sink *s, PyObject *self) noexcept:
    cdef int index
    cdef int unknown
    if Py_TYPE(self) != plan.type:
        return -1
    unknown = has_unknown_tags(plan, self)
    if unknown < 0 or (unknown and not plan.is_flexible):
        return -1
    for index in range(plan.tagged_end, plan.absent_end):
        if not plan.ops[index].is_ignorable and slot_is_default(&plan.ops[index], self) != 1:
            return -1
    for index in range(plan.plain_end):
        if write_field(&plan.ops[index], s, self, plan.is_flexible) < 0:
            return -1
    if not plan.is_flexible:
        return 0
    return write_tags(plan, s, self, unknown)


cdef int write_tags(const PlanC *plan, Sink *s, PyObject *self, bint unknown) noexcept:
    cdef uint64_t chosen = 0
    cdef int count = 0
    cdef int index
    cdef int result
    for index in range(plan.plain_end, plan.tagged_end):
        result = slot_is_default(&plan.ops[index], self)
        if result < 0:
            return -1
        if result == 0:
            chosen |= <uint64_t>1 << (index - plan.plain_end)
            count += 1
    if unknown:
        return write_merged_tags(plan, s, self, chosen)
    if put_uvarint(s, count) < 0:
        return -1
    for index in range(plan.plain_end, plan.tagged_end):
        if chosen >> (index - plan.plain_end) & 1:
            if put_uvarint(s, plan.ops[index].tag) < 0:
                return -1
            if write_tag_value(&plan.ops[index], s, self) < 0:
                return -1
    return 0


cdef int write_tag_value(const Op *op, Sink *s, PyObject *self) noexcept:
    """Size and value of a tagged field; the size is known when the value is written."""
    cdef Py_ssize_t start
    cdef Py_ssize_t size
    if put_int(s, 0, 1) < 0:
        return -1
    start = s.size
    if write_field(op, s, self, True) < 0:
        return -1
    size = s.size - start
    s.size = start - 1
    if size > 0x7F:
        if need(s, size + 5) < 0:
            return -1
        memmove(s.buf + start - 1 + uvarint_width(size), s.buf + start, size)
    if put_uvarint(s, size) < 0:
        return -1
    s.size += size
    return 0


cdef int uvarint_width(int64_t value) noexcept:
    cdef int width = 1
    while value > 0x7F:
        value >>= 7
        width += 1
    return width


cdef int write_merged_tags(
    const PlanC *plan, Sink *s, PyObject *self, uint64_t chosen
) noexcept:
    """The tagged section where declared and unknown fields must be sorted into each other."""
    cdef PyObject *known = PyDict_New()
    cdef PyObject *section = NULL
    cdef int index
    cdef int result = 0 if known != NULL else -1
    for index in range(plan.plain_end, plan.tagged_end):
        if result == 0 and chosen >> (index - plan.plain_end) & 1:
            result = collect_tag(&plan.ops[index], s, self, known)
    if result == 0:
        section = PyObject_CallFunctionObjArgs(
            <PyObject *>TAGGED_SECTION,
            known,
            SLOT(self, plan.unknown_tags),
            plan.declared,
            <PyObject *>NULL,
        )
        result = -1
        if section != NULL:
            result = put_bytes(s, PyBytes_AS_STRING(section), PyBytes_GET_SIZE(section))
    Py_XDECREF(known)
    Py_XDECREF(section)
    return result


cdef int collect_tag(const Op *op, Sink *s, PyObject *self, PyObject *known) noexcept:
    cdef Py_ssize_t start = s.size
    cdef PyObject *key
    cdef PyObject *value
    cdef int result = -1
    if write_field(op, s, self, True) < 0:
        return -1
    key = PyLong_FromLongLong(op.tag)
    value = PyBytes_FromStringAndSize(<const char *>s.buf + start, s.size - start)
    s.size = start
    if key != NULL and value != NULL:
        result = PyDict_SetItem(known, key, value)
    Py_XDECREF(key)
    Py_XDECREF(value)
    return result


# What the rest of the package calls

cdef int raise_pending() except -1:
    """Raise what a function of the interpreter left behind, or Malformed."""
    if PyErr_Occurred() != NULL:
        return -1
    raise Malformed


cdef class CompiledCodec:
    """Codec of one message and version."""

    cdef Plan _plan
    cdef object _layout

    def __init__(self, object layout):
        self._layout = layout
        self._plan = plan_of(layout)

    def decode(self, data):
        """The message that fills `data`."""
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t size = 0
        message = self._read(data, 0, &end, &size)
        if end != size:
            raise trailing_bytes(end, size)
        return message

    def read(self, data, Py_ssize_t pos):
        """The message that begins at `pos`, and the position behind it."""
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t size = 0
        if pos < 0:
            raise ValueError("a position is not negative")
        message = self._read(data, pos, &end, &size)
        return message, end

    def encode(self, message):
        """The message in one piece."""
        result = self._write(message, SPLIT_BYTES, False)
        return result if type(result) is bytes else EMPTY_JOIN(result)

    def encode_parts(self, message):
        """The message in pieces, with records uncopied."""
        return self._write(message, 1, True)

    cdef object _read(self, object data, Py_ssize_t pos, Py_ssize_t *end, Py_ssize_t *size):
        cdef Py_buffer buffer
        cdef Cursor c
        cdef PyObject *found
        if not (PyBytes_CheckExact(<PyObject *>data) or is_flat_view(<PyObject *>data)):
            data = as_view(data)
        if PyObject_GetBuffer(<PyObject *>data, &buffer, PyBUF_SIMPLE) < 0:
            raise_pending()
        c.start = <const uint8_t *>buffer.buf
        c.end = c.start + buffer.len
        c.pos = c.start + (pos if pos < buffer.len else buffer.len)
        c.source = <PyObject *>data
        c.view = NULL
        found = read_struct(&self._plan.c, &c)
        end[0] = c.pos - c.start
        size[0] = buffer.len
        PyBuffer_Release(&buffer)
        Py_XDECREF(c.view)
        if found == NULL:
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
        cdef int result
        s.buf = stack
        s.size = 0
        s.capacity = STACK_BYTES
        s.on_heap = False
        s.parts = NULL
        s.split_bytes = split_bytes
        result = write_struct(&self._plan.c, &s, <PyObject *>message)
        written = None
        if result == 0 and (as_parts or s.parts != NULL):
            result = end_part(&s)
            written = [] if s.parts == NULL else <object>s.parts
        elif result == 0:
            written = (<const char *>s.buf)[:s.size]
        if s.on_heap:
            PyMem_Free(s.buf)
        Py_XDECREF(s.parts)
        if result < 0:
            try:
                raise_pending()
            except ENCODE_FAILURES as error:
                raise explain_encode(self._layout, message, error) from None
        return written
