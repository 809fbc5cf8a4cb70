/* Objects of messages, made, looked into and released by the shortest way there is.
 *
 * Structs. A class of slots and nothing else is `adopted` when its first plan is made: its objects
 * are then all slots behind the head, so that they can be made, filled and released as rows of
 * pointers. An adopted class gets a destructor of its own, which does what Python's does for such
 * a class (finalizer, tracking, trashcan, the reference to the class) without walking descriptors,
 * and keeps some of the memory for the next object of the same size. Any other class is left alone.
 *
 * Numbers. The same broker ids, epochs and offsets come again and again, and a number is the
 * dearest part of a field; the latest of each hash are kept. Not more of them than the processor's
 * first cache has room for: a miss in a table of twice the size costs a third more than no table.
 *
 * Texts. Topics, groups, members and hosts come again and again as well; of each hash a short one
 * that came twice in a row is kept, 30 KB of them at most. One that never comes again costs little.
 *
 * Everything here runs under the GIL, and every `PyObject *` returned is a new reference.
 */
#ifndef FENCEPOST_CODEC_OBJECTS_H
#define FENCEPOST_CODEC_OBJECTS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>
#include "structmember.h" /* PyMemberDef, before Python 3.12 */

#if defined(__GNUC__)
#define FPOST_LIKELY(x) __builtin_expect(!!(x), 1)
#define FPOST_APART __attribute__((noinline)) /* what is rare, away from what is not */
#define FPOST_INLINE inline __attribute__((always_inline))
#else
#define FPOST_LIKELY(x) (x)
#define FPOST_APART
#define FPOST_INLINE inline
#endif

#define FPOST_SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define FPOST_SLOTS(object) ((PyObject **)((object) + 1))

enum {
    FPOST_SLOTS_MAX = 32,      /* structs with more slots are not kept */
    FPOST_FREE_STRUCTS = 1024, /* of each size */
    FPOST_PLAIN_DEPTH = 100,   /* structs inside of structs that are released by plain recursion */
    FPOST_SHARED_LOW = -5,     /* the integers that Python itself shares */
    FPOST_SHARED_HIGH = 256,
    FPOST_NUMBERS_BITS = 9,    /* numbers that are kept: 2 to this power */
    FPOST_TEXTS_BITS = 8,      /* texts that are kept */
    FPOST_TEXT_BYTES_MAX = 64  /* of a text that is kept */
};

#define FPOST_HASH_FACTOR 0x9E3779B97F4A7C15u /* Fibonacci hashing */

/* Where a slot lies inside its object; the descriptor comes from the class itself. */
static Py_ssize_t fpost_slot_offset(PyObject *descriptor)
{
    return ((PyMemberDescrObject *)descriptor)->d_member->offset;
}

/* Which of the slots of an adopted class it is that lies there. */
static inline Py_ssize_t fpost_slot_index(Py_ssize_t offset)
{
    return (offset - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(PyObject *);
}

static inline void fpost_fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    FPOST_SLOT(object, offset) = value;
}

/* Numbers */

static PyObject *fpost_shared_numbers[FPOST_SHARED_HIGH - FPOST_SHARED_LOW + 1];
static struct {
    int64_t value;
    PyObject *number;
} fpost_kept_numbers[1 << FPOST_NUMBERS_BITS];

/* Make `number` another of as many digits, if its place among the kept ones is all that holds it;
 * whether that was so. Where every number is new, a message is read in a fifth less time so. */
static inline int fpost_turn_number(PyObject *number, int64_t value)
{
#if PY_VERSION_HEX < 0x030C0000 /* later ones are left to Python, which shapes them differently */
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value, rest = size >> PyLong_SHIFT;
    Py_ssize_t digits = 1;
    for (; rest != 0; rest >>= PyLong_SHIFT)
        digits++;
    if (Py_REFCNT(number) != 1 || (Py_SIZE(number) != digits && Py_SIZE(number) != -digits))
        return 0;
    Py_SET_SIZE(number, value < 0 ? -digits : digits);
    for (Py_ssize_t index = 0; index < digits; index++, size >>= PyLong_SHIFT)
        ((PyLongObject *)number)->ob_digit[index] = (digit)(size & PyLong_MASK);
    return 1;
#else
    (void)number;
    (void)value;
    return 0;
#endif
}

static int fpost_share_numbers(void)
{
    for (int value = FPOST_SHARED_LOW; value <= FPOST_SHARED_HIGH; value++) {
        PyObject *number = PyLong_FromLong(value);
        if (number == NULL)
            return -1;
        fpost_shared_numbers[value - FPOST_SHARED_LOW] = number;
    }
    return 0;
}

/* A number in place of the one that is kept at `at`. */
static FPOST_APART PyObject *fpost_keep_number(int64_t value, uint64_t at)
{
    PyObject *number, *old = fpost_kept_numbers[at].number;
    if (old != NULL && fpost_turn_number(old, value)) {
        fpost_kept_numbers[at].value = value;
        return Py_NewRef(old);
    }
    number = PyLong_FromLongLong(value);
    if (number != NULL) {
        fpost_kept_numbers[at].value = value;
        fpost_kept_numbers[at].number = Py_NewRef(number);
        Py_XDECREF(old);
    }
    return number;
}

static inline PyObject *fpost_number_of(int64_t value)
{
    uint64_t at = (uint64_t)value - (uint64_t)(int64_t)FPOST_SHARED_LOW;
    if (at <= FPOST_SHARED_HIGH - FPOST_SHARED_LOW)
        return Py_NewRef(fpost_shared_numbers[at]);
    at = (uint64_t)value * FPOST_HASH_FACTOR >> (64 - FPOST_NUMBERS_BITS);
    if (fpost_kept_numbers[at].value == value && fpost_kept_numbers[at].number != NULL)
        return Py_NewRef(fpost_kept_numbers[at].number);
    return fpost_keep_number(value, at);
}

/* Whether `value` is an ordinary integer whose digits can be read at once. */
static inline int fpost_plain_number(PyObject *value, int64_t *number)
{
    if (!PyLong_CheckExact(value))
        return 0;
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)value))
        return 0;
    *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
#else
    const digit *digits = ((PyLongObject *)value)->ob_digit;
    Py_ssize_t size = Py_SIZE(value); /* its sign is that of the number */
    if (FPOST_LIKELY(size >= -1 && size <= 1))
        *number = (int64_t)size * digits[0];
    else if (size == 2)
        *number = (int64_t)digits[1] << PyLong_SHIFT | digits[0];
    else if (size == -2)
        *number = -((int64_t)digits[1] << PyLong_SHIFT | digits[0]);
    else
        return 0;
#endif
    return 1;
}

/* Structs */

static struct {
    PyObject *first; /* linked through their first slots */
    int count;
} fpost_free_structs[FPOST_SLOTS_MAX + 1];
static int fpost_release_depth;

static inline Py_ssize_t fpost_slots_of(const PyTypeObject *type)
{
    return fpost_slot_index(type->tp_basicsize);
}

static void fpost_release_struct(PyObject *self);

static FPOST_INLINE void fpost_clear_and_free(PyObject *self, PyTypeObject *owner)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_ssize_t count = fpost_slots_of(owner);
    for (Py_ssize_t index = 0; index < count; index++)
        Py_XDECREF(FPOST_SLOTS(self)[index]);
    if (type == owner && type->tp_finalize == NULL && count <= FPOST_SLOTS_MAX
        && fpost_free_structs[count].count < FPOST_FREE_STRUCTS) {
        FPOST_SLOTS(self)[0] = fpost_free_structs[count].first;
        fpost_free_structs[count].first = self;
        fpost_free_structs[count].count++;
    } else {
        type->tp_free(self);
    }
    Py_DECREF(type);
}

static FPOST_APART void fpost_release_deep(PyObject *self, PyTypeObject *owner)
{
    Py_TRASHCAN_BEGIN(self, fpost_release_struct)
    fpost_clear_and_free(self, owner);
    Py_TRASHCAN_END
}

/* The destructor of adopted classes. Python's own calls it for classes derived from them. */
static void fpost_release_struct(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self), *owner = type;
    while (owner->tp_dealloc != fpost_release_struct)
        owner = owner->tp_base;
    if (type == owner && type->tp_finalize != NULL && PyObject_CallFinalizerFromDealloc(self) < 0)
        return; /* the finalizer has made a new reference to it */
    PyObject_GC_UnTrack(self);
    if (FPOST_LIKELY(fpost_release_depth < FPOST_PLAIN_DEPTH)) {
        fpost_release_depth++;
        fpost_clear_and_free(self, owner);
        fpost_release_depth--;
        return;
    }
    fpost_release_deep(self, owner);
}

/* Adopt a class whose objects have `declared` slots, if they have nothing else; whether it is. */
static int fpost_adopt(PyTypeObject *type, Py_ssize_t declared, destructor common)
{
    int plain = type->tp_dictoffset == 0 && type->tp_weaklistoffset == 0 && type->tp_itemsize == 0
        && type->tp_free == PyObject_GC_Del && type->tp_alloc == PyType_GenericAlloc
        && type->tp_dealloc == common && PyType_IS_GC(type) && type->tp_del == NULL;
    if (plain && fpost_slots_of(type) == declared)
        type->tp_dealloc = fpost_release_struct;
    return type->tp_dealloc == fpost_release_struct;
}

/* An object with `count` slots that hold anything: each has to be filled, if only with NULL, before
 * anybody else sees the object. `fpost_track_struct` then shows it to the collector. */
static inline PyObject *fpost_new_struct(PyTypeObject *type, Py_ssize_t count)
{
    PyObject *self;
    if (type->tp_dealloc != fpost_release_struct)
        return type->tp_alloc(type, 0);
    if (count > FPOST_SLOTS_MAX || fpost_free_structs[count].first == NULL)
        return _PyObject_GC_New(type);
    self = fpost_free_structs[count].first;
    fpost_free_structs[count].first = FPOST_SLOTS(self)[0];
    fpost_free_structs[count].count--;
#ifdef Py_TRACE_REFS
    return PyObject_Init(self, type);
#else /* the same without a call; its class is not that of the object which lay here before */
    Py_SET_TYPE(self, (PyTypeObject *)Py_NewRef(type));
    Py_SET_REFCNT(self, 1);
    return self;
#endif
}

/* An object with these values in its slots, which lie there as they do in the object. */
static inline PyObject *fpost_copy_struct(PyTypeObject *type, Py_ssize_t count, PyObject **values)
{
    PyObject *self = fpost_new_struct(type, count);
    if (self == NULL)
        return NULL;
    for (Py_ssize_t index = 0; index < count; index++)
        FPOST_SLOTS(self)[index] = Py_NewRef(values[index]);
    return self;
}

static inline PyObject *fpost_track_struct(PyObject *self)
{
    if (Py_TYPE(self)->tp_dealloc == fpost_release_struct)
        PyObject_GC_Track(self);
    return self;
}

/* Bytes and text */

static struct {
    uint64_t hash;
    PyObject *text;
    uint64_t missed; /* the hash of the latest text that was not there: it is kept the next time */
} fpost_kept_texts[1 << FPOST_TEXTS_BITS];

/* `size` bytes at `from` inside of the memory under `*view`, a flat view of bytes, or of `source`
 * while there is no view yet. PyMemoryView_FromObject gives every view a shape of its own, and the
 * view is narrowed here as slicing would do it. */
static PyObject *fpost_view_piece(PyObject **view, PyObject *source, const uint8_t *from,
                                  Py_ssize_t size)
{
    PyObject *piece = PyMemoryView_FromObject(*view != NULL ? *view : source);
    if (piece != NULL) {
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(piece);
        buffer->buf = (void *)from;
        buffer->len = size;
        buffer->shape[0] = size;
        if (*view == NULL)
            *view = Py_NewRef(piece);
    }
    return piece;
}

static inline uint64_t fpost_next_eight(const uint8_t *from)
{
    uint64_t eight;
    memcpy(&eight, from, 8);
    return eight;
}

/* Eight bytes or more that are to be a text: whether they are ASCII, and a hash of them. */
static inline int fpost_scan_text(const uint8_t *text, Py_ssize_t size, uint64_t *hash)
{
    const uint8_t *last = text + size - 8;
    uint64_t eight = fpost_next_eight(last), seen = eight;
    *hash = eight;
    for (; text < last; text += 8) {
        eight = fpost_next_eight(text);
        seen |= eight;
        *hash = (*hash << 9 | *hash >> 55) ^ eight;
    }
    return (seen & 0x8080808080808080u) == 0;
}

/* The same for less than eight bytes: they are their own hash. */
static inline int fpost_scan_word(const uint8_t *text, Py_ssize_t size, uint64_t *hash)
{
    uint64_t eight = 0;
    for (Py_ssize_t index = 0; index < size; index++)
        eight = eight << 8 | text[index];
    *hash = eight;
    return (eight & 0x8080808080808080u) == 0;
}

static inline PyObject *fpost_new_text(const uint8_t *text, Py_ssize_t size)
{
    PyObject *value = PyUnicode_New(size, 127);
    if (value != NULL)
        memcpy(PyUnicode_1BYTE_DATA(value), text, size);
    return value;
}

static PyObject *fpost_text_of(const uint8_t *text, Py_ssize_t size)
{
    PyObject *value;
    uint64_t hash, at;
    int is_ascii = size < 8 ? fpost_scan_word(text, size, &hash)
                            : fpost_scan_text(text, size, &hash);
    if (size < 2 || !is_ascii) /* Python shares the shortest */
        return PyUnicode_DecodeUTF8((const char *)text, size, NULL);
    if (size > FPOST_TEXT_BYTES_MAX)
        return fpost_new_text(text, size);
    at = hash * FPOST_HASH_FACTOR >> (64 - FPOST_TEXTS_BITS);
    value = fpost_kept_texts[at].text;
    if (fpost_kept_texts[at].hash == hash && value != NULL && PyUnicode_GET_LENGTH(value) == size
        && memcmp(PyUnicode_1BYTE_DATA(value), text, size) == 0)
        return Py_NewRef(value);
    value = fpost_new_text(text, size);
    if (value != NULL && fpost_kept_texts[at].missed == hash) {
        fpost_kept_texts[at].hash = hash;
        Py_XSETREF(fpost_kept_texts[at].text, Py_NewRef(value));
    }
    fpost_kept_texts[at].missed = hash;
    return value;
}

/* The bytes of a text that is ASCII; NULL where it has to be encoded first. */
static inline const char *fpost_ascii_of(PyObject *text, Py_ssize_t *size)
{
    if (!PyUnicode_Check(text) || !PyUnicode_IS_COMPACT_ASCII(text))
        return NULL;
    *size = PyUnicode_GET_LENGTH(text);
    return (const char *)PyUnicode_1BYTE_DATA(text);
}

/* Sixteen bytes as an object of `type`, which is derived from bytes and adds nothing. */
static PyObject *fpost_uuid_of(PyTypeObject *type, const uint8_t *bytes)
{
    PyObject *value = type->tp_alloc(type, 16);
    if (value != NULL) {
        memcpy(PyBytes_AS_STRING(value), bytes, 16);
        _Py_COMP_DIAG_PUSH
        _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        ((PyBytesObject *)value)->ob_shash = -1; /* not hashed yet */
        _Py_COMP_DIAG_POP
    }
    return value;
}

/* Numbers on the wire */

static inline uint16_t fpost_load16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t fpost_load32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t fpost_load64(const uint8_t *p)
{
    return (uint64_t)fpost_load32(p) << 32 | fpost_load32(p + 4);
}
/* The signed integer that eight bytes begin with, which is all but `spare` of their bits. */
static inline int64_t fpost_load_signed(const uint8_t *p, int spare)
{
    return (int64_t)fpost_load64(p) >> spare;
}
static inline void fpost_store16(uint8_t *p, uint64_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}
static inline void fpost_store32(uint8_t *p, uint64_t value)
{
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}
static inline void fpost_store64(uint8_t *p, uint64_t value)
{
    fpost_store32(p, value >> 32);
    fpost_store32(p + 4, value);
}

#endif
