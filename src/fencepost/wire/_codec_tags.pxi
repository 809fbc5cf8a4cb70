"""Writing: what equals its default, and tagged sections. Part of `_codec`."""

cdef int same_bits(PyObject *one, PyObject *other) noexcept:
    """Whether two floats are written alike: 0.0 and -0.0 are not; -1 when one is no float."""
    cdef uint8_t first[8]
    cdef uint8_t second[8]
    if write_float(first, one) < 0 or write_float(second, other) < 0:
        return -1
    return memcmp(first, second, 8) == 0


cdef int is_default(const Op *op, PyObject *value) noexcept:
    """1 when `value` says no more than the default, 0 when it does, -1 when that is not clear."""
    cdef Py_ssize_t size
    cdef int64_t number = 0
    cdef int64_t default = 0
    cdef PyObject *total
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
    if op.kind == FLOAT64:
        return same_bits(value, op.default)
    if fpost_plain_number(value, &number) and fpost_plain_number(op.default, &default):
        return number == default
    return PyObject_RichCompareBool(value, op.default, Py_EQ)


cdef inline int slot_is_default(const Op *op, PyObject *self) noexcept:
    cdef PyObject *value = FPOST_SLOT(self, op.offset)
    cdef int result
    if value == NULL:
        return -1
    if value == op.default:
        return 1
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


cdef inline int has_unknown_tags(const PlanC *plan, PyObject *self) noexcept:
    cdef PyObject *tags = FPOST_SLOT(self, plan.unknown_tags)
    cdef int result
    if tags == Py_None:
        return 0
    if tags == NULL:
        return -1
    Py_INCREF(tags)
    result = PyObject_IsTrue(tags)
    Py_DECREF(tags)
    return result


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
    if count == 0:
        return 0
    for index in range(plan.plain_end, plan.tagged_end):
        if chosen >> (index - plan.plain_end) & 1:
            if put_uvarint(s, plan.ops[index].tag) < 0:
                return -1
            if write_tag_value(&plan.ops[index], s, self) < 0:
                return -1
    return 0


cdef int write_tag_value(const Op *op, Sink *s, PyObject *self) noexcept:
    """Size and value of a tagged field; the size is known when the value is written.

    It lies in the buffer as a whole until then, so that records in it are copied, whatever their
    size.
    """
    cdef Py_ssize_t start = s.pos - s.buf
    cdef Py_ssize_t split_bytes = s.split_bytes
    cdef Py_ssize_t size
    cdef int width
    if need(s, 1) < 0:
        return -1
    s.pos += 1
    s.split_bytes = PY_SSIZE_T_MAX
    if write_field(op, s, self) < 0:
        return -1
    s.split_bytes = split_bytes
    size = s.pos - s.buf - start - 1
    width = uvarint_width(size)
    if width > 1:
        if need(s, width - 1) < 0:
            return -1
        memmove(s.buf + start + width, s.buf + start + 1, size)
        s.pos += width - 1
    store_uvarint(s.buf + start, size)
    return 0


cdef int write_merged_tags(
    const PlanC *plan, Sink *s, PyObject *self, uint64_t chosen
) noexcept:
    """The tagged section where declared and unknown fields must be sorted into each other."""
    cdef PyObject *known
    cdef PyObject *unknown = FPOST_SLOT(self, plan.unknown_tags)
    cdef PyObject *section = NULL
    cdef int index
    cdef int result
    if unknown == NULL:  # the object's own code has run since the caller looked here
        return -1
    Py_INCREF(unknown)
    known = PyDict_New()
    result = 0 if known != NULL else -1
    for index in range(plan.plain_end, plan.tagged_end):
        if result == 0 and chosen >> (index - plan.plain_end) & 1:
            result = collect_tag(&plan.ops[index], s, self, known)
    if result == 0:
        section = PyObject_CallFunctionObjArgs(
            <PyObject *>TAGGED_SECTION,
            known,
            unknown,
            plan.declared,
            <PyObject *>NULL,
        )
        result = -1
        if section != NULL:
            result = put_bytes(s, PyBytes_AS_STRING(section), PyBytes_GET_SIZE(section))
    Py_DECREF(unknown)
    Py_XDECREF(known)
    Py_XDECREF(section)
    return result


cdef int collect_tag(const Op *op, Sink *s, PyObject *self, PyObject *known) noexcept:
    cdef Py_ssize_t start = s.pos - s.buf
    cdef Py_ssize_t split_bytes = s.split_bytes
    cdef PyObject *key
    cdef PyObject *value
    cdef int result = -1
    s.split_bytes = PY_SSIZE_T_MAX
    if write_field(op, s, self) < 0:
        return -1
    s.split_bytes = split_bytes
    key = PyLong_FromLongLong(op.tag)
    value = PyBytes_FromStringAndSize(<const char *>s.buf + start, s.pos - s.buf - start)
    s.pos = s.buf + start
    if key != NULL and value != NULL:
        result = PyDict_SetItem(known, key, value)
    Py_XDECREF(key)
    Py_XDECREF(value)
    return result
