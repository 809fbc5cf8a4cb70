"""Writing: from objects to bytes. Part of `_codec`."""

cdef int write_index(int kind, uint8_t *p, PyObject *value) noexcept:
    """An integer of any kind, from any object that is one."""
    cdef int overflow = 0
    cdef int64_t number
    cdef PyObject *index = PyNumber_Index(value)
    if index == NULL:
        return -1
    number = PyLong_AsLongLongAndOverflow(index, &overflow)
    Py_DECREF(index)
    return -1 if overflow else store_number(kind, p, number)


cdef inline int store_number(int kind, uint8_t *p, int64_t number) noexcept:
    """-1 when `number` does not fit into a `kind`."""
    if kind == INT32:
        fpost_store32(p, <uint64_t>number)
        return 0 if number == <int32_t>number else -1
    elif kind == INT64:
        fpost_store64(p, <uint64_t>number)
        return 0
    elif kind == INT16:
        fpost_store16(p, <uint64_t>number)
        return 0 if number == <int16_t>number else -1
    elif kind == INT8:
        p[0] = <uint8_t>number
        return 0 if number == <int8_t>number else -1
    elif kind == UINT16:
        fpost_store16(p, <uint64_t>number)
        return 0 if number == <uint16_t>number else -1
    else:
        fpost_store32(p, <uint64_t>number)
        return 0 if number == <uint32_t>number else -1


cdef int write_bool(uint8_t *p, PyObject *value) noexcept:
    cdef PyObject *byte
    if value == Py_True or value == Py_False:
        p[0] = value == Py_True
        return 0
    byte = PyDict_GetItemWithError(<PyObject *>BOOL_BYTE, value)
    return -1 if byte == NULL else write_index(INT8, p, byte)


cdef int write_float(uint8_t *p, PyObject *value) noexcept:
    cdef uint64_t bits = 0
    cdef double number = PyFloat_AsDouble(value)
    if number == -1.0 and PyErr_Occurred() != NULL:
        return -1
    memcpy(&bits, &number, 8)
    fpost_store64(p, bits)
    return 0


cdef int write_uuid(uint8_t *p, PyObject *value) noexcept:
    cdef PyObject *raw
    if PyBytes_Check(value):
        if PyBytes_GET_SIZE(value) != 16:
            return -1
        memcpy(p, PyBytes_AS_STRING(value), 16)
        return 0
    raw = PyObject_CallFunctionObjArgs(<PyObject *>AS_UUID, value, <PyObject *>NULL)
    if raw == NULL:
        return -1
    memcpy(p, PyBytes_AS_STRING(raw), 16)  # as_uuid gives 16 bytes or fails
    Py_DECREF(raw)
    return 0


cdef int write_other(int kind, uint8_t *p, PyObject *value) noexcept:
    """A value of one size that is no plain number; holds it, since it may run code."""
    cdef int result
    Py_INCREF(value)
    if kind == BOOL:
        result = write_bool(p, value)
    elif kind == UUID:
        result = write_uuid(p, value)
    elif kind == FLOAT64:
        result = write_float(p, value)
    else:
        result = write_index(kind, p, value)
    Py_DECREF(value)
    return result


cdef inline int write_fixed(int kind, uint8_t *p, PyObject *value) noexcept:
    """A value of a type of one size, for which there is room."""
    cdef int64_t number = 0
    if kind < NUMBERS_END and fpost_plain_number(value, &number):
        return store_number(kind, p, number)
    return write_other(kind, p, value)


cdef int write_string(Sink *s, PyObject *value, bint is_compact) noexcept:
    cdef Py_ssize_t size = 0
    cdef const char *text = fpost_ascii_of(value, &size)
    if text == NULL:
        if not PyUnicode_Check(value):
            return -1
        text = PyUnicode_AsUTF8AndSize(value, &size)
    if text == NULL or size > STRING_BYTES_MAX or need(s, size + VARINT_BYTES) < 0:
        return -1
    if is_compact:
        s.pos += store_uvarint(s.pos, size + 1)
    else:
        fpost_store16(s.pos, size)
        s.pos += 2
    memcpy(s.pos, text, size)
    s.pos += size
    return 0


cdef int write_bytes(Sink *s, PyObject *value, bint is_compact) noexcept:
    cdef PyObject *raw = value
    cdef int result = -1
    if PyBytes_Check(value):
        Py_INCREF(raw)
    else:
        raw = PyObject_CallFunctionObjArgs(<PyObject *>AS_BYTES, value, <PyObject *>NULL)
        if raw == NULL:
            return -1
    if put_length(s, is_compact, 4, PyBytes_GET_SIZE(raw)) == 0:
        result = put_bytes(s, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    Py_DECREF(raw)
    return result


cdef inline PyObject *peek_at(PyObject *items, Py_ssize_t index) noexcept:
    """An element of a list or tuple, borrowed; NULL when it has become too short."""
    if PyList_Check(items):
        return PyList_GET_ITEM(items, index) if index < PyList_GET_SIZE(items) else NULL
    return PyTuple_GET_ITEM(items, index)


cdef inline PyObject *element_at(PyObject *items, Py_ssize_t index) noexcept:
    """The same as a new reference."""
    cdef PyObject *item = peek_at(items, index)
    if item != NULL:
        Py_INCREF(item)
    return item


cdef inline Py_ssize_t length_of(PyObject *items) noexcept:
    """How many elements a list or tuple has, whatever its own `__len__` says."""
    return PyList_GET_SIZE(items) if PyList_Check(items) else PyTuple_GET_SIZE(items)


cdef int64_t part_size(PyObject *value) noexcept:
    """Bytes in a piece of records; -1 when it is no buffer."""
    cdef const void *data = NULL
    cdef Py_ssize_t size = 0
    cdef PyObject *part = flat_part(value, &data, &size)
    if part == NULL:
        return -1
    Py_DECREF(part)
    return size


cdef int64_t records_total(PyObject *items) noexcept:
    """Bytes in all parts of a records value; -1 when one of them is no buffer."""
    cdef Py_ssize_t index
    cdef int64_t size
    cdef int64_t total = 0
    cdef PyObject *item
    for index in range(length_of(items)):
        item = element_at(items, index)
        if item == NULL:
            return -1
        size = part_size(item)
        Py_DECREF(item)
        if size < 0:
            return -1
        total += size
    return total


cdef int write_records(Sink *s, PyObject *value, bint is_compact) noexcept:
    """Parts are looked at twice; when others get at them meanwhile, the sizes may disagree."""
    cdef Py_ssize_t index
    cdef int64_t size
    cdef int64_t total
    cdef PyObject *part
    if not (PyList_Check(value) or PyTuple_Check(value)):
        total = part_size(value)
        if total < 0 or put_length(s, is_compact, 4, total) < 0:
            return -1
        return 0 if write_part(s, value) == total else -1
    total = records_total(value)
    if total < 0 or put_length(s, is_compact, 4, total) < 0:
        return -1
    for index in range(length_of(value)):
        part = element_at(value, index)
        if part == NULL:
            return -1
        size = write_part(s, part)
        Py_DECREF(part)
        if size < 0:
            return -1
        total -= size
    return 0 if total == 0 else -1


cdef int write_null(const Op *op, Sink *s) noexcept:
    """Null in place of a single value that is not of one size."""
    if op.kind == STRUCT:
        if need(s, 1) < 0:
            return -1
        s.pos[0] = 0xFF
        s.pos += 1
        return 0
    return put_length(s, op.is_compact, 2 if op.kind == STRING else 4, -1)


cdef int write_single(const Op *op, Sink *s, PyObject *value, bint is_nullable) noexcept:
    cdef int kind = op.kind
    if kind < FIXED_END:
        if need(s, op.width) < 0 or write_fixed(kind, s.pos, value) < 0:
            return -1
        s.pos += op.width
        return 0
    if value == Py_None:
        return write_null(op, s) if is_nullable else -1
    if kind == STRING:
        return write_string(s, value, op.is_compact)
    elif kind == BYTES:
        return write_bytes(s, value, op.is_compact)
    elif kind == RECORDS:
        return write_records(s, value, op.is_compact)
    if is_nullable:
        if need(s, 1) < 0:
            return -1
        s.pos[0] = 1
        s.pos += 1
    return write_struct(op.plan, s, value)


cdef int write_fixed_items(
    const Op *op, Sink *s, PyObject *items, Py_ssize_t count
) noexcept:
    """Elements of one size, of a list or tuple."""
    cdef Py_ssize_t index
    cdef PyObject *item
    cdef uint8_t *p
    if need(s, count * op.width) < 0:
        return -1
    p = s.pos
    for index in range(count):
        item = peek_at(items, index)
        if item == NULL or write_fixed(op.kind, p, item) < 0:
            return -1
        p += op.width
    s.pos = p
    return 0 if length_of(items) == count else -1  # writing an element may have run code


cdef int write_array(const Op *op, Sink *s, PyObject *items) noexcept:
    cdef Py_ssize_t count
    cdef Py_ssize_t index
    cdef PyObject *item
    cdef int result
    if items == Py_None:
        return put_length(s, op.is_compact, 4, -1) if op.is_nullable else -1
    if not (PyList_Check(items) or PyTuple_Check(items)):
        return -1
    count = length_of(items)
    if put_length(s, op.is_compact, 4, count) < 0:
        return -1
    if op.kind < FIXED_END:
        return write_fixed_items(op, s, items, count)
    for index in range(count):
        item = element_at(items, index)
        if item == NULL:
            return -1
        result = write_single(op, s, item, False)
        Py_DECREF(item)
        if result < 0:
            return -1
    return 0 if length_of(items) == count else -1


cdef int write_field(const Op *op, Sink *s, PyObject *self) noexcept:
    cdef PyObject *value = FPOST_SLOT(self, op.offset)
    cdef int result
    if value == NULL:
        return -1
    Py_INCREF(value)
    if op.is_array:
        result = write_array(op, s, value)
    else:
        result = write_single(op, s, value, op.is_nullable)
    Py_DECREF(value)
    return result


cdef int write_plain(const PlanC *plan, Sink *s, PyObject *self) noexcept:
    """What comes before the tagged section."""
    cdef const Op *op = plan.ops
    cdef const Op *end = plan.ops + plan.plain_end
    cdef uint8_t *p = s.pos
    cdef PyObject *value
    while op < end:
        if op.step < FIXED_END:
            if s.end - p < op.width:
                s.pos = p
                if grow(s, op.width) < 0:
                    return -1
                p = s.pos
            value = FPOST_SLOT(self, op.offset)
            if value == NULL or write_fixed(op.step, p, value) < 0:
                return -1
            p += op.width
        else:
            s.pos = p
            if write_field(op, s, self) < 0:
                return -1
            p = s.pos
        op += 1
    s.pos = p
    return 0


cdef int write_struct(const PlanC *plan, Sink *s, PyObject *self) noexcept:
    cdef int index
    cdef int unknown
    if Py_TYPE(self) != plan.type:
        return -1
    unknown = has_unknown_tags(plan, self)
    if unknown < 0 or (unknown and not plan.is_flexible):
        return -1
    for index in range(plan.tagged_end, plan.refused_end):
        if slot_is_default(&plan.ops[index], self) != 1:
            return -1
    if write_plain(plan, s, self) < 0:
        return -1
    if not plan.is_flexible:
        return 0
    return write_tags(plan, s, self, unknown)
