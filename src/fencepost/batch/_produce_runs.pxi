# Runs of plain requests: what one connection has sent, put together by partition, and answered.
#
# A request is taken whole or not at all: all of its batches are looked at (`_stage`) before any of
# them is kept (`_keep`). Batches of one partition stand in a `Block`, one behind the other as they
# will in the log, so that they are stamped, written and answered together. The answer is made when
# the request is taken, but for offsets and times, which are filled in when it is known what became
# of the block.

cdef enum:
    STAGED_MAX = 64  # partitions of a request; more are not plain
    BLOCK_BATCHES_MAX = 500
    BLOCK_BYTES_MAX = 262144
    KEPT_BYTES_MAX = 32768  # a larger batch is appended from where it was received
    RUN_CALLS_MAX = 16  # each may settle a block; then the dispatcher looks at the time
    LEAST_FRAME_BYTES = 8
    NAME_ROOM = 256
    TOLD_AT = 6  # where the base offset stands in a partition's answer
    ANSWER_ROOM = 32 + STAGED_MAX * (NAME_ROOM + 16 + 40)
    PRODUCER_ID = 9  # in a header


cdef class RunRequest:
    """A request of a run until its answer has left; it takes the place of a `PendingRequest`.

    `taker` is what the run was taken by, and takes the answers. `errors` has the results of refused
    partitions, by their place in the request, or is None. `weight` is how many requests the times
    of this one count for; 0 where none are taken.
    """

    cdef readonly object connection, taker
    cdef readonly bytes answer
    cdef readonly dict errors
    cdef readonly int version, correlation_id, acks, weight, throttle_time_ms
    cdef readonly Py_ssize_t frame_size_bytes
    cdef readonly bint answered, is_gone
    cdef readonly double arrived_s, began_s, handled_s, answered_s
    cdef int left

    def throttle(self, int throttle_time_ms):
        """See `PendingRequest`: the answer says so where it ends."""
        cdef int tags = self.version >= FPOST_FLEXIBLE_FROM
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(self.answer)
        if throttle_time_ms > self.throttle_time_ms:
            self.throttle_time_ms = throttle_time_ms
            at += PyBytes_GET_SIZE(self.answer) - 4 - tags
            fpost_put_be(at, <uint32_t>throttle_time_ms, 4)

    def abandoned(self):
        """The connection is gone, and with it the request."""
        self.answered = self.is_gone = True


cdef struct Staged:
    const uint8_t *batch
    uint32_t size
    int32_t answer_at
    fpost_produced_header header


cdef struct Placed:
    int64_t max_timestamp
    int32_t size, offsets, answer_at, place


cdef class Block:
    """Plain batches for one partition, as they came; a sequence of `RecordBatch`.

    All of it has the same acks and timeout. `target` is the partition that the batches are for.
    `offsets` is how many offsets they take, `max_timestamp` the largest of all. `producers` has the
    headers of those that have a producer id. Nothing is added once it was closed.
    """

    cdef readonly object target
    cdef readonly int acks, timeout_ms
    cdef readonly bint is_open
    cdef readonly int64_t offsets, max_timestamp
    cdef readonly bytearray data
    cdef readonly Py_ssize_t size_bytes
    cdef readonly list producers
    cdef list _requests
    cdef dict _last_of
    cdef object _header_class, _batch_class, _may_follow, _on_told
    cdef Placed *_placed
    cdef Py_ssize_t _count, _room
    cdef fpost_produced_rules _rules

    def __cinit__(self):
        self._placed = NULL

    def __init__(
        self, target, int acks, int timeout_ms, of_topic, int64_t wall_ms, int64_t newest_ms,
        classes, on_told
    ):
        """Batches with records that are newer than `newest_ms` are not plain. `classes` are those
        of headers and of batches, and what says whether a header may follow another of its
        producer. `on_told` is called as `tell` says."""
        set_rules(&self._rules, of_topic, wall_ms, 0)
        self._rules.timestamp_max = min(self._rules.timestamp_max, newest_ms)
        self.target = target
        self.acks, self.timeout_ms = acks, timeout_ms
        self._header_class, self._batch_class, self._may_follow = classes
        self._on_told = on_told
        self.is_open = True
        self.max_timestamp = -1
        self.data = bytearray()
        self.producers = []
        self._requests = []
        self._last_of = {}

    def __dealloc__(self):
        PyMem_Free(self._placed)

    def __len__(self):
        return self._count

    def __getitem__(self, Py_ssize_t place):
        if not 0 <= place < self._count:
            raise IndexError(place)
        cdef Py_ssize_t at = 0, i
        for i in range(place):
            at += self._placed[i].size
        return self._batch(at, self._placed[place].size)

    def __iter__(self):
        cdef Py_ssize_t at = 0, i
        for i in range(self._count):
            yield self._batch(at, self._placed[i].size)
            at += self._placed[i].size

    cdef object _batch(self, Py_ssize_t at, Py_ssize_t size):
        cdef fpost_produced_header header
        fpost_read_produced_header(<uint8_t *>PyByteArray_AS_STRING(self.data) + at, &header)
        data = memoryview(self.data)[at : at + size]
        return self._batch_class(new_header(self._header_class, &header), data)

    def close(self):
        """Take no more."""
        self.is_open = False

    cdef bint takes(self, const Staged *staged) except -1:
        """Whether a batch may stand behind those that are here."""
        if not self.is_open or self._count >= BLOCK_BATCHES_MAX:
            return False
        if self._count and self.size_bytes + <Py_ssize_t>staged.size > BLOCK_BYTES_MAX:
            return False
        if staged.header.producer_id < 0:
            return True
        before = self._last_of.get(staged.header.producer_id)
        if before is None:
            return True
        return self._may_follow(before, new_header(self._header_class, &staged.header))

    cdef int put(self, const Staged *staged, RunRequest request, int place) except -1:
        cdef Py_ssize_t at = self.size_bytes, room
        cdef Placed *placed
        if self._count == self._room:
            room = 2 * self._room or 8
            placed = <Placed *>PyMem_Realloc(self._placed, room * sizeof(Placed))
            if placed is NULL:
                raise MemoryError()
            self._placed, self._room = placed, room
        PyByteArray_Resize(self.data, at + staged.size)
        memcpy(PyByteArray_AS_STRING(self.data) + at, staged.batch, staged.size)
        placed = &self._placed[self._count]
        placed.size = <int32_t>staged.size
        placed.offsets = staged.header.last_offset_delta + 1
        placed.max_timestamp = staged.header.max_timestamp
        placed.answer_at = staged.answer_at
        placed.place = place
        self._requests.append(request)
        if staged.header.producer_id >= 0:
            header = new_header(self._header_class, &staged.header)
            self.producers.append((self._count, header))
            self._last_of[header[PRODUCER_ID]] = header
        self._count += 1
        self.size_bytes = at + staged.size
        self.offsets += placed.offsets
        self.max_timestamp = max(self.max_timestamp, placed.max_timestamp)
        return 0

    def stamp(self, int64_t first_offset, int32_t leader_epoch):
        """Give every batch its place in the log; their base offsets, of those with producers."""
        cdef uint8_t *at = <uint8_t *>PyByteArray_AS_STRING(self.data)
        cdef Py_ssize_t i
        cdef list placed = []
        cdef int64_t offset = first_offset
        cdef Py_ssize_t named = 0
        for i in range(self._count):
            if named < len(self.producers) and self.producers[named][0] == i:
                placed.append(offset)
                named += 1
            fpost_put_be(at, <uint64_t>offset, 8)
            fpost_put_be(at + FPOST_BATCH_LENGTH_OVERHEAD, <uint32_t>leader_epoch, 4)
            offset += self._placed[i].offsets
            at += self._placed[i].size
        return placed

    def index_entries(self, int64_t next_relative, int64_t newest_ms, int64_t newest_relative,
                      int64_t bytes_since_index, int64_t interval_bytes):
        """What indexes have to know of a block that begins at the relative offset: (entries, newest
        timestamp, its relative offset, bytes since the last entry). An entry is (relative offset,
        position in the block, newest timestamp so far, its relative offset)."""
        cdef list entries = []
        cdef int64_t position = 0, relative = next_relative - 1
        cdef Py_ssize_t i
        for i in range(self._count):
            relative += self._placed[i].offsets
            if self._placed[i].max_timestamp > newest_ms:
                newest_ms, newest_relative = self._placed[i].max_timestamp, relative
            if bytes_since_index > interval_bytes:
                entries.append((relative, position, newest_ms, newest_relative))
                bytes_since_index = 0
            bytes_since_index += self._placed[i].size
            position += self._placed[i].size
        return entries, newest_ms, newest_relative, bytes_since_index

    def tell(self, result):
        """What became of it, a `ProduceResult`; base offset and times are those of the first.

        `on_told(block, offsets, size_bytes, error code, batches, connections, answers, answer
        bytes, refused)` is called: connections have answers now, so many in all, and the results of
        all partitions are known of requests that were refused in part.
        """
        self._tell(0, self._count, result)

    def token(self, Py_ssize_t place):
        """The callback for the result of the batch in that place, where each has its own result."""
        def tell(result):
            self._tell(place, place + 1, result)

        return tell

    def give_up(self):
        """The append raised an error: `on_told` is called with all requests without an answer, and
        with no error code."""
        cdef RunRequest request
        cdef list unanswered = []
        for request in self._requests:
            if not request.answered:
                request.abandoned()
                unanswered.append(request)
        self._on_told(self, 0, 0, None, 0, [], 0, 0, unanswered)

    cdef int _tell(self, Py_ssize_t first, Py_ssize_t behind, result) except -1:
        cdef bint is_error = bool(result[0])
        cdef int64_t offset = 0, append_time_ms = 0, start_offset = 0, offsets = 0
        cdef Py_ssize_t size_bytes = 0, answers = 0, answer_bytes = 0, i
        cdef list connections = [], refused = []
        cdef RunRequest request
        cdef object latest = None
        cdef uint8_t *at
        cdef double now_s = -1.0
        if not is_error:
            offset, append_time_ms, start_offset = result[1], result[2], result[3]
        for i in range(first, behind):
            request = self._requests[i]
            if is_error:
                if request.errors is None:
                    request.errors = {}
                request.errors[self._placed[i].place] = result
            else:
                at = <uint8_t *>PyBytes_AS_STRING(request.answer) + self._placed[i].answer_at
                at = fpost_put_be(at, <uint64_t>offset, 8)
                at = fpost_put_be(at, <uint64_t>append_time_ms, 8)
                if request.version >= FPOST_LOG_START_FROM:
                    fpost_put_be(at, <uint64_t>start_offset, 8)
                offset += self._placed[i].offsets
            offsets += self._placed[i].offsets
            size_bytes += self._placed[i].size
            request.left -= 1
            if request.left or request.is_gone:
                continue
            if request.errors is not None:
                refused.append(request)
                continue
            if request.weight:
                if now_s < 0:
                    now_s = perf_counter()
                request.answered_s = now_s
            request.answered = True
            if request.acks:
                answers += 1
                answer_bytes += PyBytes_GET_SIZE(request.answer)
            if request.connection is not latest:
                latest = request.connection
                connections.append(latest)
        self._on_told(
            self, offsets, size_bytes, result[0], behind - first,
            connections, answers, answer_bytes, refused,
        )
        return 0


cdef class ProduceRuns:
    """Takes the plain requests at the front of what a connection has received, for `taker`.

    `blocks` has the blocks that are open, by topic and partition; `CombinedAppends` empties it when
    it closes one. `find(is_by_id, topic, partition, acks, timeout)` gives the block to put a batch
    into, or None if it takes none; `renew(block)` one that goes on where the other has ended. Of
    requests that are numbered (in a second) up to `all_timed`, and of each `timed_one_in` then,
    times are taken.
    """

    cdef dict _blocks
    cdef object _taker, _find, _renew
    cdef int _all_timed, _timed_one_in
    cdef Staged _staged[STAGED_MAX]
    cdef list _staged_blocks
    cdef int _staged_count, _acks, _timeout_ms
    cdef int _calls  # of `find` and `renew` in the latest run
    cdef readonly Py_ssize_t requests, frame_bytes  # of the latest run
    cdef uint8_t _answer[ANSWER_ROOM]
    cdef Py_ssize_t _answer_size

    def __init__(self, taker, dict blocks, find, renew, int all_timed, int timed_one_in):
        self._taker = taker
        self._blocks = blocks
        self._find, self._renew = find, renew
        self._all_timed, self._timed_one_in = all_timed, timed_one_in
        self._staged_blocks = []

    def take(self, connection, waiting, frames, Py_ssize_t start, Py_ssize_t end, bytes head,
             Py_ssize_t requests_max, Py_ssize_t frame_bytes_max, long number, double arrived_s):
        """Take plain requests from frames[start:end], and put them behind those that wait; where
        the first begins that was not taken.

        `head` is how they begin, without the correlation id: API key, version, and what follows.
        `number` is that of the one before, negative where no times are taken.
        """
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef const uint8_t *cursor
        cdef Py_ssize_t size, head_bytes = PyBytes_GET_SIZE(head)
        cdef const char *head_at = PyBytes_AS_STRING(head)
        cdef int version
        cdef RunRequest request
        self.requests = self.frame_bytes = self._calls = 0
        if head_bytes < LEAST_FRAME_BYTES - 4:
            return start
        version = fpost_be16(<const uint8_t *>head_at + 2)
        PyObject_GetBuffer(frames, &view, PyBUF_SIMPLE)
        try:
            if start < 0 or end > view.len:
                raise ValueError("there are not so many bytes")
            while self.requests < requests_max and end - start > 8 + head_bytes:
                at = <const uint8_t *>view.buf + start
                size = <int32_t>fpost_be32(at)
                if size < 4 + head_bytes or size > frame_bytes_max or size > end - start - 4:
                    break
                at += 4
                if memcmp(at, head_at, 4) or memcmp(at + 8, head_at + 4, head_bytes - 4):
                    break
                cursor = at + 4 + head_bytes
                if not self._stage(cursor, at + size, version):
                    break
                request = self._new_request(connection, at, size, version)
                if number >= 0:
                    number += 1
                    if number <= self._all_timed:
                        request.weight = 1
                    elif number % self._timed_one_in == 0:
                        request.weight = self._timed_one_in
                    if request.weight:
                        request.arrived_s, request.began_s = arrived_s, perf_counter()
                self.requests += 1
                self.frame_bytes += size
                start += 4 + size
                waiting.append(request)
                self._keep(request)
                if request.weight:
                    request.handled_s = perf_counter()
                if self._calls >= RUN_CALLS_MAX:
                    break
        finally:
            self._staged_blocks.clear()
            PyBuffer_Release(&view)
        return start

    cdef bint _stage(self, const uint8_t *cursor, const uint8_t *end, int version) except -1:
        """Look at all of a request, whose body begins at the cursor; whether it is plain."""
        cdef fpost_produce_head head
        cdef const uint8_t *name
        cdef uint32_t size, partitions
        cdef Staged *staged
        cdef Block block
        cdef int32_t index
        cdef int tags = version >= FPOST_FLEXIBLE_FROM
        if not fpost_take_produce_head(&cursor, end, version, &head):
            return False
        if head.transactional_id is not NULL or not -1 <= head.acks <= 1 or not head.topics:
            return False
        self._staged_count = 0
        self._staged_blocks.clear()
        self._acks, self._timeout_ms = head.acks, head.timeout_ms
        self._answer_size = 4 + 4 + tags  # length and correlation id, which are still to come
        self._put_length(version, 4, head.topics)
        for _ in range(head.topics):
            if not fpost_take_topic(&cursor, end, version, &name, &size, &partitions):
                return False
            if not partitions or partitions > <uint32_t>(STAGED_MAX - self._staged_count):
                return False
            if version < FPOST_TOPIC_IDS_FROM:
                self._put_length(version, 2, size)
            memcpy(self._answer + self._answer_size, name, size)
            self._answer_size += size
            self._put_length(version, 4, partitions)
            for _ in range(partitions):
                staged = &self._staged[self._staged_count]
                if not fpost_take_partition(
                    &cursor, end, version, &index, &staged.batch, &staged.size
                ):
                    return False
                if staged.size > KEPT_BYTES_MAX:
                    return False
                block = self._block(version, name, size, index)
                if block is None or not fpost_check_produced(
                    staged.batch, staged.size, &block._rules, &staged.header
                ):
                    return False
                staged.answer_at = <int32_t>(self._answer_size + TOLD_AT)
                self._answer_size = fpost_put_answered_partition(
                    self._answer + self._answer_size, version, index, -1, -1, -1
                ) - self._answer
                self._staged_blocks.append(block)
                self._staged_count += 1
            if not fpost_take_end(&cursor, end, version):
                return False
            self._put_end(tags)
        self._put_end(4 + tags)
        return fpost_take_end(&cursor, end, version) and cursor == end

    cdef void _put_length(self, int version, int width, uint32_t length) noexcept:
        cdef uint8_t *at = self._answer + self._answer_size
        self._answer_size = fpost_put_length(at, version, width, length) - self._answer

    cdef void _put_end(self, int width) noexcept:
        self._answer_size = (
            fpost_put_be(self._answer + self._answer_size, 0, width) - self._answer
        )

    cdef RunRequest _new_request(
        self, connection, const uint8_t *frame, Py_ssize_t size, int version
    ):
        """The request whose batches have been staged."""
        cdef RunRequest request = RunRequest.__new__(RunRequest)
        cdef uint8_t *at = self._answer
        request.connection, request.taker = connection, self._taker
        request.version = version
        request.correlation_id = <int32_t>fpost_be32(frame + 4)
        request.acks = self._acks
        request.frame_size_bytes = size
        request.left = self._staged_count
        at = fpost_put_be(at, <uint64_t>(self._answer_size - 4), 4)
        at = fpost_put_be(at, <uint32_t>request.correlation_id, 4)
        fpost_put_be(at, 0, version >= FPOST_FLEXIBLE_FROM)
        request.answer = PyBytes_FromStringAndSize(<char *>self._answer, self._answer_size)
        return request

    cdef Block _block(self, int version, const uint8_t *name, uint32_t size, int32_t index):
        """The open block for a partition, or None."""
        cdef uint8_t key[NAME_ROOM]
        cdef Block block
        key[0] = version >= FPOST_TOPIC_IDS_FROM
        fpost_put_be(key + 1, <uint32_t>index, 4)
        memcpy(key + 5, name, size)
        cdef bytes named = PyBytes_FromStringAndSize(<const char *>key, 5 + size)
        found = self._blocks.get(named)
        if found is not None:
            block = found
            if block.is_open and block.acks == self._acks and block.timeout_ms == self._timeout_ms:
                return block
        self._calls += 1
        found = self._find(key[0] != 0, named[5:], index, self._acks, self._timeout_ms)
        if found is not None:
            self._blocks[named] = found
        return found

    cdef int _keep(self, RunRequest request) except -1:
        """Put the batches of a request, which was found plain, into their blocks."""
        cdef Block block
        cdef int i
        for i in range(self._staged_count):
            block = self._staged_blocks[i]
            while not block.takes(&self._staged[i]):  # what was renewed before may be full, too
                self._calls += 1
                block = self._renew(block)
            block.put(&self._staged[i], request, i)
        return 0


def take_answers(waiting, Py_ssize_t bytes_max):
    """The answers of requests of runs at the front of a connection's queue, which leave it, joined:
    (answers, bytes of frames, requests whose times are taken, the longest throttle time of all); as
    long as there is room for more than so many bytes."""
    cdef RunRequest request
    cdef list answers = [], timed = []
    cdef Py_ssize_t frame_bytes = 0
    cdef int throttle_time_ms = 0
    pop = waiting.popleft
    while waiting and bytes_max >= 0:
        first = waiting[0]
        if not isinstance(first, RunRequest):
            break
        request = first
        if not request.answered:
            break
        pop()
        frame_bytes += request.frame_size_bytes
        throttle_time_ms = max(throttle_time_ms, request.throttle_time_ms)
        if request.acks:
            answers.append(request.answer)
            bytes_max -= PyBytes_GET_SIZE(request.answer)
        if request.weight:
            timed.append(request)
    joined = answers[0] if len(answers) == 1 else b"".join(answers)
    return joined, frame_bytes, timed, throttle_time_ms
