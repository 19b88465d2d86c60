/* Maps are written as messages of a key and a value each, in a fixed order. */
#include "objects/writer.h"

typedef struct {
    PyObject *key, *value;
    uint64_t number; /* of a key that is not text */
    size_t place;    /* index in the mapping */
} entry;

/* The order of map entries in google.protobuf's deterministic output. If one text is a prefix of
   the other, the longer one comes first. Numbers are descending, with negative ones before the
   others. */
static int compare_texts(const void *one, const void *other) {
    PyObject *a = ((const entry *)one)->key, *b = ((const entry *)other)->key;
    Py_ssize_t sizes[2] = {PyUnicode_GET_LENGTH(a), PyUnicode_GET_LENGTH(b)},
               common = sizes[0] < sizes[1] ? sizes[0] : sizes[1];
    for (Py_ssize_t i = 0; i < common; i++) {
        Py_UCS4 left = PyUnicode_READ_CHAR(a, i), right = PyUnicode_READ_CHAR(b, i);
        if (left != right) return left < right ? -1 : 1;
    }
    return (sizes[0] < sizes[1]) - (sizes[0] > sizes[1]);
}

static int compare_numbers(const void *one, const void *other) {
    uint64_t a = ((const entry *)one)->number, b = ((const entry *)other)->number;
    return (a < b) - (a > b);
}

static int compare_places(const void *one, const void *other) {
    size_t a = ((const entry *)one)->place, b = ((const entry *)other)->place;
    return (a > b) - (a < b);
}

static int order_texts(const void *one, const void *other) {
    int order = compare_texts(one, other);
    return order ? order : compare_places(one, other);
}

static int order_numbers(const void *one, const void *other) {
    int order = compare_numbers(one, other);
    return order ? order : compare_places(one, other);
}

static int put_entry(fb_object_writer *w, const fb_codec_field *field, const fb_object_type *type,
                     const entry *each) {
    const fb_codec_field *key = type->core.fields, *value = key + 1;
    if (fb_object_check_depth(w) || fb_object_reserve(w->buffer, 2 * FB_CODEC_ROOM)) return -1;
    w->depth++; /* an entry is a message too */
    size_t begin = fb_object_begin_length(w->buffer, field);
    w->top->place.key = each->key;
    if (key->type == FB_PROTO_STRING) {
        if (fb_object_put_one(w, key, type->fields + key->slot, true, each->key)) return -1;
    } else {
        w->buffer->p = fb_codec_put_value(fb_codec_put_tag(w->buffer->p, key), key, each->number);
    }
    if (fb_object_put_one(w, value, type->fields + value->slot, true, each->value)) return -1;
    w->depth--;
    return fb_object_end_length(w, begin);
}

/* Write the entries. REQUIRES: references to keys and values are owned, because user code may
   run. */
static int put_entries(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                       entry *entries, size_t count) {
    const fb_codec_field *key = of->type->core.fields;
    bool of_texts = key->type == FB_PROTO_STRING;
    for (size_t i = 0; i < count; i++) {
        w->top->place.key = entries[i].key;
        if (of_texts && !PyUnicode_Check(entries[i].key))
            return fb_object_fail_type(w, entries[i].key, "str as a key");
        if (!of_texts &&
            fb_object_number(w, key, of->type->fields, entries[i].key, &entries[i].number))
            return -1;
    }
    qsort(entries, count, sizeof *entries, of_texts ? order_texts : order_numbers);
    for (size_t i = 0; i < count; i++) {
        bool again = i + 1 < count &&
                     !(of_texts ? compare_texts : compare_numbers)(entries + i, entries + i + 1);
        /* Python keys that are equal on the wire, such as 1 and 2 for bools; the last one counts */
        if (again) continue;
        if (put_entry(w, field, of->type, entries + i)) return -1;
    }
    w->top->place.key = NULL;
    return 0;
}

/* Return a list of the (key, value) pairs of a mapping: a new reference, or NULL with an exception
   set. */
static PyObject *list_entries(fb_object_writer *w, PyObject *map) {
    PyObject *dict;
    if (PyDict_CheckExact(map)) return PyDict_Items(map);
    if (fb_object_to_dict(map, &dict)) return NULL;
    PyObject *items = dict ? PyDict_Items(dict) : (fb_object_fail_type(w, map, "a dict"), NULL);
    Py_XDECREF(dict);
    return items;
}

int fb_object_put_map(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                      PyObject *map) {
    if (PyDict_CheckExact(map) && PyDict_GET_SIZE(map) == 0) return 0;
    fb_object_own(w);
    PyObject *items = list_entries(w, map);
    if (!items) return -1;
    size_t count = (size_t)PyList_GET_SIZE(items);
    entry *entries = PyMem_Malloc(count * sizeof *entries);
    int result = -1;
    if (entries) {
        for (size_t i = 0; i < count; i++) {
            PyObject *item = PyList_GET_ITEM(items, (Py_ssize_t)i);
            entries[i] = (entry){PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1), 0, i};
        }
        result = put_entries(w, field, of, entries, count);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(entries);
    Py_DECREF(items);
    return result;
}
