/* From Python objects to messages: the fields of an object are written in the order of their
   numbers. */
#include "objects/quick.h"
#include "objects/writer.h"

/* objects with at most this many fields need no heap memory for their values */
enum { SMALL = 32 };

/* Scalars ------------------------------------------------------------------------------------ */

static const char *kind_names[] = {
    [FB_PROTO_BOOL] = "a bool",       [FB_PROTO_ENUM] = "an enum's number or name",
    [FB_PROTO_FLOAT] = "a float",     [FB_PROTO_DOUBLE] = "a float",
    [FB_PROTO_STRING] = "str",        [FB_PROTO_BYTES] = "bytes",
    [FB_PROTO_MESSAGE] = "an object", [FB_PROTO_GROUP] = "an object",
};

static const char *name_of(const fb_codec_field *field) {
    return kind_names[field->type] ? kind_names[field->type] : "an int";
}

static bool is_unsigned(const fb_codec_field *field) {
    return field->type == FB_PROTO_UINT32 || field->type == FB_PROTO_UINT64 ||
           field->type == FB_PROTO_FIXED32 || field->type == FB_PROTO_FIXED64;
}

static int fail_range(fb_object_writer *w, const fb_codec_field *field, PyObject *value) {
    PyErr_Clear();
    if (is_unsigned(field))
        return fb_object_fail_value(w, value, "out of range: 0 to %llu",
                                    (unsigned long long)field->most);
    return fb_object_fail_value(w, value, "out of range: %lld to %lld", (long long)field->least,
                                (long long)field->most);
}

/* Convert an int to the number of a field. REQUIRES: value is an int or of a subclass. */
static int number_of_int(fb_object_writer *w, const fb_codec_field *field, PyObject *value,
                         uint64_t *number) {
    int overflow;
    long long signed_number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (FB_LIKELY(!overflow)) {
        bool fits = is_unsigned(field)
                        ? signed_number >= 0 && (uint64_t)signed_number <= field->most
                        : signed_number >= field->least && signed_number <= (int64_t)field->most;
        if (FB_UNLIKELY(!fits)) return fail_range(w, field, value);
        *number = (uint64_t)signed_number;
        return 0;
    }
    if (overflow < 0 || !is_unsigned(field)) return fail_range(w, field, value);
    *number = PyLong_AsUnsignedLongLong(value);
    return PyErr_Occurred() || *number > field->most ? fail_range(w, field, value) : 0;
}

static int number_of_index(fb_object_writer *w, const fb_codec_field *field, PyObject *value,
                           uint64_t *number) {
    if (PyBool_Check(value) || !PyIndex_Check(value))
        return fb_object_fail_type(w, value, name_of(field));
    fb_object_own(w);
    Py_INCREF(value);
    PyObject *index = PyNumber_Index(value);
    int result = -1;
    if (index) result = number_of_int(w, field, index, number);
    else if (fb_object_is_type_error()) result = fb_object_fail_type(w, value, name_of(field));
    Py_XDECREF(index);
    Py_DECREF(value);
    return result;
}

static int number_of_bool(fb_object_writer *w, const fb_codec_field *field, PyObject *value,
                          uint64_t *number) {
    if (PyBool_Check(value)) {
        *number = value == Py_True;
        return 0;
    }
    bool is_truth = fb_object_is_truth(value);
    if (!is_truth && !PyIndex_Check(value)) return fb_object_fail_type(w, value, name_of(field));
    fb_object_own(w);
    Py_INCREF(value);
    PyObject *whole = is_truth ? Py_NewRef(value) : PyNumber_Index(value);
    int truth = -1;
    if (whole) truth = PyObject_IsTrue(whole);
    else if (fb_object_is_type_error()) truth = fb_object_fail_type(w, value, name_of(field));
    Py_XDECREF(whole);
    Py_DECREF(value);
    *number = truth > 0;
    return truth < 0 ? -1 : 0;
}

static void fail_member(fb_object_writer *w, const fb_object_field *of, PyObject *name) {
    PyObject *more = PyObject_CallFunctionObjArgs(w->options->suggest, name, of->numbers, NULL);
    if (more) fb_object_fail_value(w, name, "no member of the enum%U", more);
    Py_XDECREF(more);
}

static int number_of_name(fb_object_writer *w, const fb_object_field *of, PyObject *value,
                          uint64_t *number) {
    PyObject *name = fb_object_exact_text(value),
             *member = name ? PyDict_GetItemWithError(of->numbers, name) : NULL;
    if (member) *number = (uint64_t)PyLong_AsLongLong(member);
    else if (name && !PyErr_Occurred()) fail_member(w, of, name);
    Py_XDECREF(name);
    return member ? 0 : -1;
}

/* Convert a value of a type other than int and str. REQUIRES: a reference to it is owned. */
static int number_of_other(fb_object_writer *w, const fb_codec_field *field,
                           const fb_object_field *of, PyObject *value, uint64_t *number) {
    PyObject *member = fb_object_of_member(of->numbers, value);
    if (member) {
        int result = number_of_int(w, field, member, number);
        Py_DECREF(member);
        return result;
    }
    if (PyErr_Occurred()) return -1;
    return PyUnicode_Check(value) ? number_of_name(w, of, value, number)
                                  : number_of_index(w, field, value, number);
}

static int number_of_member(fb_object_writer *w, const fb_codec_field *field,
                            const fb_object_field *of, PyObject *value, uint64_t *number) {
    int result;
    if (PyUnicode_CheckExact(value)) return number_of_name(w, of, value, number);
    if (PyLong_CheckExact(value)) {
        result = number_of_int(w, field, value, number);
    } else {
        fb_object_own(w);
        Py_INCREF(value);
        result = number_of_other(w, field, of, value, number);
        Py_DECREF(value);
    }
    if (result || FB_LIKELY(fb_codec_has_member(field, *number))) return result;
    /* the value may be freed already, if it was an element of a list */
    return fb_object_fail(w, "%lld is no member of the enum", (long long)*number);
}

/* Raise an EncodeError if Python's conversion to a float failed because of the value. */
static int fail_float(fb_object_writer *w, const fb_codec_field *field, PyObject *value) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return fb_object_fail(w, "an int out of range of a float");
    }
    return fb_object_is_type_error() ? fb_object_fail_type(w, value, name_of(field)) : -1;
}

static int number_of_float(fb_object_writer *w, const fb_codec_field *field, PyObject *value,
                           uint64_t *number) {
    double real;
    if (FB_LIKELY(PyFloat_CheckExact(value))) {
        real = PyFloat_AS_DOUBLE(value);
    } else if (PyUnicode_Check(value) || PyBytes_Check(value)) {
        return fb_object_fail_type(w, value, name_of(field));
    } else {
        fb_object_own(w);
        Py_INCREF(value);
        real = PyFloat_AsDouble(value);
        bool failed = real == -1.0 && PyErr_Occurred();
        int result = failed ? fail_float(w, field, value) : 0;
        Py_DECREF(value);
        if (result) return -1;
    }
    if (field->type == FB_PROTO_DOUBLE) {
        memcpy(number, &real, 8);
        return 0;
    }
    float narrow = (float)real;
    uint32_t bits;
    if (narrow - narrow != 0 && real - real == 0)
        return fb_object_fail(w, "a number out of range of a float of 32 bits");
    memcpy(&bits, &narrow, 4);
    *number = bits;
    return 0;
}

int fb_object_number(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                     PyObject *value, uint64_t *number) {
    switch (field->type) {
        case FB_PROTO_FLOAT:
        case FB_PROTO_DOUBLE: return number_of_float(w, field, value, number);
        case FB_PROTO_BOOL: return number_of_bool(w, field, value, number);
        case FB_PROTO_ENUM: return number_of_member(w, field, of, value, number);
        default:
            if (FB_LIKELY(PyLong_CheckExact(value))) return number_of_int(w, field, value, number);
            return number_of_index(w, field, value, number);
    }
}

/* Strings and bytes -------------------------------------------------------------------------- */

/* Write a string or bytes. `always`: an empty one too. */
static int put_content(fb_object_writer *w, const fb_codec_field *field, bool always,
                       const void *data, size_t size) {
    fb_buffer *buffer = w->buffer;
    if (!size && !always) return 0;
    if (size > INT32_MAX) return fb_object_fail(w, "longer than 2 GiB");
    if (fb_object_reserve(buffer, size + FB_CODEC_ROOM)) return -1;
    buffer->p = fb_codec_put_bytes(buffer->p, field, data, size);
    return 0;
}

/* Encode a non-ASCII text here. Python would cache the UTF-8 form in the text object for its
   lifetime. */
static int put_wide_text(fb_object_writer *w, const fb_codec_field *field, PyObject *text) {
    fb_buffer *buffer = w->buffer;
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    size_t size = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        size_t bytes = fb_utf8_size(PyUnicode_READ(kind, data, i));
        if (!bytes)
            return fb_object_fail(
                w, "half of a surrogate pair at character %zd: it cannot be UTF-8", i);
        size += bytes;
    }
    if (size > INT32_MAX) return fb_object_fail(w, "longer than 2 GiB");
    if (fb_object_reserve(buffer, size + FB_CODEC_ROOM)) return -1;
    uint8_t *p = fb_codec_put_length(buffer->p, field, size);
    for (Py_ssize_t i = 0; i < length; i++) p = fb_utf8_put(p, PyUnicode_READ(kind, data, i));
    buffer->p = p;
    return 0;
}

static int put_text(fb_object_writer *w, const fb_codec_field *field, bool always,
                    PyObject *value) {
    if (FB_UNLIKELY(!PyUnicode_Check(value))) return fb_object_fail_type(w, value, "str");
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(value)) return -1;
#endif
    if (FB_LIKELY(PyUnicode_IS_ASCII(value)))
        return put_content(w, field, always, PyUnicode_DATA(value),
                           (size_t)PyUnicode_GET_LENGTH(value));
    return put_wide_text(w, field, value);
}

static int put_sized(fb_object_writer *w, const fb_codec_field *field, bool always,
                     const void *data, size_t size) {
    bool fits = !field->most || !size || size == field->most || size == (size_t)field->least;
    if (FB_LIKELY(fits)) return put_content(w, field, always, data, size);
    if ((uint64_t)field->least == field->most)
        return fb_object_fail(w, "%zu bytes, where there must be %llu", size,
                              (unsigned long long)field->most);
    return fb_object_fail(w, "%zu bytes, where there must be %lld or %llu", size,
                          (long long)field->least, (unsigned long long)field->most);
}

static int put_bytes(fb_object_writer *w, const fb_codec_field *field, bool always,
                     PyObject *value) {
    Py_buffer view;
    if (FB_LIKELY(PyBytes_CheckExact(value)))
        return put_sized(w, field, always, PyBytes_AS_STRING(value),
                         (size_t)PyBytes_GET_SIZE(value));
    if (!PyObject_CheckBuffer(value)) return fb_object_fail_type(w, value, "bytes");
    fb_object_own(w);
    Py_INCREF(value);
    int result = PyObject_GetBuffer(value, &view, PyBUF_SIMPLE);
    if (!result) {
        result = put_sized(w, field, always, view.buf, (size_t)view.len);
        PyBuffer_Release(&view);
    } else if (PyErr_ExceptionMatches(PyExc_BufferError) ||
               PyErr_ExceptionMatches(PyExc_ValueError)) {
        result =
            fb_object_fail_because(w, "%.100s that is not contiguous", Py_TYPE(value)->tp_name);
    }
    Py_DECREF(value);
    return result;
}

/* Nested objects ----------------------------------------------------------------------------- */

static int put_object(fb_object_writer *w, fb_object_type *type, PyObject *object);

static int time_of(fb_object_writer *w, bool duration, PyObject *value, int64_t *seconds,
                   int32_t *nanoseconds) {
    const char *problem;
    int result = fb_codec_time_of(value, duration, seconds, nanoseconds, &problem);
    if (result <= 0) return result ? fb_object_fail(w, "%s", problem) : 0;
    fb_object_own(w);
    Py_INCREF(value);
    long long whole;
    long rest;
    PyObject *pair =
        PyObject_CallFunction(w->options->to_time, "OO", value, duration ? Py_True : Py_False);
    if (!pair) {
        result = -1;
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            result = fb_object_fail_type(w, value, duration ? "a timedelta" : "a datetime");
        }
    } else if (!PyArg_ParseTuple(pair, "Ll", &whole, &rest)) {
        PyErr_Clear();
        result = fb_object_fail_value(w, value, "out of range of a time");
    } else if (!fb_codec_time_in_range(duration, whole, rest)) {
        result = fb_object_fail_value(w, value, "out of range of a time");
    } else {
        *seconds = whole;
        *nanoseconds = (int32_t)rest;
        result = 0;
    }
    Py_XDECREF(pair);
    Py_DECREF(value);
    return result;
}

static int put_time(fb_object_writer *w, const fb_codec_field *field, bool duration,
                    PyObject *value) {
    int64_t seconds;
    int32_t nanoseconds;
    if (fb_object_check_depth(w) || time_of(w, duration, value, &seconds, &nanoseconds) ||
        fb_object_reserve(w->buffer, 2 * FB_CODEC_ROOM + FB_CODEC_TIME_MAX))
        return -1;
    w->buffer->p = fb_codec_put_time(w->buffer->p, field, seconds, nanoseconds);
    return 0;
}

/* The start is an offset, because the output moves when it grows. */
size_t fb_object_begin_length(fb_buffer *buffer, const fb_codec_field *field) {
    buffer->p = fb_codec_begin_length(fb_codec_put_tag(buffer->p, field));
    return fb_buffer_size(buffer);
}

int fb_object_end_length(fb_object_writer *w, size_t begin) {
    fb_buffer *buffer = w->buffer;
    if (fb_buffer_size(buffer) - begin > INT32_MAX) return fb_object_fail(w, "longer than 2 GiB");
    if (fb_object_reserve(buffer, FB_CODEC_ROOM)) return -1;
    buffer->p = fb_codec_end_length(buffer->begin + begin, buffer->p);
    return 0;
}

static int put_nested(fb_object_writer *w, const fb_codec_field *field, fb_object_type *type,
                      PyObject *value) {
    fb_buffer *buffer = w->buffer;
    if (fb_object_reserve(buffer, FB_CODEC_ROOM)) return -1;
    if (field->type == FB_PROTO_GROUP) {
        buffer->p = fb_codec_put_tag(buffer->p, field);
        if (put_object(w, type, value) || fb_object_reserve(buffer, FB_CODEC_ROOM)) return -1;
        buffer->p = fb_codec_put_end_group(buffer->p, field);
        return 0;
    }
    size_t begin = fb_object_begin_length(buffer, field);
    return put_object(w, type, value) ? -1 : fb_object_end_length(w, begin);
}

/* Write one value with its tag. `always`: zero too. */
int fb_object_put_one(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                      bool always, PyObject *value) {
    uint64_t number;
    switch (of->role) {
        case FB_VALUE_TIMESTAMP: return put_time(w, field, false, value);
        case FB_VALUE_DURATION: return put_time(w, field, true, value);
        case FB_VALUE_OBJECT: return put_nested(w, field, of->type, value);
        default: break;
    }
    if (field->type == FB_PROTO_STRING) return put_text(w, field, always, value);
    if (field->type == FB_PROTO_BYTES) return put_bytes(w, field, always, value);
    if (fb_object_number(w, field, of, value, &number) ||
        fb_object_reserve(w->buffer, FB_CODEC_ROOM))
        return -1;
    if (number || always)
        w->buffer->p = fb_codec_put_value(fb_codec_put_tag(w->buffer->p, field), field, number);
    return 0;
}

/* Repeated fields and maps ------------------------------------------------------------------- */

static int put_elements(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                        PyObject *list) {
    fb_buffer *buffer = w->buffer;
    fb_object_where *place = &w->top->place;
    size_t begin = 0;
    bool of_list = PyList_CheckExact(list);
    if ((of_list ? PyList_GET_SIZE(list) : PyTuple_GET_SIZE(list)) == 0) return 0;
    if (field->packed) {
        if (fb_object_reserve(buffer, FB_CODEC_ROOM)) return -1;
        begin = fb_object_begin_length(buffer, field);
    }
    /* user code may shorten the list */
    for (Py_ssize_t i = 0; i < (of_list ? PyList_GET_SIZE(list) : PyTuple_GET_SIZE(list)); i++) {
        PyObject *value = of_list ? PyList_GET_ITEM(list, i) : PyTuple_GET_ITEM(list, i);
        uint64_t number;
        place->index = i;
        if (!field->packed) {
            Py_INCREF(value);
            int result = fb_object_put_one(w, field, of, true, value);
            Py_DECREF(value);
            if (result) return -1;
        } else {
            if (fb_object_number(w, field, of, value, &number) ||
                fb_object_reserve(buffer, FB_CODEC_ROOM))
                return -1;
            buffer->p = fb_codec_put_value(buffer->p, field, number);
        }
    }
    place->index = -1;
    return field->packed ? fb_object_end_length(w, begin) : 0;
}

static int put_repeated(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                        PyObject *value) {
    if (FB_LIKELY(PyList_CheckExact(value) || PyTuple_CheckExact(value)))
        return put_elements(w, field, of, value);
    if (PyUnicode_Check(value) || PyDict_Check(value) ||
        (PyBytes_Check(value) && field->type == FB_PROTO_STRING)) {
        return fb_object_fail_type(w, value, "a list");
    }
    fb_object_own(w);
    PyObject *list = PySequence_List(value);
    if (!list) return fb_object_is_type_error() ? fb_object_fail_type(w, value, "a list") : -1;
    int result = put_elements(w, field, of, list);
    Py_DECREF(list);
    return result;
}

/* Whole objects ------------------------------------------------------------------------------ */

static int put_value(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                     PyObject *value) {
    if (field->repeated)
        return of->role == FB_VALUE_MAP ? fb_object_put_map(w, field, of, value)
                                        : put_repeated(w, field, of, value);
    return fb_object_put_one(w, field, of, field->presence, value);
}

/* Write unknown fields that were kept at reading. The bytes must be complete fields. */
static int put_unknown(fb_object_writer *w, PyObject *bytes) {
    if (!bytes || bytes == Py_None) return 0;
    if (!PyBytes_CheckExact(bytes))
        return fb_object_fail_type(w, bytes, "the bytes of unknown fields");
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);
    const char *data = PyBytes_AS_STRING(bytes);
    if (!fb_codec_are_fields((fb_bytes){(const uint8_t *)data, size}, w->depth - 1))
        return fb_object_fail(w, "the bytes of unknown fields are malformed");
    if (fb_object_reserve(w->buffer, size)) return -1;
    memcpy(w->buffer->p, data, size);
    w->buffer->p += size;
    return 0;
}

static int check_oneof(fb_object_writer *w, const fb_object_frame *f, const fb_codec_field *field) {
    const fb_codec_message *message = &f->type->core;
    for (const fb_codec_field *other = message->fields; other < field; other++) {
        PyObject *value = f->values[other->slot];
        if (other->oneof != field->oneof || !value || value == Py_None) continue;
        return fb_object_fail(w, "%R of the same oneof has a value too",
                              f->type->fields[other->slot].name);
    }
    return 0;
}

int fb_object_put_fields(fb_object_writer *w, fb_object_frame *f) {
    const fb_object_type *type = f->type;
    for (size_t i = f->written; i < type->core.count; i++) {
        const fb_codec_field *field = type->core.fields + i;
        PyObject *value = f->values[field->slot];
        const fb_object_field *of = type->fields + field->slot;
        f->place.field = of;
        if (!value || value == Py_None) {
            if (FB_UNLIKELY(field->required)) return fb_object_fail(w, "required, and not given");
            continue;
        }
        if (FB_UNLIKELY(field->oneof) && check_oneof(w, f, field)) return -1;
        fb_quick_kind kind = (fb_quick_kind)type->quick[i];
        if (FB_LIKELY(w->buffer->end - w->buffer->p >= FB_QUICK_ROOM &&
                      fb_quick_put_value(&w->buffer->p, kind, field, value)))
            continue;
        if (put_value(w, field, of, value)) return -1;
    }
    f->place.field = NULL;
    return 0;
}

static int put_gathered(fb_object_writer *w, fb_object_frame *f) {
    if (fb_object_is_plain(f->type)) return fb_object_put_plain(w, f);
    return fb_object_gather(w, f) || fb_object_put_fields(w, f) || put_unknown(w, f->unknown) ? -1
                                                                                              : 0;
}

/* Write the fields of an object after the first ones. */
static int put_rest(fb_object_writer *w, fb_object_type *type, PyObject *object, size_t written) {
    PyObject *few[SMALL];
    size_t count = type->core.count;
    PyObject **values = count <= SMALL ? few : PyMem_Malloc(count * sizeof *values);
    fb_object_frame f = {.place = {.parent = w->top ? &w->top->place : NULL, .index = -1},
                         .parent = w->top,
                         .type = type,
                         .object = object,
                         .values = values,
                         .written = written};
    if (!values) {
        PyErr_NoMemory();
        return -1;
    }
    memset(values, 0, count * sizeof *values);
    w->depth++;
    w->top = &f;
    int result = put_gathered(w, &f);
    fb_object_disown(&f);
    w->top = f.parent;
    w->depth--;
    if (values != few) PyMem_Free(values);
    return result;
}

static int put_object(fb_object_writer *w, fb_object_type *type, PyObject *object) {
    size_t written = 0;
    if (fb_object_check_depth(w)) return -1;
    if (type->quick_count) {
        if (fb_object_reserve(w->buffer, type->quick_count * FB_QUICK_ROOM)) return -1;
        written = fb_quick_put(w->buffer, type, object);
        if (FB_LIKELY(written == SIZE_MAX)) return 0;
    }
    return put_rest(w, type, object, written);
}

int fb_object_write(fb_buffer *buffer, fb_object_type *type, const fb_codec_options *options,
                    PyObject *object, Py_ssize_t index) {
    fb_object_writer w = {.buffer = buffer, .options = options, .types = type, .index = index};
    size_t begin = fb_buffer_size(buffer);
    if (put_object(&w, type, object)) return -1;
    return fb_buffer_size(buffer) - begin <= INT32_MAX ? 0
                                                       : fb_object_fail(&w, "longer than 2 GiB");
}
