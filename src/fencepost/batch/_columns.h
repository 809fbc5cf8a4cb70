/* Many batches to columns, in two passes over memory that is in the cache by the second.
 *
 * The scanner reads headers, checks CRCs and parses records into a table of rows that only point
 * at keys and values, until the table is full; then `fill_*` copy into Arrow buffers of exactly the
 * right size. What it cannot decide (a compressed batch, a transactional one while transactions
 * were aborted, a fault) it hands to its caller as an event, with the batch's position.
 */
#ifndef FENCEPOST_COLUMNS_H
#define FENCEPOST_COLUMNS_H

#include <stdlib.h>

#include "_crc32c.h"
#include "_records.h"

enum {
    FPOST_EVENT_END,
    FPOST_EVENT_FULL,
    FPOST_EVENT_BATCH,
    FPOST_EVENT_BAD_BATCH,
    FPOST_EVENT_BAD_RECORD,
    FPOST_EVENT_NO_MEMORY
};

enum {
    FPOST_BATCH_HEADER_BYTES = 61,
    FPOST_BATCH_LENGTH_OVERHEAD = 12,
    FPOST_BATCH_CRC_FROM = 21,
    FPOST_CODEC_BITS = 0x07,
    FPOST_LOG_APPEND_TIME = 0x08,
    FPOST_TRANSACTIONAL = 0x10,
    FPOST_CONTROL = 0x20
};

#define FPOST_MICROSECONDS_MAX_MS (INT64_MAX / 1000)
#define FPOST_HEADER_COST_BYTES 32 /* what a header weighs beside its own bytes */

typedef struct {
    int64_t base_offset, base_timestamp, max_timestamp;
    int32_t last_offset_delta, records_count;
    int16_t attributes;
} fpost_batch_facts;

typedef struct {
    /* what is wanted */
    int64_t start_offset, end_offset, bytes_max;
    int32_t rows_max;
    int want_headers, want_micros, check_crc, ask_transactional;
    /* the blob */
    const uint8_t *blob, *blob_at, *blob_end;
    /* the payload under way, if one is open */
    int is_open;
    const uint8_t *payload, *payload_at, *payload_end;
    int64_t records_left, record_index;
    fpost_batch_facts batch;
    /* the rows collected */
    fpost_byte_pair *rows;
    int64_t *offsets, *timestamps;
    int32_t *types, *header_ends;
    fpost_byte_pair *headers;
    int64_t rows_room, headers_room;
    int64_t row_count, header_count, bytes;
    int64_t key_bytes, value_bytes, header_key_bytes, header_value_bytes;
    int64_t key_nulls, value_nulls, header_value_nulls, rows_without_headers;
    int header_keys_ascii;
    fpost_reason_report report;
} fpost_scanner;

static inline uint32_t fpost_big32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t fpost_big64(const uint8_t *at)
{
    return (int64_t)((uint64_t)fpost_big32(at) << 32 | fpost_big32(at + 4));
}

static void fpost_scanner_clear_rows(fpost_scanner *s)
{
    s->row_count = s->header_count = s->bytes = 0;
    s->key_bytes = s->value_bytes = s->header_key_bytes = s->header_value_bytes = 0;
    s->key_nulls = s->value_nulls = s->header_value_nulls = s->rows_without_headers = 0;
    s->header_keys_ascii = 1;
}

static void fpost_scanner_free(fpost_scanner *s)
{
    free(s->rows);
    free(s->offsets);
    free(s->timestamps);
    free(s->types);
    free(s->header_ends);
    free(s->headers);
    memset(s, 0, sizeof *s);
}

static int fpost_grow(void **array, int64_t room, size_t size)
{
    void *larger = realloc(*array, (size_t)room * size);
    if (larger == NULL)
        return 0;
    *array = larger;
    return 1;
}

static int fpost_scanner_grow_rows(fpost_scanner *s)
{
    int64_t room = s->rows_room == 0 ? 1024 : 2 * s->rows_room;
    if (room > s->rows_max)
        room = s->rows_max;
    if (!fpost_grow((void **)&s->rows, room, sizeof *s->rows) ||
        !fpost_grow((void **)&s->offsets, room, sizeof *s->offsets) ||
        !fpost_grow((void **)&s->timestamps, room, sizeof *s->timestamps) ||
        !fpost_grow((void **)&s->types, room, sizeof *s->types) ||
        !fpost_grow((void **)&s->header_ends, room, sizeof *s->header_ends))
        return 0;
    s->rows_room = room;
    return 1;
}

static int fpost_scanner_grow_headers(fpost_scanner *s, int64_t wanted)
{
    int64_t room = s->headers_room == 0 ? 1024 : s->headers_room;
    while (room < wanted)
        room *= 2;
    if (!fpost_grow((void **)&s->headers, room, sizeof *s->headers))
        return 0;
    s->headers_room = room;
    return 1;
}

/* Begins a payload; its facts are those of the header it came with. */
static void fpost_scanner_open_payload(fpost_scanner *s, const uint8_t *payload, int64_t size,
                                       const fpost_batch_facts *batch)
{
    s->payload = s->payload_at = payload;
    s->payload_end = payload + size;
    s->is_open = 1;
    s->batch = *batch;
    s->records_left = batch->records_count;
    s->record_index = 0;
}

static int fpost_is_ascii(const uint8_t *data, int32_t size)
{
    uint8_t seen = 0;
    for (int32_t index = 0; index < size; index++)
        seen |= data[index];
    return seen < 0x80;
}

/* Headers of the record into the table behind those of earlier rows, not yet counted in. */
static int fpost_scan_headers(fpost_scanner *s, const fpost_record_view *record, int32_t *count,
                              int64_t *key_bytes, int64_t *value_bytes)
{
    const uint8_t *at = record->headers;
    *key_bytes = *value_bytes = 0;
    if (!fpost_read_header_count(&at, record->end, count, &s->report))
        return FPOST_EVENT_BAD_RECORD;
    if (s->header_count + *count > s->headers_room &&
        !fpost_scanner_grow_headers(s, s->header_count + *count))
        return FPOST_EVENT_NO_MEMORY;
    for (int32_t index = 0; index < *count; index++) {
        fpost_byte_pair *header = &s->headers[s->header_count + index];
        if (!fpost_read_header(&at, record->end, header, &s->report))
            return FPOST_EVENT_BAD_RECORD;
        *key_bytes += header->key_size;
        *value_bytes += header->value_size > 0 ? header->value_size : 0;
    }
    return fpost_check_record_rest(at, record->end, &s->report) ? FPOST_EVENT_END
                                                                : FPOST_EVENT_BAD_RECORD;
}

static void fpost_take_headers(fpost_scanner *s, int32_t count, int64_t key_bytes,
                               int64_t value_bytes)
{
    for (int32_t index = 0; index < count; index++) {
        const fpost_byte_pair *header = &s->headers[s->header_count + index];
        s->header_value_nulls += header->value_size < 0;
        if (s->header_keys_ascii && !fpost_is_ascii(header->key, header->key_size))
            s->header_keys_ascii = 0;
    }
    s->rows_without_headers += count == 0;
    s->header_count += count;
    s->header_key_bytes += key_bytes;
    s->header_value_bytes += value_bytes;
    s->bytes += key_bytes + value_bytes + (int64_t)count * FPOST_HEADER_COST_BYTES;
}

static inline int fpost_row_timestamp(fpost_scanner *s, const fpost_record_view *record,
                                      int64_t *timestamp)
{
    if (s->batch.attributes & FPOST_LOG_APPEND_TIME)
        *timestamp = s->batch.max_timestamp;
    else if (!fpost_add_timestamp(s->batch.base_timestamp, record->timestamp_delta, timestamp,
                                  &s->report))
        return 0;
    if (!s->want_micros)
        return 1;
    if (*timestamp > FPOST_MICROSECONDS_MAX_MS || *timestamp < -FPOST_MICROSECONDS_MAX_MS) {
        s->report.reason = FPOST_REASON_MICROSECONDS;
        s->report.detail = *timestamp;
        return 0;
    }
    *timestamp *= 1000;
    return 1;
}

/* One record into the table, or over it when its offset is not wanted. */
static inline int fpost_scan_record(fpost_scanner *s)
{
    fpost_record_view record;
    const uint8_t *at = s->payload_at;
    int32_t header_count = 0;
    int64_t timestamp, header_key_bytes = 0, header_value_bytes = 0;
    if (!fpost_read_record(&at, s->payload_end, &record, &s->report))
        return FPOST_EVENT_BAD_RECORD;
    if (record.offset_delta < 0 || record.offset_delta > s->batch.last_offset_delta) {
        s->report.reason = FPOST_REASON_OFFSET_DELTA;
        s->report.detail = record.offset_delta;
        return FPOST_EVENT_BAD_RECORD;
    }
    int64_t offset = s->batch.base_offset + record.offset_delta;
    if (offset >= s->start_offset && offset < s->end_offset) {
        int64_t bytes = (record.pair.key_size > 0 ? record.pair.key_size : 0) +
                        (int64_t)(record.pair.value_size > 0 ? record.pair.value_size : 0);
        if (s->row_count == s->rows_max)
            return FPOST_EVENT_FULL;
        if (!fpost_row_timestamp(s, &record, &timestamp))
            return FPOST_EVENT_BAD_RECORD;
        if (s->want_headers) {
            int event = fpost_scan_headers(s, &record, &header_count, &header_key_bytes,
                                           &header_value_bytes);
            if (event != FPOST_EVENT_END)
                return event;
        }
        if (s->row_count > 0 &&
            s->bytes + bytes + header_key_bytes + header_value_bytes > s->bytes_max)
            return FPOST_EVENT_FULL;
        if (s->row_count == s->rows_room && !fpost_scanner_grow_rows(s))
            return FPOST_EVENT_NO_MEMORY;
        int64_t row = s->row_count++;
        s->rows[row] = record.pair;
        s->offsets[row] = offset;
        s->timestamps[row] = timestamp;
        s->types[row] = (s->batch.attributes & FPOST_LOG_APPEND_TIME) != 0;
        s->key_nulls += record.pair.key_size < 0;
        s->value_nulls += record.pair.value_size < 0;
        s->key_bytes += record.pair.key_size > 0 ? record.pair.key_size : 0;
        s->value_bytes += record.pair.value_size > 0 ? record.pair.value_size : 0;
        s->bytes += bytes;
        if (s->want_headers) {
            fpost_take_headers(s, header_count, header_key_bytes, header_value_bytes);
            s->header_ends[row] = (int32_t)s->header_count;
        }
    }
    s->payload_at = at;
    return FPOST_EVENT_END;
}

static int fpost_scan_payload(fpost_scanner *s)
{
    memset(&s->report, 0, sizeof s->report);
    while (s->records_left > 0) {
        s->report.index = s->record_index;
        s->report.position = s->payload_at - s->payload;
        int event = fpost_scan_record(s);
        if (event != FPOST_EVENT_END)
            return event;
        s->records_left--;
        s->record_index++;
    }
    if (s->payload_at != s->payload_end) {
        s->report.index = s->record_index;
        s->report.position = s->payload_at - s->payload;
        s->report.reason = FPOST_REASON_BATCH_REST;
        s->report.detail = s->payload_end - s->payload_at;
        return FPOST_EVENT_BAD_RECORD;
    }
    return FPOST_EVENT_END;
}

/* What can be read of the header at `at`; 0 if no batch has such a header (Python says why). */
static int fpost_read_batch_facts(const uint8_t *at, int64_t *size, fpost_batch_facts *batch)
{
    *size = (int64_t)(int32_t)fpost_big32(at + 8) + FPOST_BATCH_LENGTH_OVERHEAD;
    batch->base_offset = fpost_big64(at);
    batch->attributes = (int16_t)((uint16_t)at[21] << 8 | at[22]);
    batch->last_offset_delta = (int32_t)fpost_big32(at + 23);
    batch->base_timestamp = fpost_big64(at + 27);
    batch->max_timestamp = fpost_big64(at + 35);
    batch->records_count = (int32_t)fpost_big32(at + 57);
    return at[16] == 2 && *size >= FPOST_BATCH_HEADER_BYTES && batch->last_offset_delta >= 0 &&
           batch->records_count >= 0 && batch->base_offset >= 0 &&
           batch->base_offset < INT64_MAX - batch->last_offset_delta;
}

/* How many v2 batches stand from `at` on that are whole and have the CRC their headers name. */
static int64_t fpost_count_sound_batches(const uint8_t *at, const uint8_t *end)
{
    int64_t count = 0, size;
    fpost_batch_facts ignored;
    for (; end - at >= FPOST_BATCH_HEADER_BYTES; at += size, count++)
        if (!fpost_read_batch_facts(at, &size, &ignored) || size > end - at ||
            fpost_crc32c_of(at + FPOST_BATCH_CRC_FROM, (size_t)(size - FPOST_BATCH_CRC_FROM), 0) !=
                fpost_big32(at + 17))
            break;
    return count;
}

/* The next batch of the blob; FPOST_EVENT_END with records_left 0 when it was only passed over. */
static int fpost_scan_batch(fpost_scanner *s, int *finished)
{
    const uint8_t *at = s->blob_at;
    int64_t size, left = s->blob_end - at;
    fpost_batch_facts batch;
    *finished = 0;
    if (left < FPOST_BATCH_HEADER_BYTES) {
        *finished = 1;
        return left > 16 && at[16] != 2 ? FPOST_EVENT_BAD_BATCH : FPOST_EVENT_END;
    }
    if (!fpost_read_batch_facts(at, &size, &batch))
        return FPOST_EVENT_BAD_BATCH;
    if (size > left || batch.base_offset >= s->end_offset) {
        *finished = 1;
        return FPOST_EVENT_END;
    }
    if (s->ask_transactional && (batch.attributes & (FPOST_TRANSACTIONAL | FPOST_CONTROL)))
        return FPOST_EVENT_BATCH;
    if ((batch.attributes & FPOST_CONTROL) ||
        batch.base_offset + batch.last_offset_delta < s->start_offset) {
        s->blob_at = at + size;
        return FPOST_EVENT_END;
    }
    if (batch.attributes & FPOST_CODEC_BITS)
        return FPOST_EVENT_BATCH;
    if (s->check_crc &&
        fpost_crc32c_of(at + FPOST_BATCH_CRC_FROM, (size_t)(size - FPOST_BATCH_CRC_FROM), 0) !=
            fpost_big32(at + 17))
        return FPOST_EVENT_BAD_BATCH;
    fpost_scanner_open_payload(s, at + FPOST_BATCH_HEADER_BYTES, size - FPOST_BATCH_HEADER_BYTES,
                               &batch);
    s->blob_at = at + size;
    return FPOST_EVENT_END;
}

/* Goes on until there is something to say. */
static int fpost_scanner_advance(fpost_scanner *s)
{
    for (;;) {
        int finished, event = FPOST_EVENT_END;
        if (s->is_open) {
            event = fpost_scan_payload(s);
            if (event != FPOST_EVENT_END)
                return event;
            s->is_open = 0;
        }
        event = fpost_scan_batch(s, &finished);
        if (event != FPOST_EVENT_END || finished)
            return event;
    }
}

/* Keys or values in Arrow's binary layout, whose sizes were summed before; `valid` may be NULL
 * when nothing is null. */
static inline void fpost_fill_binary(const fpost_byte_pair *pairs, int64_t count, int want_values,
                                     int32_t *ends, uint8_t *data, uint8_t *valid)
{
    int32_t end = 0;
    ends[0] = 0;
    if (valid != NULL)
        memset(valid, 0, (size_t)((count + 7) / 8));
    for (int64_t index = 0; index < count; index++) {
        const uint8_t *from = want_values ? pairs[index].value : pairs[index].key;
        int32_t size = want_values ? pairs[index].value_size : pairs[index].key_size;
        if (size >= 0) {
            memcpy(data + end, from, (size_t)size);
            end += size;
            if (valid != NULL)
                valid[index >> 3] |= (uint8_t)(1 << (index & 7));
        }
        ends[index + 1] = end;
    }
}

static void fpost_fill_keys(const fpost_byte_pair *pairs, int64_t count, int32_t *ends,
                            uint8_t *data, uint8_t *valid)
{
    fpost_fill_binary(pairs, count, 0, ends, data, valid);
}

static void fpost_fill_values(const fpost_byte_pair *pairs, int64_t count, int32_t *ends,
                              uint8_t *data, uint8_t *valid)
{
    fpost_fill_binary(pairs, count, 1, ends, data, valid);
}

/* The list level of headers: ends per row, and validity because a row without headers is null. */
static void fpost_fill_lists(const fpost_scanner *s, int32_t *ends, uint8_t *valid)
{
    ends[0] = 0;
    memcpy(ends + 1, s->header_ends, (size_t)s->row_count * sizeof *ends);
    memset(valid, 0, (size_t)((s->row_count + 7) / 8));
    for (int64_t row = 0; row < s->row_count; row++)
        if (ends[row + 1] > ends[row])
            valid[row >> 3] |= (uint8_t)(1 << (row & 7));
}

#endif
