"""Reading: from bytes to objects. Part of `_codec`."""

cdef struct Cursor:
    const uint8_t *start
    const uint8_t *pos
    const uint8_t *end
    int64_t elements_left  # of arrays, and tags nobody declared; below 0 when there were too many
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
    c.elements_left -= count
    if c.elements_left < 0:
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
    c.elements_left -= 1
    if c.elements_left < 0:
        return -1
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
