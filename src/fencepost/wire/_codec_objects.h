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
#else
#define FPOST_LIKELY(x) (x)
#endif

#define FPOST_SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define FPOST_SLOTS(object) ((PyObject **)((object) + 1))

enum {
    FPOST_SLOTS_MAX = 32,      /* structs with more slots are not kept */
    FPOST_FREE_STRUCTS = 1024, /* of each size */
    FPOST_PLAIN_DEPTH = 100,   /* structs inside of structs that are released by plain recursion */
    FPOST_SHARED_LOW = -5,     /* the integers that Python itself shares */
    FPOST_SHARED_HIGH = 256,
    FPOST_NUMBERS_BITS = 9 /* numbers that are kept: 2 to this power */
};

/* Where a slot lies inside its object; the descriptor comes from the class itself. */
static Py_ssize_t fpost_slot_offset(PyObject *descriptor)
{
    return ((PyMemberDescrObject *)descriptor)->d_member->offset;
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

static inline PyObject *fpost_number_of(int64_t value)
{
    PyObject *number, *old;
    uint64_t at = (uint64_t)value - (uint64_t)(int64_t)FPOST_SHARED_LOW;
    if (at <= FPOST_SHARED_HIGH - FPOST_SHARED_LOW)
        return Py_NewRef(fpost_shared_numbers[at]);
    at = (uint64_t)value * 0x9E3779B97F4A7C15u >> (64 - FPOST_NUMBERS_BITS); /* Fibonacci hashing */
    old = fpost_kept_numbers[at].number;
    if (fpost_kept_numbers[at].value == value && old != NULL)
        return Py_NewRef(old);
    number = PyLong_FromLongLong(value);
    if (number != NULL) {
        fpost_kept_numbers[at].value = value;
        fpost_kept_numbers[at].number = Py_NewRef(number);
        Py_XDECREF(old);
    }
    return number;
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
    return (type->tp_basicsize - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(PyObject *);
}

static void fpost_release_struct(PyObject *self);

static void fpost_clear_and_free(PyObject *self, PyTypeObject *owner)
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

/* The destructor of adopted classes. Python's own calls it for classes derived from them. */
static void fpost_release_struct(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self), *owner = type;
    while (owner->tp_dealloc != fpost_release_struct)
        owner = owner->tp_base;
    if (type == owner && type->tp_finalize != NULL && PyObject_CallFinalizerFromDealloc(self) < 0)
        return; /* somebody took hold of it again */
    PyObject_GC_UnTrack(self);
    if (FPOST_LIKELY(fpost_release_depth < FPOST_PLAIN_DEPTH)) {
        fpost_release_depth++;
        fpost_clear_and_free(self, owner);
        fpost_release_depth--;
        return;
    }
    Py_TRASHCAN_BEGIN(self, fpost_release_struct)
    fpost_clear_and_free(self, owner);
    Py_TRASHCAN_END
}

/* Adopt a class whose objects have `declared` slots, if they have nothing else. */
static void fpost_adopt(PyTypeObject *type, Py_ssize_t declared, destructor common)
{
    int plain = type->tp_dictoffset == 0 && type->tp_weaklistoffset == 0 && type->tp_itemsize == 0
        && type->tp_free == PyObject_GC_Del && type->tp_alloc == PyType_GenericAlloc
        && type->tp_dealloc == common && PyType_IS_GC(type) && type->tp_del == NULL;
    if (plain && fpost_slots_of(type) == declared)
        type->tp_dealloc = fpost_release_struct;
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
    return PyObject_Init(self, type);
}

static inline PyObject *fpost_track_struct(PyObject *self)
{
    if (Py_TYPE(self)->tp_dealloc == fpost_release_struct)
        PyObject_GC_Track(self);
    return self;
}

/* Bytes and text */

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

static inline int fpost_is_ascii(const uint8_t *text, Py_ssize_t size)
{
    uint64_t seen = 0, eight;
    for (; size >= 8; size -= 8, text += 8) {
        memcpy(&eight, text, 8);
        seen |= eight;
    }
    while (size-- > 0)
        seen |= *text++;
    return (seen & 0x8080808080808080u) == 0;
}

static inline PyObject *fpost_text_of(const uint8_t *text, Py_ssize_t size)
{
    PyObject *value;
    if (size < 2 || !fpost_is_ascii(text, size)) /* Python shares the shortest */
        return PyUnicode_DecodeUTF8((const char *)text, size, NULL);
    value = PyUnicode_New(size, 127);
    if (value != NULL)
        memcpy(PyUnicode_1BYTE_DATA(value), text, size);
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
