/* Writes message types of google.protobuf that are plain Python values. Reading is in read.c. */
#include "objects/writer.h"

PyObject *fb_object_type_key, *fb_object_value_key;
static PyObject *enum_class, *zero;

int fb_object_plain_import(void) {
    PyObject *module = PyImport_ImportModule("enum");
    enum_class = module ? PyObject_GetAttrString(module, "Enum") : NULL;
    Py_XDECREF(module);
    zero = PyLong_FromLong(0);
    fb_object_type_key = PyUnicode_InternFromString("@type");
    fb_object_value_key = PyUnicode_InternFromString("value");
    return enum_class && zero && fb_object_type_key && fb_object_value_key ? 0 : -1;
}

PyObject *fb_object_of_member(PyObject *numbers, PyObject *value) {
    int found = PyObject_IsInstance(value, enum_class);
    PyObject *inside = found > 0 ? PyObject_GetAttr(value, fb_object_value_key) : NULL;
    if (!inside || PyLong_Check(inside)) return inside;
    PyObject *number = PyUnicode_Check(inside) ? PyDict_GetItemWithError(numbers, inside) : NULL;
    if (!number && !PyErr_Occurred()) {
        Py_SETREF(inside, PyObject_GetAttrString(value, "name"));
        if (inside) number = PyDict_GetItemWithError(numbers, inside);
    }
    Py_XINCREF(number);
    Py_XDECREF(inside);
    return number;
}

bool fb_object_is_truth(PyObject *value) {
    const char *type = Py_TYPE(value)->tp_name;
    return strcmp(type, "numpy.bool") == 0 || strcmp(type, "numpy.bool_") == 0;
}

int fb_object_find_type(PyObject *types, PyObject *url, size_t *index) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(url), slash = PyUnicode_FindChar(url, '/', 0, size, -1);
    if (slash < 0) return slash == -1 ? 0 : -1;
    PyObject *name = PyUnicode_Substring(url, slash + 1, size);
    PyObject *found = name ? PyDict_GetItemWithError(types, name) : NULL;
    Py_XDECREF(name);
    if (!found) return PyErr_Occurred() ? -1 : 0;
    *index = PyLong_AsSize_t(found);
    return 1;
}

/* Value -------------------------------------------------------------------------------------- */

/* Check that a double has exactly the value of an int. REQUIRES: a reference is owned. */
static int check_exact(fb_object_writer *w, PyObject *value) {
    PyObject *whole = PyNumber_Index(value);
    if (!whole)
        return fb_object_is_type_error() ? fb_object_fail_type(w, value, "a value of JSON") : -1;
    double real = PyLong_AsDouble(whole);
    if (real == -1 && PyErr_Occurred()) {
        Py_DECREF(whole);
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
        PyErr_Clear();
        return fb_object_fail_value(w, value, "out of range of a double");
    }
    PyObject *back = PyLong_FromDouble(real);
    int same = back ? PyObject_RichCompareBool(whole, back, Py_EQ) : -1;
    Py_DECREF(whole);
    Py_XDECREF(back);
    if (same) return same < 0 ? -1 : 0;
    return fb_object_fail_value(w, value, "not exact as a double; write it as a string");
}

/* Return the slot of a value of JSON, or -1 with an exception set. REQUIRES: a reference is
   owned. */
static int slot_of_json(fb_object_writer *w, PyObject *value) {
    PyObject *dict;
    if (value == Py_None || value == w->options->null) return FB_OF_NULL;
    if (PyBool_Check(value) || fb_object_is_truth(value)) return FB_OF_BOOL;
    if (PyUnicode_Check(value)) return FB_OF_STRING;
    if (PyFloat_Check(value)) return FB_OF_NUMBER;
    if (PyDict_Check(value)) return FB_OF_STRUCT;
    if (PyList_Check(value) || PyTuple_Check(value)) return FB_OF_LIST;
    if (PyIndex_Check(value)) return check_exact(w, value) ? -1 : FB_OF_NUMBER;
    if (fb_object_to_dict(value, &dict)) return -1;
    if (dict) {
        Py_DECREF(dict);
        return FB_OF_STRUCT;
    }
    if (Py_TYPE(value)->tp_as_number && Py_TYPE(value)->tp_as_number->nb_float) return FB_OF_NUMBER;
    return fb_object_fail_type(w, value, "a value of JSON");
}

static int gather_json(fb_object_writer *w, fb_object_frame *f) {
    fb_object_own(w);
    int slot = slot_of_json(w, f->object);
    if (slot < 0) return -1;
    f->values[slot] = Py_NewRef(slot == FB_OF_NULL ? zero : f->object);
    return 0;
}

/* Any ---------------------------------------------------------------------------------------- */

/* Check the keys of a dict whose message is under the key "value", because it has no fields or is
   unknown. */
static int check_keys(fb_object_writer *w, PyObject *dict, PyObject *value, PyObject *url,
                      bool known) {
    bool extra = PyDict_GET_SIZE(dict) > (value ? 2 : 1) && !w->options->ignore_unknown;
    if (known) {
        if (extra) return fb_object_fail(w, "keys other than '@type' and 'value'");
        return value ? 0 : fb_object_fail(w, "no key 'value' beside '@type'");
    }
    if (!extra && (!value || PyObject_CheckBuffer(value))) return 0;
    if (PyUnicode_FindChar(url, '/', 0, PyUnicode_GET_LENGTH(url), 1) < 0)
        return fb_object_fail(w, "'@type' is %R; write a URL: 'type.googleapis.com/%U'", url, url);
    return fb_object_fail(w, "the definition has no type %R; its 'value' must be bytes", url);
}

static uint8_t role_of(const fb_object_type *type) {
    switch (type->plain) {
        case FB_PLAIN_TIMESTAMP: return FB_VALUE_TIMESTAMP;
        case FB_PLAIN_DURATION: return FB_VALUE_DURATION;
        default: return FB_VALUE_OBJECT;
    }
}

/* Write the message in an Any: the value of its field 2. */
static int put_inside(fb_object_writer *w, fb_object_frame *f, PyObject *dict) {
    const fb_codec_field *field = f->type->core.fields + FB_OF_MESSAGE;
    PyObject *value = PyDict_GetItemWithError(dict, fb_object_value_key);
    size_t index;
    if (!value && PyErr_Occurred()) return -1;
    int known = fb_object_find_type(w->options->known_types, f->values[FB_OF_URL], &index);
    if (known < 0) return -1;
    fb_object_field inside = {.role = FB_VALUE_SCALAR};
    if (known) {
        inside.type = w->types + index;
        inside.role = role_of(inside.type);
        if (inside.type->plain == FB_PLAIN_NONE)
            return fb_object_put_one(w, field, &inside, true, dict);
    }
    if (check_keys(w, dict, value, f->values[FB_OF_URL], known)) return -1;
    if (!value) return 0;
    f->values[FB_OF_MESSAGE] = Py_NewRef(value);
    return fb_object_put_one(w, field, &inside, known, value);
}

/* Write an Any from a dict with its own fields. */
static int put_own_fields(fb_object_writer *w, fb_object_frame *f) {
    const fb_object_field *fields = f->type->fields;
    Py_ssize_t found = 0;
    for (size_t i = FB_OF_URL; i <= FB_OF_MESSAGE; i++) {
        f->values[i] = Py_XNewRef(PyDict_GetItemWithError(f->object, fields[i].name));
        if (f->values[i]) found++;
        else if (PyErr_Occurred()) return -1;
    }
    if (PyDict_GET_SIZE(f->object) > found && !w->options->ignore_unknown)
        return fb_object_fail(w, "no key '@type', which gives the type of the message");
    return fb_object_put_fields(w, f);
}

/* Write an Any from a dict with its type. Another dict has the fields of the Any itself. */
static int put_any(fb_object_writer *w, fb_object_frame *f) {
    PyObject *dict;
    fb_object_own(w);
    if (fb_object_to_dict(f->object, &dict)) return -1;
    if (!dict) return fb_object_fail_type(w, f->object, "a dict with the key '@type'");
    PyObject *url = PyDict_GetItemWithError(dict, fb_object_type_key);
    Py_SETREF(f->object, dict);
    if (!url) return PyErr_Occurred() ? -1 : put_own_fields(w, f);
    if (!PyUnicode_Check(url)) return fb_object_fail_type(w, url, "str as '@type'");
    f->values[FB_OF_URL] = fb_object_exact_text(url);
    if (!f->values[FB_OF_URL]) return -1;
    const fb_codec_field *field = f->type->core.fields + FB_OF_URL;
    if (fb_object_put_one(w, field, f->type->fields + FB_OF_URL, false, f->values[FB_OF_URL]))
        return -1;
    size_t begin = fb_buffer_size(w->buffer);
    if (put_inside(w, f, dict)) return -1;
    /* an empty message: an empty field without presence is not written */
    if (fb_buffer_size(w->buffer) - begin == 2) w->buffer->p = w->buffer->begin + begin;
    return 0;
}

int fb_object_put_plain(fb_object_writer *w, fb_object_frame *f) {
    switch (f->type->plain) {
        case FB_PLAIN_ANY: return put_any(w, f);
        case FB_PLAIN_VALUE: return gather_json(w, f) ? -1 : fb_object_put_fields(w, f);
        default: break;
    }
    if (f->object == Py_None) return fb_object_fail_type(w, f->object, "a value");
    f->values[0] = f->owned ? Py_NewRef(f->object) : f->object;
    return fb_object_put_fields(w, f);
}
