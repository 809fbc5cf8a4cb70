/* The last offset of every key, and what it leaves of a batch: compaction's work per record.
 *
 * A table from keys to offsets: entries are stored one behind the other in the order in which their
 * keys were met, and slots of open addressing say where. Keys of up to FPOST_PLAIN_KEY_BYTES_MAX
 * bytes are stored as they are; of a longer key a BLAKE2b digest (RFC 7693) of one byte more is
 * stored, so that neither kind can be taken for the other. SipHash-1-3 with a secret chooses a
 * key's slot, so that a producer cannot choose keys whose slots collide.
 *
 * Records are checked as `read_rows` checks them, in its order; faults are reported alike. Memory is
 * Python's, and asked for without the GIL.
 */
#ifndef FENCEPOST_COMPACTION_H
#define FENCEPOST_COMPACTION_H

#include <Python.h>

#include "_encode.h"

enum {
    FPOST_PLAIN_KEY_BYTES_MAX = 32,
    FPOST_STORED_KEY_BYTES_MAX = FPOST_PLAIN_KEY_BYTES_MAX + 1,
    FPOST_BLAKE2B_BLOCK_BYTES = 128,
    FPOST_ENTRIES_MIN = 64,
    FPOST_ROWS_AT_ONCE = 16
};

#define FPOST_ENTRIES_MAX ((int64_t)1 << 31)

typedef struct {
    int64_t offset;
    uint8_t size;
    uint8_t key[FPOST_STORED_KEY_BYTES_MAX];
} fpost_key_entry;

typedef struct {
    fpost_key_entry *entries;
    uint64_t *slots; /* 32 bits of a hash, and the number of the entry plus 1; 0 for none */
    int64_t count, capacity, slot_count;
    uint64_t secret[2];
} fpost_key_table;

/* A key as it is stored, and its hash. */
typedef struct {
    const uint8_t *data;
    uint32_t tag;
    uint8_t size;
    uint8_t digest[FPOST_STORED_KEY_BYTES_MAX];
} fpost_stored_key;

/* Eight bytes, the lowest first; compilers make one load of it. */
static inline uint64_t fpost_load64(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
           (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 |
           (uint64_t)at[7] << 56;
}

static inline uint64_t fpost_rotate_left(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

#define FPOST_SIP_ROUND(a, b, c, d) \
    do { \
        a += b, c += d; \
        b = fpost_rotate_left(b, 13) ^ a, d = fpost_rotate_left(d, 16) ^ c; \
        a = fpost_rotate_left(a, 32); \
        c += b, a += d; \
        b = fpost_rotate_left(b, 17) ^ c, d = fpost_rotate_left(d, 21) ^ a; \
        c = fpost_rotate_left(c, 32); \
    } while (0)

static uint64_t fpost_siphash13(const uint64_t secret[2], const uint8_t *data, size_t size)
{
    uint64_t a = secret[0] ^ 0x736f6d6570736575u, b = secret[1] ^ 0x646f72616e646f6du;
    uint64_t c = secret[0] ^ 0x6c7967656e657261u, d = secret[1] ^ 0x7465646279746573u;
    uint64_t last = (uint64_t)size << 56;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word = fpost_load64(data);
        d ^= word;
        FPOST_SIP_ROUND(a, b, c, d);
        a ^= word;
    }
    for (size_t index = 0; index < size; index++)
        last |= (uint64_t)data[index] << (8 * index);
    d ^= last;
    FPOST_SIP_ROUND(a, b, c, d);
    a ^= last;
    c ^= 0xff;
    FPOST_SIP_ROUND(a, b, c, d);
    FPOST_SIP_ROUND(a, b, c, d);
    FPOST_SIP_ROUND(a, b, c, d);
    return a ^ b ^ c ^ d;
}

static const uint64_t fpost_blake2b_iv[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};

static const uint8_t fpost_blake2b_sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline void fpost_blake2b_mix(uint64_t *v, int a, int b, int c, int d, uint64_t x,
                                     uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = fpost_rotate_left(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = fpost_rotate_left(v[b] ^ v[c], 40);
    v[a] += v[b] + y;
    v[d] = fpost_rotate_left(v[d] ^ v[a], 48);
    v[c] += v[d];
    v[b] = fpost_rotate_left(v[b] ^ v[c], 1);
}

static void fpost_blake2b_compress(uint64_t state[8], const uint8_t *block, uint64_t passed,
                                   int is_last)
{
    uint64_t v[16], words[16];
    for (int index = 0; index < 16; index++)
        words[index] = fpost_load64(block + 8 * index);
    for (int index = 0; index < 8; index++) {
        v[index] = state[index];
        v[index + 8] = fpost_blake2b_iv[index];
    }
    v[12] ^= passed;
    if (is_last)
        v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const uint8_t *s = fpost_blake2b_sigma[round % 10];
        for (int column = 0; column < 4; column++)
            fpost_blake2b_mix(v, column, column + 4, column + 8, column + 12, words[s[2 * column]],
                              words[s[2 * column + 1]]);
        for (int column = 0; column < 4; column++)
            fpost_blake2b_mix(v, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4,
                              12 + (column + 3) % 4, words[s[8 + 2 * column]],
                              words[s[9 + 2 * column]]);
    }
    for (int index = 0; index < 8; index++)
        state[index] ^= v[index] ^ v[index + 8];
}

/* As many bytes of BLAKE2b as stand for a long key. */
static void fpost_digest_key(const uint8_t *data, int64_t size,
                             uint8_t digest[FPOST_STORED_KEY_BYTES_MAX])
{
    uint64_t state[8];
    uint8_t block[FPOST_BLAKE2B_BLOCK_BYTES] = {0};
    int64_t left = size;
    memcpy(state, fpost_blake2b_iv, sizeof state);
    state[0] ^= 0x01010000u ^ FPOST_STORED_KEY_BYTES_MAX;
    for (; left > FPOST_BLAKE2B_BLOCK_BYTES; left -= FPOST_BLAKE2B_BLOCK_BYTES) {
        const uint8_t *at = data + (size - left);
        fpost_blake2b_compress(state, at, (uint64_t)(size - left) + FPOST_BLAKE2B_BLOCK_BYTES, 0);
    }
    memcpy(block, data + (size - left), (size_t)left);
    fpost_blake2b_compress(state, block, (uint64_t)size, 1);
    for (int index = 0; index < FPOST_STORED_KEY_BYTES_MAX; index++)
        digest[index] = (uint8_t)(state[index / 8] >> (8 * (index % 8)));
}

static inline void fpost_store_key(const fpost_key_table *table, const uint8_t *data, int64_t size,
                                   fpost_stored_key *key)
{
    key->data = data;
    if (size > FPOST_PLAIN_KEY_BYTES_MAX) {
        fpost_digest_key(data, size, key->digest);
        key->data = key->digest;
        size = FPOST_STORED_KEY_BYTES_MAX;
    }
    key->size = (uint8_t)size;
    key->tag = (uint32_t)fpost_siphash13(table->secret, key->data, (size_t)size);
}

static void fpost_table_free(fpost_key_table *table)
{
    PyMem_RawFree(table->entries);
    PyMem_RawFree(table->slots);
    table->entries = NULL;
    table->slots = NULL;
    table->count = table->capacity = table->slot_count = 0;
}

static inline fpost_key_entry *fpost_table_find(const fpost_key_table *table,
                                                const fpost_stored_key *key)
{
    if (table->count == 0)
        return NULL;
    uint64_t mask = (uint64_t)table->slot_count - 1;
    for (uint64_t at = key->tag & mask; table->slots[at]; at = (at + 1) & mask) {
        if ((uint32_t)(table->slots[at] >> 32) != key->tag)
            continue;
        fpost_key_entry *entry = &table->entries[(uint32_t)table->slots[at] - 1];
        if (entry->size == key->size && memcmp(entry->key, key->data, key->size) == 0)
            return entry;
    }
    return NULL;
}

static inline void fpost_table_place(fpost_key_table *table, uint64_t slot)
{
    uint64_t mask = (uint64_t)table->slot_count - 1, at = slot >> 32 & mask;
    while (table->slots[at])
        at = (at + 1) & mask;
    table->slots[at] = slot;
}

/* Room for one more entry, and at least a third of the slots empty; 0 without memory. */
static int fpost_table_grow(fpost_key_table *table)
{
    if (table->count == table->capacity) {
        int64_t capacity = table->capacity ? 2 * table->capacity : FPOST_ENTRIES_MIN;
        if (table->count >= FPOST_ENTRIES_MAX)
            return 0;
        fpost_key_entry *entries =
            PyMem_RawRealloc(table->entries, (size_t)capacity * sizeof *entries);
        if (entries == NULL)
            return 0;
        table->entries = entries;
        table->capacity = capacity;
    }
    if (3 * (table->count + 1) > 2 * table->slot_count) {
        fpost_key_table larger = *table;
        larger.slot_count = table->slot_count ? 2 * table->slot_count : 2 * FPOST_ENTRIES_MIN;
        larger.slots = PyMem_RawCalloc((size_t)larger.slot_count, sizeof *larger.slots);
        if (larger.slots == NULL)
            return 0;
        for (int64_t at = 0; at < table->slot_count; at++)
            if (table->slots[at])
                fpost_table_place(&larger, table->slots[at]);
        PyMem_RawFree(table->slots);
        *table = larger;
    }
    return 1;
}

/* Adds a key that is not there; 0 without memory. */
static int fpost_table_add(fpost_key_table *table, const fpost_stored_key *key, int64_t offset)
{
    if (!fpost_table_grow(table))
        return 0;
    fpost_key_entry *entry = &table->entries[table->count++];
    entry->offset = offset;
    entry->size = key->size;
    memcpy(entry->key, key->data, key->size);
    fpost_table_place(table, (uint64_t)key->tag << 32 | (uint64_t)table->count);
    return 1;
}

/* What a batch's header says of its records. */
typedef struct {
    int32_t count, last_offset_delta;
    int64_t base_offset, base_timestamp;
    int is_log_append_time; /* then records have no timestamps of their own */
} fpost_row_rules;

/* The next record, sound in all its parts; its timestamp is left alone if it has none. */
static inline int fpost_next_row(const uint8_t **at, const uint8_t *end,
                                 const fpost_row_rules *rules, fpost_record_view *record,
                                 int64_t *timestamp, fpost_reason_report *report)
{
    if (!fpost_read_record(at, end, record, report))
        return 0;
    if (record->offset_delta < 0 || record->offset_delta > rules->last_offset_delta) {
        report->reason = FPOST_REASON_OFFSET_DELTA;
        report->detail = record->offset_delta;
        return 0;
    }
    if (!rules->is_log_append_time &&
        !fpost_add_timestamp(rules->base_timestamp, record->timestamp_delta, timestamp, report))
        return 0;
    return fpost_skip_headers(record, report);
}

static inline int fpost_end_rows(const uint8_t *payload, const uint8_t *at, const uint8_t *end,
                                 fpost_reason_report *report)
{
    if (at == end)
        return 1;
    report->position = at - payload;
    report->reason = FPOST_REASON_BATCH_REST;
    report->detail = end - at;
    return 0;
}

/* A record, and what its key is in the table if that has to be asked. */
typedef struct {
    const uint8_t *begin, *end;
    int64_t offset, timestamp; /* the timestamp is INT64_MIN if it has none of its own */
    int is_keyed, is_tombstone, is_asked;
    fpost_stored_key key;
} fpost_keyed_row;

/* Has the processor fetch what will be looked at of these keys: a table of many keys lies in no
 * cache, and one look after the other would wait for memory twice each. */
static inline void fpost_prefetch_keys(const fpost_key_table *table, const fpost_keyed_row *rows,
                                       int count)
{
#if defined(__GNUC__)
    uint64_t mask = (uint64_t)table->slot_count - 1;
    if (table->count == 0)
        return;
    for (int index = 0; index < count; index++)
        if (rows[index].is_asked)
            __builtin_prefetch(&table->slots[rows[index].key.tag & mask]);
    for (int index = 0; index < count; index++) {
        if (!rows[index].is_asked)
            continue;
        uint64_t slot = table->slots[rows[index].key.tag & mask];
        if (slot == 0)
            continue;
        const uint8_t *entry = (const uint8_t *)&table->entries[(uint32_t)slot - 1];
        __builtin_prefetch(entry);
        __builtin_prefetch(entry + sizeof(fpost_key_entry) - 1);
    }
#else
    (void)table, (void)rows, (void)count;
#endif
}

/* The next records of a batch, sound in all their parts, with the keys of those that lie between two
 * offsets; how many, 0 behind the last, -1 if one is not sound. */
static int fpost_next_rows(const fpost_key_table *table, const uint8_t *payload, const uint8_t **at,
                           const uint8_t *end, const fpost_row_rules *rules, int64_t first_asked,
                           int64_t last_asked, fpost_keyed_row *rows, fpost_reason_report *report)
{
    int count = 0;
    for (; count < FPOST_ROWS_AT_ONCE && report->index < rules->count; count++, report->index++) {
        fpost_keyed_row *row = &rows[count];
        fpost_record_view record;
        row->begin = *at;
        row->timestamp = INT64_MIN;
        report->position = *at - payload;
        if (!fpost_next_row(at, end, rules, &record, &row->timestamp, report))
            return -1;
        row->end = *at;
        row->offset = rules->base_offset + record.offset_delta;
        row->is_keyed = record.pair.key_size >= 0;
        row->is_tombstone = record.pair.value_size < 0;
        row->is_asked = row->is_keyed && row->offset >= first_asked && row->offset <= last_asked;
        if (row->is_asked)
            fpost_store_key(table, record.pair.key, record.pair.key_size, &row->key);
    }
    fpost_prefetch_keys(table, rows, count);
    return count;
}

enum { FPOST_NOTED, FPOST_NOTED_IN_PART, FPOST_NOT_SOUND, FPOST_NO_ROOM };

/* Notes the keys of records from `start_offset` on, each new one for `entry_bytes` and its own of
 * `*left_bytes`; with `is_bounded` those in front of the first for which that is too little. */
static int fpost_note_records(fpost_key_table *table, const uint8_t *payload, int64_t size,
                              const fpost_row_rules *rules, int64_t start_offset,
                              int64_t entry_bytes, int is_bounded, int64_t *left_bytes,
                              fpost_reason_report *report)
{
    const uint8_t *at = payload, *end = payload + size;
    fpost_keyed_row rows[FPOST_ROWS_AT_ONCE];
    int count, is_full = 0;
    memset(report, 0, sizeof *report);
    while ((count = fpost_next_rows(table, payload, &at, end, rules, start_offset, INT64_MAX, rows,
                                    report)) > 0) {
        for (int index = 0; index < count && !is_full; index++) {
            const fpost_keyed_row *row = &rows[index];
            if (!row->is_asked)
                continue;
            fpost_key_entry *entry = fpost_table_find(table, &row->key);
            if (entry != NULL) {
                entry->offset = row->offset;
            } else if (is_bounded && entry_bytes + row->key.size > *left_bytes) {
                is_full = 1;
            } else {
                if (!fpost_table_add(table, &row->key, row->offset))
                    return FPOST_NO_ROOM;
                *left_bytes -= entry_bytes + row->key.size;
            }
        }
    }
    if (count < 0 || !fpost_end_rows(payload, at, end, report))
        return FPOST_NOT_SOUND;
    return is_full ? FPOST_NOTED_IN_PART : FPOST_NOTED;
}

typedef struct {
    int64_t latest_offset; /* records behind it stay */
    int drops_tombstones;
} fpost_survival_rules;

typedef struct {
    int64_t kept, without_key, tombstones;
    int64_t max_timestamp; /* of what is kept; meaningless if records have none of their own */
    int64_t size;          /* of what is kept */
} fpost_survivors;

static inline int fpost_survives(const fpost_key_table *table, const fpost_keyed_row *row,
                                 const fpost_survival_rules *rules)
{
    if (row->offset > rules->latest_offset)
        return 1;
    if (!row->is_keyed || (rules->drops_tombstones && row->is_tombstone))
        return 0;
    const fpost_key_entry *entry = fpost_table_find(table, &row->key);
    return entry == NULL || row->offset >= entry->offset;
}

/* Copies the records that stay to `out`, which has room for all of them; nothing is copied while
 * none has gone. 0 for a payload that is not sound. */
static int fpost_pick_records(const fpost_key_table *table, const uint8_t *payload, int64_t size,
                              const fpost_row_rules *rules, const fpost_survival_rules *survival,
                              uint8_t *out, fpost_survivors *found, fpost_reason_report *report)
{
    const uint8_t *at = payload, *end = payload + size, *begin = payload;
    fpost_keyed_row rows[FPOST_ROWS_AT_ONCE];
    int count;
    memset(report, 0, sizeof *report);
    memset(found, 0, sizeof *found);
    found->max_timestamp = INT64_MIN;
    while ((count = fpost_next_rows(table, payload, &at, end, rules, INT64_MIN,
                                    survival->latest_offset, rows, report)) > 0) {
        for (int index = 0; index < count; index++) {
            const fpost_keyed_row *row = &rows[index];
            if (fpost_survives(table, row, survival)) {
                found->kept++;
                found->tombstones += row->is_tombstone;
                if (row->timestamp > found->max_timestamp)
                    found->max_timestamp = row->timestamp;
                continue;
            }
            found->without_key += !row->is_keyed;
            memcpy(out + found->size, begin, (size_t)(row->begin - begin));
            found->size += row->begin - begin;
            begin = row->end;
        }
    }
    if (count < 0 || !fpost_end_rows(payload, at, end, report))
        return 0;
    if (found->kept < rules->count)
        memcpy(out + found->size, begin, (size_t)(at - begin));
    found->size += at - begin;
    return 1;
}

/* Writes records that are sound to `out`, their timestamp deltas relative to `new_base`, which is not
 * negative; their size then, -1 if a delta would pass 64 bits. With `out` NULL nothing is written. */
static int64_t fpost_rebase_records(const uint8_t *payload, int64_t size,
                                    const fpost_row_rules *rules, int64_t new_base, uint8_t *out)
{
    const uint8_t *at = payload, *end = payload + size;
    int64_t total = 0;
    fpost_reason_report ignored;
    while (at < end) {
        int32_t length;
        int64_t delta, body;
        if (!fpost_read_varint(&at, end, &length) || length < 1 || length > end - at)
            return -1;
        const uint8_t *rest = at + 1, *record_end = at + length;
        if (!fpost_read_varlong(&rest, record_end, &delta))
            return -1;
        if (!rules->is_log_append_time &&
            (!fpost_add_timestamp(rules->base_timestamp, delta, &delta, &ignored) ||
             !fpost_add_timestamp(delta, -new_base, &delta, &ignored)))
            return -1;
        body = 1 + fpost_varint_size(delta) + (record_end - rest);
        if (out != NULL) {
            uint8_t *to = fpost_write_varint(out + total, body);
            *to++ = *at;
            to = fpost_write_varint(to, delta);
            memcpy(to, rest, (size_t)(record_end - rest));
        }
        total += fpost_varint_size(body) + body;
        at = record_end;
    }
    return total;
}

#endif
