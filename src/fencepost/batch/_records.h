/* Reading the records of a v2 batch: one bounded parser, and the strict walk over a whole payload.
 *
 * Every read is checked against the end of the record, every record against the end of the payload;
 * nothing is allocated. A fault is reported as a number (twin: walk.Reason) with the record's index,
 * where it begins and the value that was wrong; Python words it.
 */
#ifndef FENCEPOST_RECORDS_H
#define FENCEPOST_RECORDS_H

#include <stdint.h>
#include <string.h>

enum {
    FPOST_REASON_NONE = 0,
    FPOST_REASON_TOO_FEW = 1,
    FPOST_REASON_LENGTH = 2,
    FPOST_REASON_VARINT = 3,
    FPOST_REASON_KEY_LENGTH = 4,
    FPOST_REASON_VALUE_LENGTH = 5,
    FPOST_REASON_HEADER_COUNT = 6,
    FPOST_REASON_HEADER_LENGTH = 7,
    FPOST_REASON_RECORD_REST = 8,
    FPOST_REASON_OFFSET_DELTA = 9,
    FPOST_REASON_TIMESTAMP = 10,
    FPOST_REASON_NO_KEY = 11,
    FPOST_REASON_TIMESTAMP_BOUNDS = 12,
    FPOST_REASON_BATCH_REST = 13,
    FPOST_REASON_MICROSECONDS = 14,
    FPOST_REASON_RECORD_BYTES = 15
};

#define FPOST_RECORD_BODY_BYTES_MIN 6
#define FPOST_NO_TIMESTAMP (-1)

typedef struct {
    int32_t reason;
    int64_t index;    /* of the record */
    int64_t position; /* of its first byte in the payload */
    int64_t detail;   /* the value that was wrong */
} fpost_reason_report;

/* A key and a value, of a record or of a header; meaningless pointers where the size is -1. */
typedef struct {
    const uint8_t *key, *value;
    int32_t key_size, value_size;
} fpost_byte_pair;

typedef struct {
    fpost_byte_pair pair;
    const uint8_t *headers, *end; /* from the header count on, to the end of the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
} fpost_record_view;

static inline int64_t fpost_unzigzag(uint64_t raw)
{
    return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
}

static int fpost_read_varint_slowly(const uint8_t **cursor, const uint8_t *end, int bytes_max,
                                    uint8_t last_max, int64_t *value)
{
    const uint8_t *at = *cursor;
    uint64_t raw = 0;
    for (int index = 0; index < bytes_max && at < end; index++) {
        uint8_t byte = *at++;
        if (index == bytes_max - 1 && byte > last_max)
            return 0;
        raw |= (uint64_t)(byte & 0x7f) << (7 * index);
        if (byte < 0x80) {
            *value = fpost_unzigzag(raw);
            *cursor = at;
            return 1;
        }
    }
    return 0;
}

/* At most five bytes with no more than 32 bits in them; 0 if it is malformed or passes `end`. */
static inline int fpost_read_varint(const uint8_t **cursor, const uint8_t *end, int32_t *value)
{
    const uint8_t *at = *cursor;
    if (end - at >= 2) {
        uint32_t raw = at[0];
        if (raw < 0x80) {
            *value = (int32_t)fpost_unzigzag(raw);
            *cursor = at + 1;
            return 1;
        }
        if (at[1] < 0x80) {
            *value = (int32_t)fpost_unzigzag((raw & 0x7f) | (uint32_t)at[1] << 7);
            *cursor = at + 2;
            return 1;
        }
    }
    int64_t wide;
    if (!fpost_read_varint_slowly(cursor, end, 5, 0x0f, &wide))
        return 0;
    *value = (int32_t)wide;
    return 1;
}

static inline int fpost_read_varlong(const uint8_t **cursor, const uint8_t *end, int64_t *value)
{
    const uint8_t *at = *cursor;
    if (at < end && *at < 0x80) {
        *value = fpost_unzigzag(*at);
        *cursor = at + 1;
        return 1;
    }
    return fpost_read_varint_slowly(cursor, end, 10, 0x01, value);
}

/* A length that is -1 for null, and as many bytes; 0 with `detail` set if it does not fit. */
static inline int fpost_read_nullable(const uint8_t **cursor, const uint8_t *end,
                                      const uint8_t **data, int32_t *size, int32_t reason,
                                      fpost_reason_report *report)
{
    if (!fpost_read_varint(cursor, end, size)) {
        report->reason = FPOST_REASON_VARINT;
        return 0;
    }
    if (*size < -1 || *size > end - *cursor) {
        report->reason = reason;
        report->detail = *size;
        return 0;
    }
    *data = *cursor;
    if (*size > 0)
        *cursor += *size;
    return 1;
}

/* The record at the cursor up to its headers; on success the cursor stands behind the record. */
static inline int fpost_read_record(const uint8_t **cursor, const uint8_t *end,
                                    fpost_record_view *record, fpost_reason_report *report)
{
    int32_t size;
    const uint8_t *at = *cursor;
    if (at == end) {
        report->reason = FPOST_REASON_TOO_FEW;
        return 0;
    }
    if (!fpost_read_varint(&at, end, &size)) {
        report->reason = FPOST_REASON_VARINT;
        return 0;
    }
    if (size < FPOST_RECORD_BODY_BYTES_MIN || size > end - at) {
        report->reason = FPOST_REASON_LENGTH;
        report->detail = size;
        return 0;
    }
    end = at + size;
    *cursor = end;
    at++; /* attributes: none are defined */
    if (!fpost_read_varlong(&at, end, &record->timestamp_delta) ||
        !fpost_read_varint(&at, end, &record->offset_delta)) {
        report->reason = FPOST_REASON_VARINT;
        return 0;
    }
    if (!fpost_read_nullable(&at, end, &record->pair.key, &record->pair.key_size,
                             FPOST_REASON_KEY_LENGTH, report) ||
        !fpost_read_nullable(&at, end, &record->pair.value, &record->pair.value_size,
                             FPOST_REASON_VALUE_LENGTH, report))
        return 0;
    record->headers = at;
    record->end = end;
    return 1;
}

static inline int fpost_read_header_count(const uint8_t **cursor, const uint8_t *end,
                                          int32_t *count, fpost_reason_report *report)
{
    if (!fpost_read_varint(cursor, end, count)) {
        report->reason = FPOST_REASON_VARINT;
        return 0;
    }
    if (*count < 0 || *count > (end - *cursor) / 2) { /* a header has two bytes at least */
        report->reason = FPOST_REASON_HEADER_COUNT;
        report->detail = *count;
        return 0;
    }
    return 1;
}

static inline int fpost_read_header(const uint8_t **cursor, const uint8_t *end,
                                    fpost_byte_pair *header, fpost_reason_report *report)
{
    if (!fpost_read_nullable(cursor, end, &header->key, &header->key_size, FPOST_REASON_HEADER_LENGTH,
                             report))
        return 0;
    if (header->key_size < 0) {
        report->reason = FPOST_REASON_HEADER_LENGTH;
        report->detail = header->key_size;
        return 0;
    }
    return fpost_read_nullable(cursor, end, &header->value, &header->value_size,
                               FPOST_REASON_HEADER_LENGTH, report);
}

static inline int fpost_check_record_rest(const uint8_t *at, const uint8_t *end,
                                          fpost_reason_report *report)
{
    if (at == end)
        return 1;
    report->reason = FPOST_REASON_RECORD_REST;
    report->detail = end - at;
    return 0;
}

static inline int fpost_skip_headers(const fpost_record_view *record, fpost_reason_report *report)
{
    const uint8_t *at = record->headers;
    int32_t count;
    fpost_byte_pair header;
    if (!fpost_read_header_count(&at, record->end, &count, report))
        return 0;
    for (int32_t index = 0; index < count; index++)
        if (!fpost_read_header(&at, record->end, &header, report))
            return 0;
    return fpost_check_record_rest(at, record->end, report);
}

static inline int fpost_add_timestamp(int64_t base, int64_t delta, int64_t *sum,
                                      fpost_reason_report *report)
{
    if ((delta > 0 && base > INT64_MAX - delta) || (delta < 0 && base < INT64_MIN - delta)) {
        report->reason = FPOST_REASON_TIMESTAMP;
        report->detail = delta;
        return 0;
    }
    *sum = base + delta;
    return 1;
}

typedef struct {
    int32_t count, last_offset_delta;
    int64_t base_timestamp, timestamp_min, timestamp_max, record_bytes_max;
    int key_required;
} fpost_walk_rules;

static inline int fpost_walk_record(const fpost_record_view *record, const fpost_walk_rules *rules,
                                    int64_t *max_timestamp, fpost_reason_report *report)
{
    int64_t timestamp;
    if (record->offset_delta != report->index) {
        report->reason = FPOST_REASON_OFFSET_DELTA;
        report->detail = record->offset_delta;
        return 0;
    }
    if (!fpost_add_timestamp(rules->base_timestamp, record->timestamp_delta, &timestamp, report))
        return 0;
    if (rules->key_required && record->pair.key_size < 0) {
        report->reason = FPOST_REASON_NO_KEY;
        return 0;
    }
    if (timestamp != FPOST_NO_TIMESTAMP &&
        (timestamp < rules->timestamp_min || timestamp > rules->timestamp_max)) {
        report->reason = FPOST_REASON_TIMESTAMP_BOUNDS;
        report->detail = timestamp;
        return 0;
    }
    if (timestamp > *max_timestamp)
        *max_timestamp = timestamp;
    return 1;
}

/* What the record's length says, which is not more than a topic allows. `begin` is its first byte. */
static inline int fpost_check_record_bytes(const uint8_t *begin, const fpost_record_view *record,
                                           const fpost_walk_rules *rules,
                                           fpost_reason_report *report)
{
    while (*begin++ & 0x80)
        ;
    if (record->end - begin <= rules->record_bytes_max)
        return 1;
    report->reason = FPOST_REASON_RECORD_BYTES;
    report->detail = record->end - begin;
    return 0;
}

/* Walks a producer's payload: every record sound, numbered 0, 1, 2..., and nothing behind them. */
static int fpost_walk_payload(const uint8_t *payload, int64_t size, const fpost_walk_rules *rules,
                              int64_t *max_timestamp, fpost_reason_report *report)
{
    const uint8_t *at = payload, *end = payload + size;
    *max_timestamp = FPOST_NO_TIMESTAMP;
    memset(report, 0, sizeof *report);
    for (; report->index < rules->count; report->index++) {
        fpost_record_view record;
        report->position = at - payload;
        if (!fpost_read_record(&at, end, &record, report) ||
            !fpost_check_record_bytes(payload + report->position, &record, rules, report) ||
            !fpost_skip_headers(&record, report) ||
            !fpost_walk_record(&record, rules, max_timestamp, report))
            return 0;
    }
    if (at != end) {
        report->position = at - payload;
        report->reason = FPOST_REASON_BATCH_REST;
        report->detail = end - at;
        return 0;
    }
    return 1;
}

#endif
