/* The fast paths for the first fields of an object, up to one that is repeated, nested or of a
   oneof. */
#include "objects/quick.h"

/* limits the room that an object requires */
enum { MOST_FIELDS = 64 };

static fb_quick_kind kind_of(const fb_codec_field *field) {
    if (field->repeated) return FB_QUICK_NONE;
    switch (field->type) {
        case FB_PROTO_STRING: return FB_QUICK_TEXT;
        case FB_PROTO_BYTES: return field->most ? FB_QUICK_NONE : FB_QUICK_BYTES;
        case FB_PROTO_DOUBLE: return FB_QUICK_REAL;
        case FB_PROTO_BOOL: return FB_QUICK_TRUTH;
        case FB_PROTO_INT32:
        case FB_PROTO_INT64:
        case FB_PROTO_UINT32:
        case FB_PROTO_UINT64: return FB_QUICK_VARINT;
        case FB_PROTO_SINT32:
        case FB_PROTO_SINT64:
        case FB_PROTO_FIXED32:
        case FB_PROTO_FIXED64:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_SFIXED64: return FB_QUICK_INT;
        default: return FB_QUICK_NONE;
    }
}

void fb_quick_finish(fb_object_type *type) {
    bool first = !fb_object_is_plain(type);
    for (size_t i = 0; i < type->core.count; i++) {
        const fb_codec_field *field = type->core.fields + i;
        type->quick[i] = (uint8_t)kind_of(field);
        first = first && i < MOST_FIELDS && type->quick[i] != FB_QUICK_NONE && !field->oneof &&
                field->slot < type->declared;
        if (first) type->quick_count++;
    }
}

/* Write the value of a field, or nothing for None. */
FB_INLINE bool put_or_skip(uint8_t **p, uint8_t kind, const fb_codec_field *field,
                           PyObject *value) {
    return FB_LIKELY(fb_quick_put_value(p, (fb_quick_kind)kind, field, value)) ||
           (value == Py_None && !field->required);
}

static size_t put_items(fb_buffer *buffer, const fb_object_type *type, PyObject *const *items) {
    const fb_codec_field *field = type->core.fields;
    const uint8_t *kind = type->quick, *end = kind + type->quick_count;
    uint8_t *p = buffer->p;
    for (; kind < end; kind++, field++) {
        if (!put_or_skip(&p, *kind, field, items[field->slot])) break;
    }
    buffer->p = p;
    return (size_t)(kind - type->quick);
}

static size_t put_attributes(fb_buffer *buffer, const fb_object_type *type, PyObject *object) {
    const fb_codec_field *field = type->core.fields;
    const uint8_t *kind = type->quick, *end = kind + type->quick_count;
    const Py_ssize_t *offsets = type->seen.offsets;
    uint8_t *p = buffer->p;
    for (; kind < end; kind++, field++) {
        PyObject *value = *(PyObject **)((char *)object + offsets[field->slot]);
        if (FB_UNLIKELY(!value) || !put_or_skip(&p, *kind, field, value)) break;
    }
    buffer->p = p;
    return (size_t)(kind - type->quick);
}

/* Dicts usually have their keys in the order of the fields, and use the same key objects each
   time. *rest becomes true if keys follow. */
static size_t put_dict(fb_buffer *buffer, const fb_object_type *type, PyObject *dict, bool *rest) {
    const fb_codec_field *field = type->core.fields;
    const uint8_t *kind = type->quick, *end = kind + type->quick_count;
    uint8_t *p = buffer->p;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    for (; kind < end && PyDict_Next(dict, &position, &key, &value); kind++, field++) {
        const fb_object_field *of = type->fields + field->slot;
        if (FB_UNLIKELY(key != of->name && key != of->alias)) break;
        if (!put_or_skip(&p, *kind, field, value)) break;
    }
    buffer->p = p;
    *rest = kind == end && PyDict_Next(dict, &position, &key, &value);
    return (size_t)(kind - type->quick);
}

size_t fb_quick_put(fb_buffer *buffer, const fb_object_type *type, PyObject *object) {
    bool all = type->quick_count == type->core.count, rest = false;
    size_t count;
    if (PyTuple_CheckExact(object)) {
        if (PyTuple_GET_SIZE(object) != (Py_ssize_t)type->declared) return 0;
        count = put_items(buffer, type, ((PyTupleObject *)object)->ob_item);
    } else if (type->seen.stored && fb_object_class_is(&type->seen, Py_TYPE(object))) {
        count = put_attributes(buffer, type, object);
    } else if (all && PyDict_CheckExact(object)) {
        count = put_dict(buffer, type, object, &rest);
    } else {
        return 0;
    }
    return all && count == type->quick_count && !rest ? SIZE_MAX : count;
}

/* Make the value of a field at *p. NULL without an exception: it is not on the fast path, or
   malformed. */
FB_INLINE PyObject *new_value(uint8_t kind, const fb_codec_field *field, const uint8_t **p,
                              const uint8_t *end) {
    const uint8_t *data = *p;
    uint64_t number;
    size_t size;
    double real;
    switch ((fb_quick_kind)kind) {
        case FB_QUICK_TEXT:
        case FB_QUICK_BYTES:
            if (data == end || *data >= 0x80) return NULL;
            size = *data++;
            if (FB_UNLIKELY(size > (size_t)(end - data))) return NULL;
            *p = data + size;
            if (kind == FB_QUICK_BYTES)
                return PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
            return fb_quick_new_text(data, size);
        case FB_QUICK_REAL:
            if (FB_UNLIKELY(end - data < 8)) return NULL;
            number = fb_load_little64(data);
            memcpy(&real, &number, 8);
            *p = data + 8;
            return PyFloat_FromDouble(real);
        case FB_QUICK_VARINT:
        case FB_QUICK_INT:
            *p = fb_codec_read_scalar(field, data, end, &number);
            return FB_LIKELY(*p) ? fb_quick_new_int(field, number) : NULL;
        case FB_QUICK_TRUTH:
            *p = fb_codec_read_scalar(field, data, end, &number);
            return FB_LIKELY(*p) ? PyBool_FromLong(number != 0) : NULL;
        case FB_QUICK_NONE: return NULL;
    }
    __builtin_unreachable();
}

int fb_quick_read(fb_codec_reader *reader, const fb_object_type *type, PyObject **values) {
    const fb_codec_field *field = type->core.fields;
    const uint8_t *kind = type->quick, *last = kind + type->quick_count;
    const uint8_t *p = reader->p, *end = reader->end;
    for (; kind < last && p < end; kind++, field++) {
        if (FB_UNLIKELY(*p != field->quick)) continue;
        const uint8_t *after = p + 1;
        PyObject *value = new_value(*kind, field, &after, end);
        if (FB_UNLIKELY(!value)) {
            if (PyErr_Occurred()) return -1;
            break;
        }
        values[field->slot] = value;
        p = after;
    }
    if (p == reader->p) return 0;
    reader->p = p;
    reader->expected = field < type->core.fields + type->core.count ? field : NULL;
    return 0;
}
