"""Writing: from objects to bytes. Part of `_codec`."""

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


cdef int store_uvarint(uint8_t *p, uint64_t value) noexcept:
    """Write a varint where there is room for it; returns its size."""
    cdef int size = 1
    while value > 0x7F:
        p[size - 1] = <uint8_t>(value & 0x7F | 0x80)
        size += 1
        value >>= 7
    p[size - 1] = <uint8_t>value
    return size


cdef int put_uvarint(Sink *s, int64_t value) noexcept:
    if value > 0xFFFFFFFF or need(s, 5) < 0:
        return -1
    s.size += store_uvarint(s.buf + s.size, value)
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
    cdef int result
    if tags == Py_None:
        return 0
    if tags == NULL:
        return -1
    Py_INCREF(tags)
    result = PyObject_IsTrue(tags)
    Py_DECREF(tags)
    return result


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
    cdef int width
    if put_int(s, 0, 1) < 0:
        return -1
    start = s.size
    if write_field(op, s, self, True) < 0:
        return -1
    size = s.size - start
    width = uvarint_width(size)
    if width > 1:
        if need(s, width - 1) < 0:
            return -1
        memmove(s.buf + start - 1 + width, s.buf + start, size)
        s.size += width - 1
    store_uvarint(s.buf + start - 1, size)
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
    cdef PyObject *unknown = SLOT(self, plan.unknown_tags)
    cdef PyObject *section = NULL
    cdef int index
    cdef int result = 0 if known != NULL else -1
    Py_INCREF(unknown)
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
