# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The plain Fetch of a consumer, read from its bytes, and its answer if that is small.

Optional: `broker/apis/fetch_bytes.py` does the same in Python, says what is plain, and has the
layouts. Both find the same requests plain, and write the same bytes; a test compares them. Runs of
requests (`_fetch_runs.pxi`) have no twin: without the module requests are taken one by one.

Every read is checked against the end of the frame. A small answer is made in one piece, its records
copied: it would be joined to be sent anyway.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

INTERFACE = 4  # what `backend` expects; raised with every change of a signature below

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    str PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)

cdef enum:
    TOPIC_IDS_FROM = 13
    REPLICA_STATE_FROM = 15
    PARTITIONS_MAX = 16
    LENGTH_MAX = 0x7F
    LENGTH_BYTES = 4
    KEYS_BYTES = 4
    CORRELATION_BYTES = 4
    HEAD_BYTES = 22
    PARTITION_BYTES = 33
    INDEX_BYTES = 4
    UUID_BYTES = 16
    ANSWER_HEAD_BYTES = 19
    ANSWERED_BYTES = 35
    NO_REPLICA = -1


cdef inline uint32_t be32(const uint8_t *at) noexcept:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t be64(const uint8_t *at) noexcept:
    return <int64_t>(<uint64_t>be32(at) << 32 | be32(at + 4))


cdef inline uint8_t *put_be(uint8_t *at, uint64_t value, int size) noexcept:
    cdef int place
    for place in range(size):
        at[place] = <uint8_t>(value >> 8 * (size - 1 - place))
    return at + size


cdef inline int uvarint_size(uint64_t value) noexcept:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t *put_uvarint(uint8_t *at, uint64_t value) noexcept:
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t>value
    return at + 1


# -- requests ----------------------------------------------------------------------------------


cdef class Cursor:
    """Where a frame is read, and the classes of what is made of it."""

    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int version
    cdef object wanted_class, uuid_class

    cdef object topic(self, int partition_bytes, int *count):
        """The next topic's name or id, with its partitions and a byte more behind; None if it is
        not plain."""
        cdef Py_ssize_t size = UUID_BYTES
        if self.version < TOPIC_IDS_FROM:
            if self.at >= self.end:
                return None
            size = self.at[0] - 1
            self.at += 1
        if size <= 0 or size >= LENGTH_MAX or size >= self.end - self.at:
            return None
        cdef const char *name = <const char *>self.at
        self.at += size
        count[0] = self.at[0] - 1
        if self.end - self.at <= <Py_ssize_t>count[0] * partition_bytes + 1:
            return None
        self.at += 1
        if self.version >= TOPIC_IDS_FROM:
            return bytes.__new__(self.uuid_class, PyBytes_FromStringAndSize(name, size))
        try:
            return PyUnicode_DecodeUTF8(name, size, NULL)
        except UnicodeDecodeError:
            return None

    cdef bint ends(self) noexcept:
        """Pass the end of a topic without tags."""
        cdef uint8_t tags = self.at[0]
        self.at += 1
        return tags == 0

    cdef bint read_wanted(self, int topics, list wanted) except -1:
        """Append what so many topics name; whether all of it is plain."""
        cdef int count
        cdef const uint8_t *at
        for _ in range(topics):
            topic = self.topic(PARTITION_BYTES, &count)
            if topic is None or not 0 < count <= PARTITIONS_MAX - len(wanted):
                return False
            for _ in range(count):
                at = self.at
                if at[32]:
                    return False
                wanted.append(
                    self.wanted_class(
                        (topic, <int32_t>be32(at)),
                        be64(at + 8),
                        <int32_t>be32(at + 28),
                        <int32_t>be32(at + 4),
                        <int32_t>be32(at + 16),
                        be64(at + 20),
                    )
                )
                self.at += PARTITION_BYTES
            if not self.ends():
                return False
        return True

    cdef bint read_forgotten(self, int topics, list forgotten) except -1:
        """The same of what is forgotten."""
        cdef int count
        for _ in range(topics):
            topic = self.topic(INDEX_BYTES, &count)
            if topic is None or not 0 < count <= PARTITIONS_MAX - len(forgotten):
                return False
            for _ in range(count):
                forgotten.append((topic, <int32_t>be32(self.at)))
                self.at += INDEX_BYTES
            if not self.ends():
                return False
        return True


def read_plain(made_class, wanted_class, uuid_class, frame, Py_ssize_t at, int version):
    """The body of a request that begins at `at`, of v12 or later, as a `made_class`, which is a
    named tuple; None if it is not plain."""
    cdef Py_buffer view
    cdef Cursor cursor = Cursor.__new__(Cursor)
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if at < 0 or at > view.len:
            return None
        cursor.at = <const uint8_t *>view.buf + at
        cursor.end = <const uint8_t *>view.buf + view.len
        cursor.version = version
        cursor.wanted_class, cursor.uuid_class = wanted_class, uuid_class
        return read_body(cursor, made_class)
    finally:
        PyBuffer_Release(&view)


cdef object read_body(Cursor cursor, made_class):
    cdef const uint8_t *at = cursor.at
    if cursor.version < REPLICA_STATE_FROM:
        if cursor.end - at < 4 or be32(at) != 0xFFFFFFFF:
            return None
        at += 4
    if cursor.end - at < HEAD_BYTES:
        return None
    cdef int32_t session_id = <int32_t>be32(at + 13), epoch = <int32_t>be32(at + 17)
    cdef bint is_in_session = session_id > 0 and epoch > 0
    cdef int topics = at[21], least = 1 if is_in_session else 2
    if be32(at + 4) != 1 or at[12] > 1 or not least <= topics <= PARTITIONS_MAX:
        return None
    if not is_in_session and (session_id != 0 or epoch != -1):
        return None
    cursor.at = at + HEAD_BYTES
    cdef list wanted = [], forgotten = []
    if not cursor.read_wanted(topics - 1, wanted) or cursor.at >= cursor.end:
        return None
    topics = cursor.at[0] - 1
    cursor.at += 1
    if not 0 <= topics <= (PARTITIONS_MAX if is_in_session else 0):
        return None
    if not cursor.read_forgotten(topics, forgotten):
        return None
    if cursor.end - cursor.at != 2 or cursor.at[0] != 1 or cursor.at[1] != 0:
        return None
    if len(wanted) > 1 and len({one.key for one in wanted}) < len(wanted):
        return None
    return tuple.__new__(
        made_class,
        (
            <int32_t>be32(at),
            <int32_t>be32(at + 8),
            <int>at[12],
            session_id,
            epoch,
            wanted,
            forgotten,
        ),
    )


# -- answers -----------------------------------------------------------------------------------


cdef const char *name_of(object topic, Py_ssize_t *size) except NULL:
    """The bytes of a name or an id."""
    if isinstance(topic, bytes):
        size[0] = PyBytes_GET_SIZE(topic)
        return PyBytes_AS_STRING(topic)
    return PyUnicode_AsUTF8AndSize(topic, size)


cdef Py_ssize_t neighbours(list some, Py_ssize_t at) except -1:
    """How many partitions from there on are of one topic."""
    cdef Py_ssize_t end = at + 1
    topic = some[at][0]
    while end < len(some) and (some[end][0] is topic or some[end][0] == topic):
        end += 1
    return end - at


cdef Py_ssize_t measure(list some, Py_ssize_t *topics) except -1:
    """The size of an answer, and how many topics are in it."""
    cdef Py_ssize_t size = ANSWER_HEAD_BYTES + 1, at = 0, count, name_size, records_size
    topics[0] = 0
    while at < len(some):
        topic = some[at][0]
        count = neighbours(some, at)
        name_of(topic, &name_size)
        size += name_size + uvarint_size(count + 1) + 1
        if not isinstance(topic, bytes):
            size += uvarint_size(name_size + 1)
        for at in range(at, at + count):
            records_size = len(some[at][3])
            size += ANSWERED_BYTES + uvarint_size(records_size + 1) + records_size + 1
        at += 1
        topics[0] += 1
    return size + uvarint_size(topics[0] + 1)


cdef uint8_t *put_partition(uint8_t *to, tuple answered, int aborted) except NULL:
    """What an answer has of a partition."""
    cdef Py_buffer view
    bounds = answered[2]
    to = put_be(to, <uint32_t><int32_t>answered[1], 4)
    to = put_be(to, 0, 2)
    to = put_be(to, <uint64_t><int64_t>bounds.high_watermark, 8)
    to = put_be(to, <uint64_t><int64_t>bounds.last_stable_offset, 8)
    to = put_be(to, <uint64_t><int64_t>bounds.log_start_offset, 8)
    to = put_be(to, aborted, 1)
    to = put_be(to, <uint32_t>NO_REPLICA, 4)
    cdef Py_ssize_t size = len(answered[3])
    to = put_uvarint(to, size + 1)
    PyObject_GetBuffer(answered[3], &view, PyBUF_SIMPLE)
    try:
        if view.len != size:
            raise TypeError("records are bytes")
        memcpy(to, view.buf, size)
    finally:
        PyBuffer_Release(&view)
    return put_be(to + size, 0, 1)


def answer(int32_t correlation_id, int32_t session_id, int aborted, list some, Py_ssize_t size_max):
    """The response frame to `some`, which are (topic id or name, index, bounds, records); None if
    it were larger than `size_max`. `aborted` is the byte for no aborted transactions."""
    cdef Py_ssize_t topics, at = 0, count, name_size, size = measure(some, &topics)
    if size > size_max:
        return None
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(made)
    cdef const char *name
    to = put_be(to, <uint64_t>(size - 4), 4)
    to = put_be(to, <uint32_t>correlation_id, 4)
    to = put_be(to, 0, 1 + 4 + 2)
    to = put_be(to, <uint32_t>session_id, 4)
    to = put_uvarint(to, topics + 1)
    while at < len(some):
        topic = some[at][0]
        count = neighbours(some, at)
        name = name_of(topic, &name_size)
        if not isinstance(topic, bytes):
            to = put_uvarint(to, name_size + 1)
        memcpy(to, name, name_size)
        to = put_uvarint(to + name_size, count + 1)
        for at in range(at, at + count):
            to = put_partition(to, some[at], aborted)
        at += 1
        to = put_be(to, 0, 1)
    put_be(to, 0, 1)
    return made


include "_fetch_runs.pxi"
