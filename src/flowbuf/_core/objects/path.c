/* The text of a place in an object, for error messages. */
#include "objects/objects.h"

static PyObject *joined(PyObject *path, PyObject *more) {
    PyObject *both = path && more ? PyUnicode_Concat(path, more) : NULL;
    Py_XDECREF(path);
    Py_XDECREF(more);
    return both;
}

PyObject *fb_object_show(PyObject *value) {
    PyObject *shown = PyObject_Repr(value);
    if (shown || !PyErr_ExceptionMatches(PyExc_Exception)) return shown;
    PyErr_Clear();
    return PyUnicode_FromFormat("<%.100s>", Py_TYPE(value)->tp_name);
}

static PyObject *key_of(PyObject *key) {
    PyObject *shown = fb_object_show(key),
             *text = shown ? PyUnicode_FromFormat("[%U]", shown) : NULL;
    Py_XDECREF(shown);
    return text;
}

PyObject *fb_object_path(const fb_object_where *place, Py_ssize_t index) {
    if (!place) return index < 0 ? PyUnicode_FromString("") : PyUnicode_FromFormat("[%zd]", index);
    PyObject *path = fb_object_path(place->parent, index);
    if (!path || !place->field) return path;
    if (!place->field->hidden) {
        const char *format = PyUnicode_GET_LENGTH(path) ? ".%U" : "%U";
        path = joined(path, PyUnicode_FromFormat(format, place->field->name));
    }
    if (place->key) return joined(path, key_of(place->key));
    return place->index < 0 ? path : joined(path, PyUnicode_FromFormat("[%zd]", place->index));
}
