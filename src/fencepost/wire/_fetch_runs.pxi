# Runs of plain requests: what a connection has received of them, answered where it was received.
#
# A request is answered here if its records can be had at once; else `taker` gives it a place in the
# queue, as does one whose client is throttled. What is not plain, or not the next request of its
# session, is left as it is. Rules are asked where they are: what may be read of the partition's
# machine, where that is of its log, and what a session's request looks at and is answered with, and
# what its client is charged, of `taker`.

cdef enum:
    WHOLE_BYTES_MAX = 32768  # an answer up to this size is made in one piece
    # About how large an answer is: see `runtime/requests/fetch_answer.py`.
    ABOUT_BYTES = 22
    ABOUT_TOLD_BYTES = 57


cdef class FetchRuns:
    """Answers the plain requests at the front of what a connection has received.

    `classes` are those of a request, of what it wants of a partition, of topic ids, and of what
    may be read of a partition. What only some requests need is the `taker`'s.
    """

    cdef object _taker, _request_class, _wanted_class, _uuid_class, _bounds_class
    cdef bint _is_charged
    cdef readonly Py_ssize_t requests, answer_bytes, frame_bytes  # of what was answered latest
    cdef readonly Py_ssize_t start  # where the first begins that is not answered

    def __init__(self, taker, classes):
        self._taker = taker
        self._request_class, self._wanted_class, self._uuid_class, self._bounds_class = classes

    def take(self, connection, find, finder, frames, Py_ssize_t start, Py_ssize_t end, bytes head,
             Py_ssize_t requests_max, Py_ssize_t frame_bytes_max, int64_t max_bytes,
             bint is_charged):
        """Answer plain requests of frames[start:end], whose answers leave at once, each with no
        more than `max_bytes` of records; `start` is then where the first begins that was left.

        `head` is how they begin, without the correlation id: API key, version, and what follows.
        `find` finds partitions; if it is None, `finder()` gives what does for one request.
        `is_charged`: the taker is given the size of each answer first, and may have it throttled.
        """
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef const uint8_t *expected = <const uint8_t *>PyBytes_AS_STRING(head)
        cdef Py_ssize_t size, head_bytes = PyBytes_GET_SIZE(head)
        cdef Cursor cursor = Cursor.__new__(Cursor)
        cdef int32_t correlation_id
        cdef tuple request
        self.requests = self.answer_bytes = self.frame_bytes = 0
        self.start = start
        self._is_charged = is_charged
        PyObject_GetBuffer(frames, &view, PyBUF_SIMPLE)
        try:
            if start < 0 or end > view.len:
                raise ValueError("there are not so many bytes")
            if head_bytes < KEYS_BYTES:
                return
            cursor.version = be32(expected) & 0xFFFF
            cursor.wanted_class, cursor.uuid_class = self._wanted_class, self._uuid_class
            while requests_max > 0 and end - self.start >= (
                LENGTH_BYTES + CORRELATION_BYTES + head_bytes
            ):
                at = <const uint8_t *>view.buf + self.start
                size = <int32_t>be32(at)
                if size > frame_bytes_max or size > end - self.start - LENGTH_BYTES:
                    return
                at += LENGTH_BYTES
                if size < CORRELATION_BYTES + head_bytes or memcmp(at, expected, KEYS_BYTES):
                    return
                if memcmp(
                    at + KEYS_BYTES + CORRELATION_BYTES,
                    expected + KEYS_BYTES,
                    head_bytes - KEYS_BYTES,
                ):
                    return
                cursor.at = at + CORRELATION_BYTES + head_bytes
                cursor.end = at + size
                read = read_body(cursor, self._request_class)
                if read is None:
                    return
                request = <tuple>read
                correlation_id = <int32_t>be32(at + KEYS_BYTES)
                if not self._take_one(
                    connection, finder() if find is None else find, request, cursor.version,
                    correlation_id, size, max_bytes,
                ):
                    return
                requests_max -= 1
        finally:
            PyBuffer_Release(&view)

    cdef bint _take_one(
        self, connection, find, tuple request, int version, int32_t correlation_id,
        Py_ssize_t size, int64_t max_bytes,
    ) except -1:
        """Whether a request is answered, and another may be."""
        cdef list parts = None
        session = None
        if request[3]:
            session = self._taker.begin(request, version)
            if session is None:
                return False
        if not isinstance(session, int):  # an error
            parts = self._answer(
                connection, find, request, session, correlation_id,
                min(<int64_t>request[1], max_bytes),
            )
        self.start += LENGTH_BYTES + size
        if parts is None:
            self._taker.queue(connection, request, session, version, correlation_id, size, find)
            return False
        self.requests += 1
        self.frame_bytes += size
        for part in parts:
            self.answer_bytes += len(part)
        return connection.put_answer(parts)

    cdef list _answer(
        self, connection, find, tuple request, session, int32_t correlation_id, int64_t max_bytes
    ):
        """The answer in parts; None if it cannot be had at once, or is throttled."""
        cdef int isolation = request[2]
        cdef list found = [], some = []
        cdef bint has_records = False, has_data = False, is_throttled
        cdef int64_t offset, bound, limit_bytes, left_bytes, at_once_bytes
        cdef Py_ssize_t size, place, about_bytes = ABOUT_BYTES
        cdef tuple key
        if session is None or session.session is None:  # its last partition was forgotten
            partitions = request[5]
        else:
            partitions = list(session.session.stirring.values())
        for wanted in partitions:
            key = wanted.key
            hosted = find(key[0], key[1])
            if isinstance(hosted, int):  # an error
                return None
            bounds = hosted.machine.check_fetch(
                fetch_offset=wanted.fetch_offset,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                isolation=isolation,
                leader_only=False,
            )
            if type(bounds) is not self._bounds_class or bounds.diverging is not None:
                return None
            if <int64_t>bounds.upper_bound > <int64_t>wanted.fetch_offset:
                has_records = True
            found.append((hosted, wanted, bounds))
        if not has_records and <int32_t>request[0] > 0 and max_bytes > 0:
            if found or (session is not None and session.has_quiet):
                return None
        left_bytes = min(max_bytes, <int64_t>connection.available_bytes)
        at_once_bytes = connection.at_once_bytes
        for hosted, wanted, bounds in found:
            key = wanted.key
            offset, bound = wanted.fetch_offset, bounds.upper_bound
            limit_bytes = min(<int64_t>wanted.partition_max_bytes, left_bytes)
            if bound <= offset or (limit_bytes <= 0 and has_data):
                some.append((key[0], key[1], bounds, b""))
                continue
            data = None
            log = hosted.log
            if limit_bytes <= at_once_bytes and not isolation:
                data = log.read_known(offset, limit_bytes, bound)
            if data is None:
                limits = limit_bytes, at_once_bytes, bound
                data = self._taker.read(log, offset, limits, not has_data, isolation)
                if data is None:
                    return None
            size = len(data)
            some.append((key[0], key[1], bounds, data))
            left_bytes -= size
            at_once_bytes -= size
            has_data = has_data or size > 0
            if size:
                about_bytes += size + ABOUT_TOLD_BYTES
            if size > WHOLE_BYTES_MAX:
                connection.have_read(size)
        is_throttled = self._is_charged and self._taker.charge(about_bytes)
        for place in range(len(some)):
            size = 0 if is_throttled else len(some[place][3])
            found[place][0].traffic.fetched(size, 0, False)
        if is_throttled:
            return None
        if session is None:
            whole = answer(correlation_id, 0, isolation, some, WHOLE_BYTES_MAX)
            if whole is not None:
                return [whole]
        return self._taker.answer(session, isolation, found, some, correlation_id)
