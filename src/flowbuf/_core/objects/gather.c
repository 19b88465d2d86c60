/* Collects the values of an object of any kind by the slots of its fields, and owns them while they
   are written. */
#include "objects/writer.h"

#include <structmember.h>

void fb_object_own(fb_object_writer *w) {
    for (fb_object_frame *f = w->top; f && !f->owned; f = f->parent) {
        f->owned = true;
        Py_INCREF(f->object);
        Py_XINCREF(f->unknown);
        for (size_t i = 0; i < f->type->core.count; i++) Py_XINCREF(f->values[i]);
    }
}

void fb_object_disown(fb_object_frame *f) {
    if (!f->owned) return;
    for (size_t i = 0; i < f->type->core.count; i++) Py_XDECREF(f->values[i]);
    Py_XDECREF(f->unknown);
    Py_DECREF(f->object);
}

/* Raise an EncodeError. Takes ownership of the text. */
static int fail_with(fb_object_writer *w, PyObject *problem) {
    PyObject *path = NULL, *error = NULL;
    if (problem) path = fb_object_path(w->top ? &w->top->place : NULL, w->index);
    if (path) error = PyObject_CallFunctionObjArgs(w->options->encode_error, problem, path, NULL);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(problem);
    Py_XDECREF(path);
    Py_XDECREF(error);
    return -1;
}

int fb_object_fail(fb_object_writer *w, const char *format, ...) {
    va_list arguments;
    if (PyErr_Occurred()) return -1;
    va_start(arguments, format);
    PyObject *problem = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    return fail_with(w, problem);
}

int fb_object_fail_value(fb_object_writer *w, PyObject *value, const char *format, ...) {
    va_list arguments;
    if (PyErr_Occurred()) return -1;
    PyObject *shown = fb_object_show(value);
    va_start(arguments, format);
    PyObject *more = shown ? PyUnicode_FromFormatV(format, arguments) : NULL, *problem = NULL;
    va_end(arguments);
    if (more) problem = PyUnicode_FromFormat("%U is %U", shown, more);
    Py_XDECREF(shown);
    Py_XDECREF(more);
    return fail_with(w, problem);
}

int fb_object_fail_because(fb_object_writer *w, const char *format, ...) {
    PyObject *type, *cause, *traceback, *error;
    va_list arguments;
    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (traceback) PyException_SetTraceback(cause, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    va_start(arguments, format);
    PyObject *problem = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    fail_with(w, problem);
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyException_SetCause(error, cause); /* takes ownership of the cause */
    PyErr_Restore(type, error, traceback);
    return -1;
}

int fb_object_fail_type(fb_object_writer *w, PyObject *value, const char *expected) {
    if (value == Py_None) return fb_object_fail(w, "None where %s is expected", expected);
    return fb_object_fail(w, "%.100s where %s is expected", Py_TYPE(value)->tp_name, expected);
}

/* True if the pending exception is a TypeError, which is cleared: the caller raises its own
   error. */
bool fb_object_is_type_error(void) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    return true;
}

static int has_keys(PyObject *value) {
    if (PyDict_Check(value)) return 1;
    if (!Py_TYPE(value)->tp_as_mapping || !Py_TYPE(value)->tp_as_mapping->mp_subscript ||
        PyTuple_Check(value))
        return 0;
    PyObject *keys = PyObject_GetAttrString(value, "keys");
    if (!keys && !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    Py_XDECREF(keys);
    return keys != NULL;
}

int fb_object_to_dict(PyObject *value, PyObject **dict) {
    *dict = NULL;
    int found = has_keys(value);
    if (found <= 0) return found;
    *dict = PyObject_CallFunctionObjArgs((PyObject *)&PyDict_Type, value, NULL);
    if (*dict) return 0;
    return fb_object_is_type_error() ? 0 : -1;
}

/* Values by slot ----------------------------------------------------------------------------- */

static int fail_key(fb_object_writer *w, const fb_object_type *type, PyObject *key) {
    if (!PyUnicode_Check(key))
        return fb_object_fail(w, "%.100s as a key, where names are expected",
                              Py_TYPE(key)->tp_name);
    PyObject *name = fb_object_exact_text(key), *more = NULL;
    if (name) more = PyObject_CallFunctionObjArgs(w->options->suggest, name, type->slots, NULL);
    int result = more ? fb_object_fail(w, "unknown key %R%U", name, more) : -1;
    Py_XDECREF(name);
    Py_XDECREF(more);
    return result;
}

static int slot_of_text(fb_object_type *type, PyObject *key, Py_ssize_t *slot) {
    PyObject *text = fb_object_exact_text(key),
             *found = text ? PyDict_GetItemWithError(type->slots, text) : NULL;
    if (found) {
        *slot = PyLong_AsSsize_t(found);
        if (key == text && key != type->fields[*slot].name)
            Py_XSETREF(type->fields[*slot].alias, Py_NewRef(key));
    }
    Py_XDECREF(text);
    return found || !PyErr_Occurred() ? 0 : -1;
}

/* True for the key with the type of an Any, beside the fields of its message. */
static bool is_type_key(const fb_object_frame *f, PyObject *key) {
    return f->parent && f->parent->type->plain == FB_PLAIN_ANY && f->object == f->parent->object &&
           PyUnicode_Compare(key, fb_object_type_key) == 0;
}

/* Dicts usually have their keys in the order of the fields, and use the same key objects each
   time. */
static int find_slot(fb_object_writer *w, fb_object_frame *f, PyObject *key, PyObject *value,
                     Py_ssize_t *slot) {
    *slot = -1;
    if (PyUnicode_Check(key)) {
        if (slot_of_text(f->type, key, slot)) return -1;
        if (*slot >= 0) return 0;
        if (w->options->keep_unknown && PyUnicode_Compare(key, w->options->unknown_key) == 0) {
            f->unknown = value;
            return 0;
        }
        if (is_type_key(f, key)) return 0;
    }
    return w->options->ignore_unknown ? 0 : fail_key(w, f->type, key);
}

static int gather_dict(fb_object_writer *w, fb_object_frame *f, PyObject *dict) {
    fb_object_field *fields = f->type->fields, *expected = fields,
                    *end = fields + f->type->core.count;
    PyObject *key, *value;
    Py_ssize_t position = 0, slot;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (FB_UNLIKELY(expected == end || (key != expected->name && key != expected->alias))) {
            if (find_slot(w, f, key, value, &slot)) return -1;
            if (slot < 0) continue;
            expected = fields + slot;
        }
        f->values[expected++ - fields] = value;
    }
    return 0;
}

static int gather_tuple(fb_object_writer *w, fb_object_frame *f, PyObject *tuple) {
    Py_ssize_t count = (Py_ssize_t)f->type->declared;
    if (PyTuple_GET_SIZE(tuple) != count)
        return fb_object_fail(w, "a tuple of %zd, where there are %zd fields",
                              PyTuple_GET_SIZE(tuple), count);
    PyObject **items = ((PyTupleObject *)tuple)->ob_item;
    if (FB_LIKELY(f->type->declared == f->type->core.count)) f->values = items;
    else memcpy(f->values, items, f->type->declared * sizeof *items);
    return 0;
}

void fb_object_class_forget(fb_object_class *seen) {
    PyMem_Free(seen->offsets);
    *seen = (fb_object_class){0};
}

/* Return the offset of an attribute that instances store as a plain reference, as with __slots__
   and msgspec's Struct; otherwise 0. The class is searched with _PyType_Lookup. Reading the class
   attribute could run user code, which could write other objects in the meantime. */
static Py_ssize_t find_offset(PyTypeObject *class, PyObject *name) {
    PyObject *attribute = _PyType_Lookup(class, name);
    if (!attribute || !Py_IS_TYPE(attribute, &PyMemberDescr_Type)) return 0;
    PyMemberDescrObject *member = (PyMemberDescrObject *)attribute;
    bool plain =
        member->d_member->type == T_OBJECT_EX && PyType_IsSubtype(class, PyDescr_TYPE(member));
    return plain ? member->d_member->offset : 0;
}

/* Examine a class. A lookup compares names with the keys of the class, which may not be text. So it
   may run user code that examines other classes or changes this one. Therefore nothing is stored
   before the last lookup, and a class whose version changed is stored as unknown. */
static int learn_class(fb_object_type *type, PyTypeObject *class) {
    Py_ssize_t *offsets = PyMem_Calloc(type->core.count + 1, sizeof *offsets);
    unsigned version = 0;
    bool stored = true;
    if (!offsets) {
        PyErr_NoMemory();
        return -1;
    }
    if (class->tp_getattro == PyObject_GenericGetAttr && type->declared) {
        /* assigns a version to the class, if it can have one */
        find_offset(class, type->fields[0].name);
        version = class->tp_version_tag;
        for (size_t i = 0; i < type->declared; i++) {
            offsets[i] = find_offset(class, type->fields[i].name);
            stored = stored && offsets[i];
        }
    }
    if (version != class->tp_version_tag) version = 0;
    fb_object_class_forget(&type->seen);
    type->seen = (fb_object_class){class, version, offsets, version && stored};
    return 0;
}

/* Gather borrowed references. Returns false if an attribute must be read by name. */
static bool gather_slots(fb_object_frame *f) {
    const Py_ssize_t *offsets = f->type->seen.offsets;
    if (!f->type->seen.stored) return false;
    for (size_t i = 0; i < f->type->declared; i++) {
        PyObject *value = *(PyObject **)((char *)f->object + offsets[i]);
        if (FB_UNLIKELY(!value)) return false;
        f->values[i] = value;
    }
    return true;
}

static int gather_attributes(fb_object_writer *w, fb_object_frame *f) {
    fb_object_type *type = f->type;
    for (size_t i = 0; i < type->declared; i++) {
        f->values[i] = PyObject_GetAttr(f->object, type->fields[i].name);
        if (f->values[i]) continue;
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        f->place.field = type->fields + i;
        return fb_object_fail_because(w, "%.100s has no such attribute",
                                      Py_TYPE(f->object)->tp_name);
    }
    return 0;
}

/* Replace a mapping in the frame by a dict made of it, which the frame owns. */
static int gather_mapping(fb_object_writer *w, fb_object_frame *f, PyObject *dict) {
    Py_SETREF(f->object, dict);
    int result = gather_dict(w, f, dict);
    Py_XINCREF(f->unknown);
    for (size_t i = 0; i < f->type->core.count; i++) Py_XINCREF(f->values[i]);
    return result;
}

static bool is_plain(PyObject *value) {
    return PyList_Check(value) || PyUnicode_Check(value) || PyLong_Check(value) ||
           PyFloat_Check(value) || PyBytes_Check(value) || value == Py_None;
}

/* Refuse messages of google.protobuf: their attributes have values even for absent fields. */
static int refuse_message(fb_object_writer *w, PyTypeObject *class) {
    PyObject *name = PyUnicode_InternFromString("ListFields");
    bool found = name && _PyType_Lookup(class, name);
    Py_XDECREF(name);
    if (!found) return name ? 0 : -1;
    return fb_object_fail(w, "a message of google.protobuf, whose SerializeToString writes it, "
                             "where an object is expected");
}

/* Gather from an object that is not a dict or tuple, and not of the class seen last. */
static int gather_other(fb_object_writer *w, fb_object_frame *f) {
    PyObject *dict;
    fb_object_own(w);
    if (is_plain(f->object)) return fb_object_fail_type(w, f->object, "an object");
    if (fb_object_to_dict(f->object, &dict)) return -1;
    if (dict) return gather_mapping(w, f, dict);
    /* reading `keys` may have changed the class and freed the old one */
    PyTypeObject *class = Py_TYPE(f->object);
    if (!fb_object_class_is(&f->type->seen, class) &&
        (refuse_message(w, class) || learn_class(f->type, class)))
        return -1;
    return gather_attributes(w, f);
}

int fb_object_gather(fb_object_writer *w, fb_object_frame *f) {
    PyObject *object = f->object;
    if (FB_LIKELY(PyDict_CheckExact(object))) return gather_dict(w, f, object);
    if (PyTuple_CheckExact(object)) return gather_tuple(w, f, object);
    if (fb_object_class_is(&f->type->seen, Py_TYPE(object))) {
        if (FB_LIKELY(gather_slots(f))) return 0;
        memset(f->values, 0, f->type->core.count * sizeof *f->values);
    }
    return gather_other(w, f);
}
