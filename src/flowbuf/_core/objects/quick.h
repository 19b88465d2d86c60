/* The fast paths of writing and reading simple values. They leave all other values to write.c and
   read.c. */
#ifndef FB_OBJECTS_QUICK_H
#define FB_OBJECTS_QUICK_H

#include "objects/objects.h"

/* Room in bytes that a value requires. */
#define FB_QUICK_ROOM (FB_CODEC_ROOM + 0x80)

/* The values of a field that are on the fast paths. */
typedef enum {
    FB_QUICK_NONE,
    FB_QUICK_TEXT,
    FB_QUICK_BYTES,
    FB_QUICK_REAL,
    FB_QUICK_VARINT, /* an int that is written as it is */
    FB_QUICK_INT,    /* any other int */
    FB_QUICK_TRUTH
} fb_quick_kind;

/* Compile the fields of a type. REQUIRES: type->quick is zeroed memory for a byte per field;
   fb_codec_message_finish was called. */
void fb_quick_finish(fb_object_type *type);

/* Writing ------------------------------------------------------------------------------ */

/* Values are of Python's own types. Writing them runs no user code and raises no exception, so all
   references are borrowed. */

/* Write the first fields of an object, and count them and the absent ones among them. Returns
   their number, or SIZE_MAX if the object is written completely. REQUIRES: room for
   type->quick_count * FB_QUICK_ROOM bytes. */
size_t fb_quick_put(fb_buffer *buffer, const fb_object_type *type, PyObject *object);

/* Get an int of at most two digits. Python's C API has no faster function for it. Returns false for
   a longer one. */
FB_INLINE bool fb_quick_int(PyObject *value, int64_t *number) {
#if PY_VERSION_HEX >= 0x030c0000
    const _PyLongValue *of = &((const PyLongObject *)value)->long_value;
    const digit *digits = of->ob_digit;
    size_t count = of->lv_tag >> _PyLong_NON_SIZE_BITS;
    int64_t sign = 1 - (int64_t)(of->lv_tag & _PyLong_SIGN_MASK);
#else
    const digit *digits = ((const PyLongObject *)value)->ob_digit;
    size_t count = (size_t)(Py_SIZE(value) < 0 ? -Py_SIZE(value) : Py_SIZE(value));
    int64_t sign = (Py_SIZE(value) > 0) - (Py_SIZE(value) < 0);
#endif
    if (count > 2) return false;
    int64_t size = digits[0];
    if (count == 2) size |= (int64_t)digits[1] << PyLong_SHIFT;
    *number = sign * size;
    return true;
}

FB_INLINE bool fb_quick_put_bytes(uint8_t **p, const fb_codec_field *field, const void *data,
                                  Py_ssize_t size) {
    if (FB_UNLIKELY(size >= 0x80)) return false;
    if (FB_LIKELY(size) || field->presence)
        *p = fb_codec_put_few_bytes(*p, field, data, (size_t)size);
    return true;
}

/* Write a value at *p. Returns false for a value that is not on the fast path, and then writes
   nothing. REQUIRES: FB_QUICK_ROOM. */
FB_INLINE bool fb_quick_put_value(uint8_t **p, fb_quick_kind kind, const fb_codec_field *field,
                                  PyObject *value) {
    int64_t number;
    switch (kind) {
        case FB_QUICK_NONE: return false;
        case FB_QUICK_TEXT:
            if (!PyUnicode_CheckExact(value) || !PyUnicode_IS_COMPACT_ASCII(value)) return false;
            return fb_quick_put_bytes(p, field, PyUnicode_1BYTE_DATA(value),
                                      PyUnicode_GET_LENGTH(value));
        case FB_QUICK_BYTES:
            if (!PyBytes_CheckExact(value)) return false;
            return fb_quick_put_bytes(p, field, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        case FB_QUICK_REAL: {
            if (!PyFloat_CheckExact(value)) return false;
            double real = PyFloat_AS_DOUBLE(value);
            uint64_t bits;
            memcpy(&bits, &real, 8);
            *p = fb_codec_put_double(*p, field, bits);
            return true;
        }
        case FB_QUICK_VARINT:
        case FB_QUICK_INT:
            if (!PyLong_CheckExact(value) || !fb_quick_int(value, &number)) return false;
            if (number < field->least || (number > 0 && (uint64_t)number > field->most))
                return false;
            if (kind == FB_QUICK_INT) *p = fb_codec_put_scalar(*p, field, (uint64_t)number);
            else if (number || field->presence)
                *p = fb_codec_put_varint(fb_codec_put_tag(*p, field), (uint64_t)number);
            return true;
        case FB_QUICK_TRUTH:
            if (value != Py_True && value != Py_False) return false;
            *p = fb_codec_put_scalar(*p, field, value == Py_True);
            return true;
    }
    __builtin_unreachable();
}

/* Reading ------------------------------------------------------------------------------ */

/* Read the first fields of a message, as far as they are in order. The values are new references.
   Returns 0, or -1 with an exception set. REQUIRES: values of type->quick_count fields are NULL;
   the reader is at the start. */
int fb_quick_read(fb_codec_reader *reader, const fb_object_type *type, PyObject **values);

/* Make an int. The number is sign-extended, or of an unsigned type. */
FB_INLINE PyObject *fb_quick_new_int(const fb_codec_field *field, uint64_t number) {
    bool is_unsigned = field->type == FB_PROTO_UINT64 || field->type == FB_PROTO_FIXED64;
    return FB_UNLIKELY(number > INT64_MAX) && is_unsigned ? PyLong_FromUnsignedLongLong(number)
                                                          : PyLong_FromLongLong((int64_t)number);
}

/* Make a str. NULL without an exception: it is not ASCII. */
FB_INLINE PyObject *fb_quick_new_text(const uint8_t *data, size_t size) {
    if (FB_UNLIKELY(!fb_is_ascii(data, size))) return NULL;
    PyObject *text = PyUnicode_New((Py_ssize_t)size, 127);
    if (FB_LIKELY(text && size)) memcpy(PyUnicode_1BYTE_DATA(text), data, size);
    return text;
}

#endif
