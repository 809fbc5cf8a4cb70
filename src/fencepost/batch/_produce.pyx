# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A plain Produce request, read, checked and answered; what decides is in `_produce.h`.

Optional, and without a twin: whatever it does not take goes the way of all requests, through the
codec and `produced`, and so does everything where it was not built. What it takes has the same
answer, byte for byte, and leaves the same batch.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from time import perf_counter

INTERFACE = 6  # what `backend` expects; raised with every change of a signature below


cdef extern from "_produce.h" nogil:
    enum:
        FPOST_FLEXIBLE_FROM
        FPOST_TOPIC_IDS_FROM
        FPOST_BATCH_MAGIC
        FPOST_LOG_START_FROM
        FPOST_BATCH_LENGTH_OVERHEAD

    ctypedef struct fpost_produce_head:
        const uint8_t *transactional_id
        uint32_t transactional_id_size
        int32_t acks, timeout_ms
        uint32_t topics

    ctypedef struct fpost_produced_header:
        int64_t base_offset, base_timestamp, max_timestamp, producer_id
        int32_t batch_length, partition_leader_epoch, last_offset_delta, base_sequence
        int32_t records_count
        uint32_t crc
        int16_t attributes, producer_epoch

    ctypedef struct fpost_produced_rules:
        int64_t bytes_max, timestamp_min, timestamp_max
        int key_required, is_transactional

    int fpost_crc_initialise()
    uint32_t fpost_be16(const uint8_t *)
    uint32_t fpost_be32(const uint8_t *)
    void fpost_read_produced_header(const uint8_t *, fpost_produced_header *)
    int64_t fpost_add_clamped(int64_t, int64_t)
    int fpost_take_produce_head(const uint8_t **, const uint8_t *, int, fpost_produce_head *)
    int fpost_take_topic(
        const uint8_t **, const uint8_t *, int, const uint8_t **, uint32_t *, uint32_t *
    )
    int fpost_take_partition(
        const uint8_t **, const uint8_t *, int, int32_t *, const uint8_t **, uint32_t *
    )
    int fpost_take_end(const uint8_t **, const uint8_t *, int)
    int fpost_check_produced(
        const uint8_t *, int64_t, const fpost_produced_rules *, fpost_produced_header *
    )
    int fpost_length_size(int, int, uint32_t)
    uint8_t *fpost_put_length(uint8_t *, int, int, uint32_t)
    uint8_t *fpost_put_be(uint8_t *, uint64_t, int)
    int fpost_answered_partition_size(int)
    uint8_t *fpost_put_answered_partition(uint8_t *, int, int32_t, int64_t, int64_t, int64_t)


fpost_crc_initialise()

cdef enum:
    LONG_BYTES = 65536  # below this, letting the GIL go costs more than it could give
    TOPICS_MAX = 1000  # and partitions; more are not plain


def read_request(frame, Py_ssize_t at, int version):
    """What the body of a request at `at` has: (transactional id or None, acks, timeout, topics);
    None if it is not plain.

    A topic is (name or id, partitions) and a partition (index, where its batch is, its size); all
    the bytes of the frame are accounted for. Names and ids are bytes that may be no text.
    `version` is 3 to 13.
    """
    cdef Py_buffer view
    cdef fpost_produce_head head
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    cdef const uint8_t *start = <const uint8_t *>view.buf
    cdef const uint8_t *cursor = start + at
    cdef const uint8_t *end = start + view.len
    try:
        if at < 0 or at > view.len:
            return None
        if not fpost_take_produce_head(&cursor, end, version, &head):
            return None
        if head.topics > TOPICS_MAX:
            return None
        topics = read_topics(start, &cursor, end, version, head.topics)
        if topics is None or not fpost_take_end(&cursor, end, version) or cursor != end:
            return None
        transactional_id = None
        if head.transactional_id is not NULL:
            transactional_id = PyBytes_FromStringAndSize(
                <const char *>head.transactional_id, head.transactional_id_size
            )
        return transactional_id, head.acks, head.timeout_ms, topics
    finally:
        PyBuffer_Release(&view)


cdef list read_topics(
    const uint8_t *start, const uint8_t **cursor, const uint8_t *end, int version, uint32_t count
):
    cdef const uint8_t *name
    cdef const uint8_t *batch
    cdef uint32_t size, partitions, left = TOPICS_MAX
    cdef int32_t index
    topics = []
    for _ in range(count):
        if not fpost_take_topic(cursor, end, version, &name, &size, &partitions):
            return None
        topic = PyBytes_FromStringAndSize(<const char *>name, size)
        if partitions > left:
            return None
        left -= partitions
        answered = []
        for _ in range(partitions):
            if not fpost_take_partition(cursor, end, version, &index, &batch, &size):
                return None
            answered.append((index, <Py_ssize_t>(batch - start), size))
        if not fpost_take_end(cursor, end, version):
            return None
        topics.append((topic, answered))
    return topics


cdef inline int64_t bounded(object distance_ms) except? -1:
    """A distance from the broker's clock, as far as one of 64 bits can say."""
    cdef int overflow
    cdef int64_t value = PyLong_AsLongLongAndOverflow(distance_ms, &overflow)
    return INT64_MAX if overflow > 0 else value


cdef bint set_rules(
    fpost_produced_rules *rules, of_topic, int64_t wall_ms, bint is_transactional
) except -1:
    """The `ProduceRules` of a topic, now; whether batches may be appended as they are."""
    if not isinstance(of_topic, tuple) or len(of_topic) != 8:
        raise TypeError("not the rules of a topic")
    cdef tuple named = <tuple>of_topic
    rules.bytes_max = min(<int64_t>named[0], <int64_t>named[1])
    rules.key_required = named[2]
    rules.is_transactional = is_transactional
    rules.timestamp_min = fpost_add_clamped(wall_ms, -bounded(named[3]))
    rules.timestamp_max = fpost_add_clamped(wall_ms, bounded(named[4]))
    return named[5] is None


cdef object new_header(header_class, const fpost_produced_header *header):
    """A `BatchHeader`."""
    return tuple.__new__(
        header_class,
        (
            header.base_offset,
            header.batch_length,
            header.partition_leader_epoch,
            FPOST_BATCH_MAGIC,
            header.crc,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.records_count,
        ),
    )


def check_batch(
    header_class,
    frame,
    Py_ssize_t at,
    Py_ssize_t size,
    of_topic,
    int64_t wall_ms,
    bint is_transactional,
):
    """The header, a `header_class`, of the batch in frame[at:at + size] if it is uncompressed, of a
    transaction or not as is said, and may be appended as it is, by the `ProduceRules` of its topic;
    None if `produced` has to look."""
    cdef Py_buffer view
    cdef fpost_produced_rules rules
    cdef fpost_produced_header header
    cdef const uint8_t *batch
    cdef int is_sound
    if not set_rules(&rules, of_topic, wall_ms, is_transactional):
        return None
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if at < 0 or size < 0 or size > view.len - at:
            return None
        batch = <const uint8_t *>view.buf + at
        if size < LONG_BYTES:
            is_sound = fpost_check_produced(batch, size, &rules, &header)
        else:
            with nogil:
                is_sound = fpost_check_produced(batch, size, &rules, &header)
    finally:
        PyBuffer_Release(&view)
    if not is_sound:
        return None
    return new_header(header_class, &header)


def answer(int version, int32_t correlation_id, list topics, list results):
    """The response frame, length prefix included, to what `read_request` has read, when all of it
    was appended; `results` has a `ProduceResult` of each partition."""
    cdef int tags = version >= FPOST_FLEXIBLE_FROM  # bytes, wherever a struct ends
    cdef Py_ssize_t size = 4 + 4 + tags + fpost_length_size(version, 4, <uint32_t>len(topics))
    cdef bytes name
    cdef list partitions
    cdef Py_ssize_t count = 0
    for name, partitions in topics:
        size += PyBytes_GET_SIZE(name) + tags
        size += fpost_length_size(version, 4, <uint32_t>len(partitions))
        if version < FPOST_TOPIC_IDS_FROM:
            size += fpost_length_size(version, 2, <uint32_t>PyBytes_GET_SIZE(name))
        size += len(partitions) * fpost_answered_partition_size(version)
        count += len(partitions)
    size += 4 + tags
    if count != len(results):
        raise ValueError(f"{len(results)} results for {count} partitions")
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(made)
    at = fpost_put_be(at, <uint64_t>(size - 4), 4)
    at = fpost_put_be(at, <uint32_t>correlation_id, 4)
    at = fpost_put_be(at, 0, tags)
    at = fpost_put_length(at, version, 4, <uint32_t>len(topics))
    cdef Py_ssize_t place = 0
    cdef tuple named  # the fields of ProduceResult, in their order
    for name, partitions in topics:
        if version < FPOST_TOPIC_IDS_FROM:
            at = fpost_put_length(at, version, 2, <uint32_t>PyBytes_GET_SIZE(name))
        memcpy(at, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        at += PyBytes_GET_SIZE(name)
        at = fpost_put_length(at, version, 4, <uint32_t>len(partitions))
        for index, _, _ in partitions:
            result = results[place]
            if not isinstance(result, tuple) or len(result) < 4:
                raise TypeError("not the result of a partition")
            named = <tuple>result
            place += 1
            at = fpost_put_answered_partition(at, version, index, named[1], named[2], named[3])
        at = fpost_put_be(at, 0, tags)
    at = fpost_put_be(at, 0, 4)
    fpost_put_be(at, 0, tags)
    return made


include "_produce_runs.pxi"
