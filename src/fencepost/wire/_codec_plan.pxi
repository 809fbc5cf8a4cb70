"""Plans: layouts in C. Part of `_codec`."""

cdef struct PlanC:
    PyTypeObject *type
    Py_ssize_t slots
    Py_ssize_t unknown_tags
    bint is_flexible
    int plain_end
    int tagged_end
    int refused_end  # absent fields whose value must be the default come first
    int absent_end
    Op *ops
    PyObject *declared
    PyObject **blank  # what a default object has in its slots; NULL where some of it is made again

cdef struct Op:
    int kind
    int step  # the kind of single values, ARRAY for any array
    int width  # bytes of a single value, where that is always the same
    int spare_bits  # of eight bytes, behind a signed integer that they begin with
    bint is_array
    bint is_nullable
    bint is_compact
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
        cdef PyTypeObject *common = <PyTypeObject *><PyObject *>UUID_CLASS
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
            self.c.ops[index].is_compact = slot.is_compact
            self.c.ops[index].element_min_size = slot.element_min_size
            index += 1
        refused = [field for field in absent if not field.ignorable]
        self.c.refused_end = index + len(refused)
        for field in refused + [field for field in absent if field.ignorable]:
            inner = None if field.struct is None else defaults_of(field.struct)
            self._set(&self.c.ops[index], struct, field, inner)
            index += 1
        self.c.slots = total + 1
        if fpost_adopt(self.c.type, self.c.slots, common.tp_dealloc):
            self._set_blank()

    def __dealloc__(self):
        PyMem_Free(self.c.ops)
        PyMem_Free(self.c.blank)

    cdef int _set_blank(self) except -1:
        """The values of default objects, where all of them can be shared."""
        cdef int index
        for index in range(self.c.absent_end):
            if self.c.ops[index].default == NULL:
                return 0
        self.c.blank = <PyObject **>PyMem_Malloc(self.c.slots * sizeof(PyObject *))
        if self.c.blank == NULL:
            raise MemoryError
        for index in range(self.c.absent_end):
            self.c.blank[fpost_slot_index(self.c.ops[index].offset)] = self.c.ops[index].default
        self.c.blank[fpost_slot_index(self.c.unknown_tags)] = Py_None
        return 0

    cdef Py_ssize_t _offset(self, object struct, str name) except -1:
        descriptor = getattr(struct, name)
        if Py_TYPE(<PyObject *>descriptor) != &PyMemberDescr_Type:
            raise TypeError(f"{struct.__name__}.{name} is not a slot")
        return fpost_slot_offset(<PyObject *>descriptor)

    cdef int _set(self, Op *op, object struct, object field, Plan inner) except -1:
        op.kind = STRUCT if field.primitive is None else KINDS[field.primitive]
        op.step = ARRAY if field.is_array else op.kind
        op.width = WIDTHS.get(op.kind, 0)
        op.spare_bits = 64 - 8 * op.width
        op.is_array = field.is_array
        op.is_nullable = False
        op.is_compact = False
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
