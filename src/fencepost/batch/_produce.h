/* The usual Produce request: what stands where in its bytes, and whether a batch may be appended.
 *
 * Usual is what today's clients send: v9 to v13, nothing tagged, every batch there. Of anything
 * else it is said that it is not usual, never what is wrong with it: the codec and `produced` look
 * again, and have the words. So a request that is taken here is one that they would take, too.
 *
 * Every read is checked against the end of the frame; nothing is allocated.
 */
#ifndef FENCEPOST_PRODUCE_H
#define FENCEPOST_PRODUCE_H

#include <stdint.h>
#include <string.h>

#include "_crc32c.h"
#include "_records.h"

enum {
    FPOST_TOPIC_IDS_FROM = 13,
    FPOST_TOPIC_ID_BYTES = 16,
    FPOST_NAME_BYTES_MAX = 249,
    FPOST_BATCH_HEADER_BYTES = 61,
    FPOST_BATCH_LENGTH_OVERHEAD = 12,
    FPOST_BATCH_CRC_FROM = 21,
    FPOST_BATCH_MAGIC = 2,
    FPOST_CODEC_BITS = 0x07,
    FPOST_TRANSACTIONAL_BIT = 0x10
};

static inline uint16_t fpost_be16(const uint8_t *at)
{
    return (uint16_t)((uint32_t)at[0] << 8 | at[1]);
}

static inline uint32_t fpost_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t fpost_be64(const uint8_t *at)
{
    return (uint64_t)fpost_be32(at) << 32 | fpost_be32(at + 4);
}

static inline uint8_t *fpost_put_be(uint8_t *at, uint64_t value, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *at++ = (uint8_t)(value >> shift);
    return at;
}

/* An unsigned varint of at most 32 bits; 0 if it is malformed or passes `end`. */
static inline int fpost_take_uvarint(const uint8_t **cursor, const uint8_t *end, uint32_t *value)
{
    uint32_t result = 0;
    for (int shift = 0; *cursor < end; shift += 7) {
        uint8_t byte = *(*cursor)++;
        if (shift == 28 && byte > 0x0f)
            return 0;
        result |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return 1;
        }
    }
    return 0;
}

static inline int fpost_uvarint_size(uint32_t value)
{
    int size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static inline uint8_t *fpost_put_uvarint(uint8_t *at, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* A count of elements, which is not null, or the end of a struct without tags. */
static inline int fpost_take_count(const uint8_t **cursor, const uint8_t *end, uint32_t *count)
{
    if (!fpost_take_uvarint(cursor, end, count) || *count == 0)
        return 0;
    --*count;
    return 1;
}

static inline int fpost_take_no_tags(const uint8_t **cursor, const uint8_t *end)
{
    return *cursor < end && *(*cursor)++ == 0;
}

/* A compact string or bytes that is not null, and not longer than `size_max`. */
static inline int fpost_take_bytes(const uint8_t **cursor, const uint8_t *end, uint32_t size_max,
                                   const uint8_t **data, uint32_t *size)
{
    if (!fpost_take_count(cursor, end, size) || *size > size_max ||
        (uint64_t)(end - *cursor) < *size)
        return 0;
    *data = *cursor;
    *cursor += *size;
    return 1;
}

typedef struct {
    int32_t acks, timeout_ms;
    uint32_t topics;
} fpost_produce_head;

/* Up to the first topic; requests of transactions are not usual. */
static inline int fpost_take_produce_head(const uint8_t **cursor, const uint8_t *end,
                                          fpost_produce_head *head)
{
    if (!fpost_take_no_tags(cursor, end) || end - *cursor < 6) /* null is a zero, too */
        return 0;
    head->acks = (int16_t)fpost_be16(*cursor);
    head->timeout_ms = (int32_t)fpost_be32(*cursor + 2);
    *cursor += 6;
    return fpost_take_count(cursor, end, &head->topics);
}

/* A topic's name or id, and how many partitions follow. */
static inline int fpost_take_topic(const uint8_t **cursor, const uint8_t *end, int version,
                                   const uint8_t **name, uint32_t *size, uint32_t *partitions)
{
    if (version < FPOST_TOPIC_IDS_FROM) {
        if (!fpost_take_bytes(cursor, end, FPOST_NAME_BYTES_MAX, name, size))
            return 0;
    } else {
        if (end - *cursor < FPOST_TOPIC_ID_BYTES)
            return 0;
        *name = *cursor;
        *size = FPOST_TOPIC_ID_BYTES;
        *cursor += FPOST_TOPIC_ID_BYTES;
    }
    return fpost_take_count(cursor, end, partitions);
}

static inline int fpost_take_partition(const uint8_t **cursor, const uint8_t *end, int32_t *index,
                                       const uint8_t **batch, uint32_t *size)
{
    if (end - *cursor < 4)
        return 0;
    *index = (int32_t)fpost_be32(*cursor);
    *cursor += 4;
    return fpost_take_bytes(cursor, end, INT32_MAX, batch, size) && fpost_take_no_tags(cursor, end);
}

typedef struct {
    int64_t base_offset, base_timestamp, max_timestamp, producer_id;
    int32_t batch_length, partition_leader_epoch, last_offset_delta, base_sequence, records_count;
    uint32_t crc;
    int16_t attributes, producer_epoch;
} fpost_produced_header;

typedef struct {
    int64_t bytes_max, timestamp_min, timestamp_max;
    int key_required;
} fpost_produced_rules;

static inline void fpost_read_produced_header(const uint8_t *batch, fpost_produced_header *header)
{
    header->base_offset = (int64_t)fpost_be64(batch);
    header->batch_length = (int32_t)fpost_be32(batch + 8);
    header->partition_leader_epoch = (int32_t)fpost_be32(batch + 12);
    header->crc = fpost_be32(batch + 17);
    header->attributes = (int16_t)fpost_be16(batch + 21);
    header->last_offset_delta = (int32_t)fpost_be32(batch + 23);
    header->base_timestamp = (int64_t)fpost_be64(batch + 27);
    header->max_timestamp = (int64_t)fpost_be64(batch + 35);
    header->producer_id = (int64_t)fpost_be64(batch + 43);
    header->producer_epoch = (int16_t)fpost_be16(batch + 51);
    header->base_sequence = (int32_t)fpost_be32(batch + 53);
    header->records_count = (int32_t)fpost_be32(batch + 57);
}

static inline int64_t fpost_add_clamped(int64_t value, int64_t more)
{
    if (more > 0 && value > INT64_MAX - more)
        return INT64_MAX;
    if (more < 0 && value < INT64_MIN - more)
        return INT64_MIN;
    return value + more;
}

/* Whether the batch is uncompressed, sound in all that `produced` checks, and nothing in it has to
 * be put right. */
static int fpost_check_produced(const uint8_t *batch, int64_t size,
                                const fpost_produced_rules *rules, fpost_produced_header *header)
{
    if (size < FPOST_BATCH_HEADER_BYTES || size > rules->bytes_max ||
        batch[16] != FPOST_BATCH_MAGIC)
        return 0;
    fpost_read_produced_header(batch, header);
    if (header->base_offset != 0 ||
        header->batch_length != size - FPOST_BATCH_LENGTH_OVERHEAD || header->attributes != 0 ||
        header->records_count <= 0 || header->last_offset_delta != header->records_count - 1)
        return 0;
    if (header->producer_id != -1 && (header->producer_id < -1 || header->producer_epoch < 0 ||
                                      header->base_sequence < 0))
        return 0;
    if (fpost_crc32c_of(batch + FPOST_BATCH_CRC_FROM, (size_t)(size - FPOST_BATCH_CRC_FROM), 0) !=
        header->crc)
        return 0;
    fpost_walk_rules walked = {
        .count = header->records_count,
        .base_timestamp = header->base_timestamp,
        .timestamp_min = rules->timestamp_min,
        .timestamp_max = rules->timestamp_max,
        .key_required = rules->key_required,
    };
    fpost_reason_report report;
    int64_t max_timestamp;
    return fpost_walk_payload(batch + FPOST_BATCH_HEADER_BYTES, size - FPOST_BATCH_HEADER_BYTES,
                              &walked, &max_timestamp, &report) &&
           max_timestamp == header->max_timestamp;
}

/* The answer's bytes for a topic whose name is of that size, without its partitions, and for a
 * partition, whose batch was appended. */
enum { FPOST_ANSWERED_PARTITION_BYTES = 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1 };

static inline uint8_t *fpost_put_answered_partition(uint8_t *at, int32_t index, int64_t base_offset,
                                                    int64_t append_time_ms, int64_t start_offset)
{
    at = fpost_put_be(at, (uint32_t)index, 4);
    at = fpost_put_be(at, 0, 2);
    at = fpost_put_be(at, (uint64_t)base_offset, 8);
    at = fpost_put_be(at, (uint64_t)append_time_ms, 8);
    at = fpost_put_be(at, (uint64_t)start_offset, 8);
    *at++ = 1; /* no record errors */
    *at++ = 0; /* no message */
    *at++ = 0; /* no tags */
    return at;
}

#endif
