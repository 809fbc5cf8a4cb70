"""Reading: from bytes to objects. Part of `_codec`."""

cdef struct Cursor:
    const uint8_t *start
    const uint8_t *pos
    const uint8_t *end
    int64_t elements_left  # of arrays, and undeclared tags; below 0 when there were too many
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


cdef inline int read_length(
    Cursor *c, bint is_compact, int plain_width, int64_t *length
) noexcept:
    """A length or count; -1 for null, which the caller judges."""
    cdef uint32_t compact = 0
    if is_compact:
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
        length[0] = <int16_t>fpost_load16(c.pos)
    else:
        length[0] = <int32_t>fpost_load32(c.pos)
    c.pos += plain_width
    return 0


cdef PyObject *read_uuid(const uint8_t *p) noexcept:
    if memcmp(p, PyBytes_AS_STRING(<PyObject *>ZERO_UUID), 16) == 0:
        return Py_NewRef(<PyObject *>ZERO_UUID)
    return fpost_uuid_of(<PyTypeObject *><PyObject *>UUID_CLASS, p)


cdef PyObject *read_float(const uint8_t *p) noexcept:
    cdef uint64_t bits = fpost_load64(p)
    cdef double number
    memcpy(&number, &bits, 8)
    return PyFloat_FromDouble(number)


cdef inline PyObject *read_fixed(int kind, const uint8_t *p) noexcept:
    """A value of a type of one size, all of which is there."""
    if kind == INT32:
        return fpost_number_of(<int32_t>fpost_load32(p))
    elif kind == INT64:
        return fpost_number_of(<int64_t>fpost_load64(p))
    elif kind == INT16:
        return fpost_number_of(<int16_t>fpost_load16(p))
    elif kind == INT8:
        return fpost_number_of(<int8_t>p[0])
    elif kind == BOOL:
        return Py_NewRef(Py_True if p[0] else Py_False)
    elif kind == UUID:
        return read_uuid(p)
    elif kind == UINT16:
        return fpost_number_of(fpost_load16(p))
    elif kind == UINT32:
        return fpost_number_of(fpost_load32(p))
    else:
        return read_float(p)


cdef PyObject *read_sized(const Op *op, Cursor *c, bint is_nullable) noexcept:
    """A string, bytes or records."""
    cdef int64_t size = 0
    cdef PyObject *value
    cdef int kind = op.kind
    if read_length(c, op.is_compact, 2 if kind == STRING else 4, &size) < 0:
        return NULL
    if size < 0:
        return Py_NewRef(Py_None) if size == -1 and is_nullable else NULL
    if size > c.end - c.pos:
        return NULL
    if kind == STRING:
        if size > STRING_BYTES_MAX:
            return NULL
        value = fpost_text_of(c.pos, size)
    elif kind == BYTES:
        value = PyBytes_FromStringAndSize(<const char *>c.pos, size)
    else:
        value = fpost_view_piece(&c.view, c.source, c.pos, size)
    c.pos += size
    return value


cdef PyObject *read_single(const Op *op, Cursor *c, bint is_nullable) noexcept:
    cdef const uint8_t *p = c.pos
    if op.kind < FIXED_END:
        if c.end - p < op.width:
            return NULL
        c.pos += op.width
        return read_fixed(op.kind, p)
    if op.kind != STRUCT:
        return read_sized(op, c, is_nullable)
    if is_nullable:
        if c.end - p < 1:
            return NULL
        c.pos += 1
        if p[0] > 0x7F:
            return Py_NewRef(Py_None)
    return read_struct(op.plan, c)


cdef PyObject *read_fixed_items(const Op *op, Cursor *c, int64_t count) noexcept:
    """So many values of one size, all of which are there."""
    cdef int64_t index
    cdef PyObject *item
    cdef PyObject *items = PyList_New(count)
    if items == NULL:
        return NULL
    for index in range(count):
        item = read_fixed(op.kind, c.pos)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        PyList_SET_ITEM(items, index, item)
        c.pos += op.width
    return items


cdef PyObject *read_items(const Op *op, Cursor *c, int64_t count) noexcept:
    """So many structs, strings or bytes."""
    cdef int64_t index
    cdef PyObject *item
    cdef int failed
    cdef bint grows = count > PREALLOCATED
    cdef PyObject *items = PyList_New(0 if grows else count)
    if items == NULL:
        return NULL
    for index in range(count):
        item = read_struct(op.plan, c) if op.kind == STRUCT else read_sized(op, c, False)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        if not grows:
            PyList_SET_ITEM(items, index, item)
            continue
        failed = PyList_Append(items, item)
        Py_DECREF(item)
        if failed < 0:
            Py_DECREF(items)
            return NULL
    return items


cdef PyObject *read_array(const Op *op, Cursor *c) noexcept:
    cdef int64_t count = 0
    if read_length(c, op.is_compact, 4, &count) < 0:
        return NULL
    if count < 0:
        return Py_NewRef(Py_None) if count == -1 and op.is_nullable else NULL
    if count * op.element_min_size > c.end - c.pos:
        return NULL
    c.elements_left -= count
    if c.elements_left < 0:
        return NULL
    if op.kind < FIXED_END:
        return read_fixed_items(op, c, count)
    return read_items(op, c, count)


cdef PyObject *read_value(const Op *op, Cursor *c) noexcept:
    """The value of a field that is not of one size."""
    if op.is_array:
        return read_array(op, c)
    return read_single(op, c, op.is_nullable)


cdef int set_slot(PyObject *self, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a new reference into a slot that may hold another; -1 when there is none to put."""
    if value == NULL:
        return -1
    cdef PyObject *old = FPOST_SLOT(self, offset)
    fpost_fill_slot(self, offset, value)
    Py_XDECREF(old)
    return 0


cdef int leave_empty(const PlanC *plan, const Op *op, PyObject *self) noexcept:
    """Nothing into the slots of `op` and all later ones, so that the object can be released."""
    cdef const Op *end = plan.ops + plan.absent_end
    while op < end:
        fpost_fill_slot(self, op.offset, NULL)
        op += 1
    fpost_fill_slot(self, plan.unknown_tags, NULL)
    return -1


cdef inline int fill_defaults(const PlanC *plan, int first, PyObject *self) noexcept:
    """Defaults into the slots of the ops from `first` on, and no unknown tags."""
    cdef const Op *op = plan.ops + first
    cdef const Op *end = plan.ops + plan.absent_end
    cdef PyObject *value
    while op < end:
        if op.default != NULL:
            value = Py_NewRef(op.default)
        else:
            value = PyList_New(0) if op.is_array else make_default(op.plan)
            if value == NULL:
                return leave_empty(plan, op, self)
        fpost_fill_slot(self, op.offset, value)
        op += 1
    fpost_fill_slot(self, plan.unknown_tags, Py_NewRef(Py_None))
    return 0


cdef PyObject *make_default(const PlanC *plan) noexcept:
    cdef PyObject *self
    if plan.blank != NULL:
        self = fpost_copy_struct(plan.type, plan.slots, plan.blank)
        return NULL if self == NULL else fpost_track_struct(self)
    self = fpost_new_struct(plan.type, plan.slots)
    if self == NULL:
        return NULL
    if fill_defaults(plan, 0, self) < 0:
        Py_DECREF(self)
        return NULL
    return fpost_track_struct(self)


cdef inline int fill_plain(const PlanC *plan, Cursor *c, PyObject *self) noexcept:
    """What comes before the tagged section."""
    cdef const Op *op = plan.ops
    cdef const Op *end = plan.ops + plan.plain_end
    cdef const uint8_t *p = c.pos
    cdef const uint8_t *stop = c.end
    cdef PyObject *value
    while op < end:
        if op.step < SIGNED_END and stop - p >= 8:
            value = fpost_number_of(fpost_load_signed(p, op.spare_bits))
            p += op.width
        elif op.step < FIXED_END:
            if stop - p < op.width:
                return leave_empty(plan, op, self)
            value = read_fixed(op.step, p)
            p += op.width
        else:
            c.pos = p
            value = read_value(op, c)
            p = c.pos
        if value == NULL:
            return leave_empty(plan, op, self)
        fpost_fill_slot(self, op.offset, value)
        op += 1
    c.pos = p
    return 0


cdef PyObject *read_struct(const PlanC *plan, Cursor *c) noexcept:
    cdef PyObject *self = fpost_new_struct(plan.type, plan.slots)
    cdef int failed
    if self == NULL:
        return NULL
    failed = fill_plain(plan, c, self)
    if failed == 0 and plan.plain_end == plan.absent_end:
        fpost_fill_slot(self, plan.unknown_tags, Py_NewRef(Py_None))
    elif failed == 0:
        failed = fill_defaults(plan, plan.plain_end, self)
    if failed == 0 and plan.is_flexible:
        if c.pos < c.end and c.pos[0] == 0:
            c.pos += 1
        else:
            failed = read_tags(plan, c, self)
    if failed < 0:
        Py_DECREF(self)
        return NULL
    return fpost_track_struct(self)


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
                result = set_slot(
                    self, plan.ops[index].offset, read_value(&plan.ops[index], c)
                )
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
    cdef PyObject *tags = FPOST_SLOT(self, plan.unknown_tags)
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
