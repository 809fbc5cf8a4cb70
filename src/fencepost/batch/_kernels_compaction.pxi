"""Compaction's work per record: the last offset of every key, and what stays. Part of `_kernels`.

What decides is in `_compaction.h`; the twin is `key_offsets`.
"""

cdef extern from "_compaction.h" nogil:
    enum:
        FPOST_NOTED
        FPOST_NOT_SOUND
        FPOST_NO_ROOM

    ctypedef struct fpost_key_entry:
        int64_t offset

    ctypedef struct fpost_key_table:
        int64_t count
        uint64_t secret[2]

    ctypedef struct fpost_stored_key:
        const uint8_t *data
        uint8_t size

    ctypedef struct fpost_row_rules:
        int32_t count
        int32_t last_offset_delta
        int64_t base_offset
        int64_t base_timestamp
        int is_log_append_time

    ctypedef struct fpost_survival_rules:
        int64_t latest_offset
        int drops_tombstones

    ctypedef struct fpost_survivors:
        int64_t kept
        int64_t without_key
        int64_t tombstones
        int64_t max_timestamp
        int64_t size

    void fpost_table_free(fpost_key_table *)
    void fpost_store_key(const fpost_key_table *, const uint8_t *, int64_t, fpost_stored_key *)
    fpost_key_entry *fpost_table_find(const fpost_key_table *, const fpost_stored_key *)
    int fpost_table_add(fpost_key_table *, const fpost_stored_key *, int64_t)
    int fpost_note_records(
        fpost_key_table *, const uint8_t *, int64_t, const fpost_row_rules *, int64_t, int64_t, int,
        int64_t *, fpost_reason_report *
    )
    int fpost_pick_records(
        const fpost_key_table *, const uint8_t *, int64_t, const fpost_row_rules *,
        const fpost_survival_rules *, uint8_t *, fpost_survivors *, fpost_reason_report *
    )
    int64_t fpost_rebase_records(
        const uint8_t *, int64_t, const fpost_row_rules *, int64_t, uint8_t *
    )


cdef fpost_row_rules rules_of(header):
    cdef fpost_row_rules rules
    rules.count = header.records_count
    rules.last_offset_delta = header.last_offset_delta
    rules.base_offset = header.base_offset
    rules.base_timestamp = header.base_timestamp
    rules.is_log_append_time = header.is_log_append_time
    return rules


cdef class KeyOffsets:
    """The last offset of every key; see `key_offsets.KeyOffsets`. For one thread at a time."""

    cdef fpost_key_table table
    cdef bint is_at_work

    def __cinit__(self):
        memset(&self.table, 0, sizeof(self.table))
        # The process's own secret, as far as it has one.
        self.table.secret[0] = <uint64_t><int64_t>hash(b"slots")
        self.table.secret[1] = <uint64_t><int64_t>hash(b"of keys")

    def __dealloc__(self):
        fpost_table_free(&self.table)

    def __len__(self):
        return self.table.count

    cdef int begin(self) except -1:
        """RuntimeError while another thread, without the GIL, works on these keys."""
        if self.is_at_work:
            raise RuntimeError("another thread is at work on these keys")
        self.is_at_work = True
        return 0

    def clear(self):
        """Forget all keys."""
        self.begin()
        fpost_table_free(&self.table)
        self.is_at_work = False

    def get(self, bytes key):
        """The last offset of a key, -1 for one that is not here."""
        cdef fpost_stored_key stored
        cdef const fpost_key_entry *entry
        self.begin()
        fpost_store_key(
            &self.table, <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), &stored
        )
        entry = fpost_table_find(&self.table, &stored)
        self.is_at_work = False
        return -1 if entry == NULL else entry.offset

    def put(self, bytes key, int64_t offset):
        """Note the offset of a key."""
        cdef fpost_stored_key stored
        cdef fpost_key_entry *entry
        cdef int has_room = 1
        self.begin()
        fpost_store_key(
            &self.table, <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), &stored
        )
        entry = fpost_table_find(&self.table, &stored)
        if entry != NULL:
            entry.offset = offset
        else:
            has_room = fpost_table_add(&self.table, &stored, offset)
        self.is_at_work = False
        if not has_room:
            raise MemoryError

    def note(
        self,
        payload,
        header,
        int64_t start_offset,
        int64_t entry_bytes,
        bint is_bounded,
        int64_t left_bytes,
    ):
        """(None or the reason, bytes left, whether all were noted); see `key_offsets`."""
        cdef Py_buffer view
        cdef fpost_reason_report report
        cdef fpost_row_rules rules = rules_of(header)
        cdef int noted
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            self.begin()
            if view.len < LONG_BYTES:
                noted = fpost_note_records(
                    &self.table, <const uint8_t *>view.buf, view.len, &rules, start_offset,
                    entry_bytes, is_bounded, &left_bytes, &report,
                )
            else:
                with nogil:
                    noted = fpost_note_records(
                        &self.table, <const uint8_t *>view.buf, view.len, &rules, start_offset,
                        entry_bytes, is_bounded, &left_bytes, &report,
                    )
            self.is_at_work = False
        finally:
            PyBuffer_Release(&view)
        if noted == FPOST_NO_ROOM:
            raise MemoryError
        told = as_tuple(&report) if noted == FPOST_NOT_SOUND else None
        return told, left_bytes, noted == FPOST_NOTED

    def pick(self, payload, header, int64_t latest_offset, bint drops_tombstones):
        """(None or the reason, survivors, left) of a batch's records; see `key_offsets`."""
        cdef Py_buffer view
        cdef fpost_reason_report report
        cdef fpost_row_rules rows = rules_of(header)
        cdef fpost_survival_rules rules
        cdef fpost_survivors found
        cdef int sound
        cdef uint8_t *to
        rules.latest_offset = latest_offset
        rules.drops_tombstones = drops_tombstones
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            left = PyByteArray_FromStringAndSize(NULL, view.len)
            to = <uint8_t *>PyByteArray_AS_STRING(left)
            self.begin()
            if view.len < LONG_BYTES:
                sound = fpost_pick_records(
                    &self.table, <const uint8_t *>view.buf, view.len, &rows, &rules, to, &found,
                    &report,
                )
            else:
                with nogil:
                    sound = fpost_pick_records(
                        &self.table, <const uint8_t *>view.buf, view.len, &rows, &rules, to,
                        &found, &report,
                    )
            self.is_at_work = False
        finally:
            PyBuffer_Release(&view)
        if not sound:
            return as_tuple(&report), (0, 0, 0, 0), payload
        told = (found.kept, found.without_key, found.tombstones, found.max_timestamp)
        if found.kept == rows.count:
            return None, told, payload
        PyByteArray_Resize(left, found.size)
        return None, told, left


def stored_key(bytes key):
    """What stands for a key in `KeyOffsets`."""
    cdef fpost_key_table table
    cdef fpost_stored_key stored
    memset(&table, 0, sizeof(table))
    fpost_store_key(
        &table, <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), &stored
    )
    return PyBytes_FromStringAndSize(<const char *>stored.data, stored.size)


def rebase_records(payload, header, int64_t base_timestamp):
    """Sound records with timestamp deltas to another base; see `key_offsets.rebase_records`."""
    cdef Py_buffer view
    cdef fpost_row_rules rules = rules_of(header)
    cdef int64_t size
    cdef uint8_t *to
    if base_timestamp < 0:
        raise ValueError(f"no time to be relative to: {base_timestamp} ms")
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        size = fpost_rebase_records(
            <const uint8_t *>view.buf, view.len, &rules, base_timestamp, NULL
        )
        if size < 0:
            return None
        rebased = PyByteArray_FromStringAndSize(NULL, size)
        to = <uint8_t *>PyByteArray_AS_STRING(rebased)
        fpost_rebase_records(<const uint8_t *>view.buf, view.len, &rules, base_timestamp, to)
        return rebased
    finally:
        PyBuffer_Release(&view)
