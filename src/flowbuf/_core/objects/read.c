/* From messages to Python objects. The values of a message are first collected by the slots of its
   fields, in any order. Then the object is made from them.

   A message field may come in several parts, which are merged. So it is read after the end of the
   outer message. */
#include "objects/quick.h"

enum { SMALL = 32, FEW = 8 };

/* The bytes of one occurrence of a message field, in input order. */
typedef struct part {
    fb_bytes bytes;
    struct part *next;
} part;

typedef struct {
    part first, *last; /* `last` is NULL if there are no parts */
} parts;

typedef struct {
    fb_object_where place; /* must be first: a place is cast to its frame */
    const fb_codec_output *output;
    PyObject **values;
    parts *pending;    /* single messages, by their index among those of the type */
    PyObject *unknown; /* a bytearray of the kept fields; NULL: none */
    fb_bytes inside;   /* of an Any: the message in it; data is NULL: none */
} frame;

typedef struct {
    const fb_codec_options *options;
    const uint8_t *begin; /* of the outermost message */
    size_t before;        /* bytes of the stream in front of it */
    size_t depth;
    Py_ssize_t index;
} reader;

static PyObject *read_object(reader *r, const fb_object_where *parent,
                             const fb_codec_output *output, const part *bytes);

/* Errors ------------------------------------------------------------------------------------- */

static PyObject *fail(reader *r, const fb_object_where *place, const uint8_t *where,
                      const char *problem) {
    if (PyErr_Occurred()) return NULL;
    PyObject *path = fb_object_path(place, r->index);
    PyObject *text = path ? PyUnicode_FromString(problem) : NULL;
    PyObject *offset = text ? PyLong_FromSize_t(r->before + (size_t)(where - r->begin)) : NULL;
    PyObject *error =
        offset ? PyObject_CallFunctionObjArgs(r->options->decode_error, text, path, offset, NULL)
               : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(path);
    Py_XDECREF(text);
    Py_XDECREF(offset);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *fail_depth(reader *r, const fb_object_where *place, const uint8_t *where) {
    return fail(r, place, where, "more than 100 messages inside each other");
}

/* Scalars ------------------------------------------------------------------------------------ */

static PyObject *new_text(reader *r, const fb_object_where *place, fb_bytes bytes) {
    PyObject *text = fb_quick_new_text(bytes.data, bytes.size);
    if (FB_LIKELY(text != NULL) || PyErr_Occurred()) return text;
    text = PyUnicode_DecodeUTF8((const char *)bytes.data, (Py_ssize_t)bytes.size, NULL);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        return fail(r, place, bytes.data, "a string that is not UTF-8");
    }
    return text;
}

static PyObject *new_member(PyObject *members, uint64_t value) {
    PyObject *number = PyLong_FromLongLong((int64_t)value);
    if (!members || !number) return number;
    PyObject *member = PyDict_GetItemWithError(members, number);
    /* an open enum may have other numbers */
    if (!member) return PyErr_Occurred() ? (Py_DECREF(number), NULL) : number;
    Py_DECREF(number);
    return Py_NewRef(member);
}

static PyObject *new_scalar(const fb_codec_field *field, const fb_codec_output *output,
                            uint64_t value) {
    double real;
    float narrow;
    uint32_t bits = (uint32_t)value;
    switch (field->type) {
        case FB_PROTO_BOOL: return PyBool_FromLong(value != 0);
        case FB_PROTO_ENUM: return new_member(output->members[field->slot], value);
        case FB_PROTO_DOUBLE: memcpy(&real, &value, 8); return PyFloat_FromDouble(real);
        case FB_PROTO_FLOAT: memcpy(&narrow, &bits, 4); return PyFloat_FromDouble((double)narrow);
        default: return fb_quick_new_int(field, value);
    }
}

/* Times -------------------------------------------------------------------------------------- */

static PyObject *new_time(reader *r, const fb_object_where *place, bool duration,
                          const part *bytes) {
    int64_t seconds = 0;
    int32_t nanoseconds = 0;
    const uint8_t *where = bytes->bytes.data;
    if (r->depth > FB_CODEC_DEPTH) return fail_depth(r, place, where);
    const char *problem = NULL;
    for (const part *rest = bytes; rest && !problem; rest = rest->next)
        problem = fb_codec_read_time(rest->bytes, r->depth, &seconds, &nanoseconds, &where);
    if (problem) return fail(r, place, where, problem);
    PyObject *time;
    if (r->options->from_time) {
        time = PyObject_CallFunction(r->options->from_time, "OLl", duration ? Py_True : Py_False,
                                     (long long)seconds, (long)nanoseconds);
        if (!time && PyErr_ExceptionMatches(PyExc_OverflowError)) PyErr_Clear();
    } else {
        time = fb_codec_time_new(duration, r->options->times_as_numbers, seconds, nanoseconds);
    }
    if (time || PyErr_Occurred()) return time;
    if (r->options->from_time) problem = "beyond the nanoseconds that 64 bits can count";
    else if (duration) problem = "a duration that no timedelta can hold";
    else problem = "a time that no datetime can hold";
    return fail(r, place, bytes->bytes.data, problem);
}

/* Fields ------------------------------------------------------------------------------------- */

/* Make the value of a message field whose parts are complete. */
static PyObject *new_message(reader *r, frame *f, const fb_object_field *of, size_t slot,
                             const part *bytes) {
    if (of->role == FB_VALUE_OBJECT)
        return read_object(r, &f->place, f->output->fields[slot], bytes);
    return new_time(r, &f->place, of->role == FB_VALUE_DURATION, bytes);
}

static PyObject *new_value(reader *r, frame *f, const fb_codec_field *field,
                           const fb_codec_item *item) {
    const fb_object_field *of = f->output->type->fields + field->slot;
    if (field->type == FB_PROTO_STRING) return new_text(r, &f->place, item->bytes);
    if (field->type == FB_PROTO_BYTES)
        return PyBytes_FromStringAndSize((const char *)item->bytes.data,
                                         (Py_ssize_t)item->bytes.size);
    if (of->role == FB_VALUE_SCALAR) return new_scalar(field, f->output, item->value);
    part whole = {item->bytes, NULL};
    return new_message(r, f, of, field->slot, &whole);
}

static bool is_message(const fb_codec_field *field) {
    return field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP;
}

/* A dict of chosen fields has no place for others. */
static bool keeps_unknown(const reader *r, const frame *f) {
    return r->options->keep_unknown && f->output->kind == FB_OUTPUT_DICT && !f->output->wanted;
}

static int keep_unknown(reader *r, frame *f, fb_bytes bytes) {
    if (!keeps_unknown(r, f)) return 0;
    if (!f->unknown) {
        f->unknown =
            PyByteArray_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.size);
        return f->unknown ? 0 : -1;
    }
    Py_ssize_t size = PyByteArray_GET_SIZE(f->unknown);
    if (PyByteArray_Resize(f->unknown, size + (Py_ssize_t)bytes.size)) return -1;
    memcpy(PyByteArray_AS_STRING(f->unknown) + size, bytes.data, bytes.size);
    return 0;
}

/* Keep a packed element as an unknown field of its own. Its number is not in its closed enum. */
static int keep_element(reader *r, frame *f, const fb_codec_field *field, uint64_t value) {
    uint8_t bytes[FB_CODEC_ROOM], *p = fb_codec_put_unpacked(bytes, field, value);
    return keep_unknown(r, f, (fb_bytes){bytes, (size_t)(p - bytes)});
}

static int append_new(PyObject *list, PyObject *value) {
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

static int add_packed(reader *r, frame *f, const fb_codec_field *field, PyObject *list,
                      fb_bytes elements) {
    uint64_t value;
    fb_status status;
    while ((status = fb_codec_next_element(field, &elements, &value)) == FB_OK) {
        int result = fb_codec_has_member(field, value)
                         ? append_new(list, new_scalar(field, f->output, value))
                         : keep_element(r, f, field, value);
        if (result) return -1;
    }
    if (status == FB_END) return 0;
    f->place.index = PyList_GET_SIZE(list);
    return fail(r, &f->place, elements.data, "a packed element that is cut short"), -1;
}

static int add_element(reader *r, frame *f, const fb_codec_item *item) {
    const fb_codec_field *field = item->field;
    PyObject **list = f->values + field->slot;
    if (!*list && !(*list = PyList_New(0))) return -1;
    f->place.index = PyList_GET_SIZE(*list);
    int result = item->packed ? add_packed(r, f, field, *list, item->bytes)
                              : append_new(*list, new_value(r, f, field, item));
    f->place.index = -1;
    return result;
}

/* True if an entry has no value, and its map has values that are made from messages. A class may
   return any object as a value, also None. */
static bool is_missing(const fb_codec_output *output, const PyObject *value) {
    return output->type->fields[1].role != FB_VALUE_SCALAR && value == output->absent[1];
}

/* Make the default value of an entry without one. `end` is the end of the entry. */
static PyObject *new_empty(reader *r, frame *f, const fb_codec_output *output, const uint8_t *end) {
    const part nothing = {{end, 0}, NULL};
    const fb_object_field *of = output->type->fields + 1;
    PyObject *value;
    r->depth--; /* no messages inside the default value */
    if (of->role == FB_VALUE_OBJECT) value = read_object(r, &f->place, output->fields[1], &nothing);
    else value = new_time(r, &f->place, of->role == FB_VALUE_DURATION, &nothing);
    r->depth++;
    return value;
}

static int keep_entry(reader *r, frame *f, const fb_codec_item *item) {
    uint8_t bytes[FB_CODEC_ROOM], *p = fb_codec_put_length(bytes, item->field, item->bytes.size);
    return keep_unknown(r, f, (fb_bytes){bytes, (size_t)(p - bytes)})
               ? -1
               : keep_unknown(r, f, item->bytes);
}

/* Add an entry of a map. It is a message with a key and a value, and its output makes a tuple. */
static int add_entry(reader *r, frame *f, const fb_codec_item *item) {
    PyObject **map = f->values + item->field->slot;
    const fb_codec_output *output = f->output->fields[item->field->slot];
    part whole = {item->bytes, NULL};
    if (!*map && !(*map = PyDict_New())) return -1;
    PyObject *entry = read_object(r, &f->place, output, &whole);
    if (!entry) return -1;
    if (FB_UNLIKELY(
            fb_codec_is_unknown_entry(&output->type->core, item->bytes, keeps_unknown(r, f)))) {
        Py_DECREF(entry);
        return keep_entry(r, f, item);
    }
    PyObject *value = PyTuple_GET_ITEM(entry, 1);
    value = is_missing(output, value) ? new_empty(r, f, output, item->bytes.data + item->bytes.size)
                                      : Py_NewRef(value);
    int result = value ? PyDict_SetItem(*map, PyTuple_GET_ITEM(entry, 0), value) : -1;
    Py_XDECREF(value);
    Py_DECREF(entry);
    return result;
}

static void drop_parts(parts *all) {
    for (part *each = all->last ? all->first.next : NULL, *next; each; each = next) {
        next = each->next;
        PyMem_Free(each);
    }
    all->last = NULL;
}

/* Read and discard a pending message. It must still be valid. */
static int drop_pending(reader *r, frame *f, size_t slot) {
    const fb_object_field *of = f->output->type->fields + slot, *after = f->place.field;
    size_t place = f->output->type->pending[slot];
    if (!place || !f->pending[place - 1].last) return 0;
    f->place.field = of;
    PyObject *message = new_message(r, f, of, slot, &f->pending[place - 1].first);
    if (!message) return -1;
    Py_DECREF(message);
    f->place.field = after;
    drop_parts(f->pending + place - 1);
    return 0;
}

/* Clear the other fields of a oneof: the last one read counts. */
static int clear_others(reader *r, frame *f, const fb_codec_field *field) {
    const fb_object_type *type = f->output->type;
    for (size_t i = 0; i < type->core.count; i++) {
        const fb_codec_field *other = type->core.fields + i;
        if (other == field || other->oneof != field->oneof) continue;
        Py_CLEAR(f->values[other->slot]);
        if (drop_pending(r, f, other->slot)) return -1;
    }
    return 0;
}

static int add_part(frame *f, const fb_codec_field *field, fb_bytes bytes) {
    parts *all = f->pending + f->output->type->pending[field->slot] - 1;
    if (FB_LIKELY(!all->last)) {
        all->first = (part){bytes, NULL};
        all->last = &all->first;
        return 0;
    }
    part *next = PyMem_Malloc(sizeof *next);
    if (!next) {
        PyErr_NoMemory();
        return -1;
    }
    *next = (part){bytes, NULL};
    all->last = all->last->next = next;
    return 0;
}

static int add_item(reader *r, frame *f, const fb_codec_item *item) {
    const fb_codec_field *field = item->field;
    if (FB_UNLIKELY(!field)) return keep_unknown(r, f, item->bytes);
    const fb_codec_output *output = f->output;
    const fb_object_field *of = output->type->fields + field->slot;
    if (FB_UNLIKELY(output->wanted && !output->wanted[field->slot]))
        return field->oneof ? clear_others(r, f, field) : 0;
    if (FB_UNLIKELY(output->type->plain == FB_PLAIN_ANY) && field->slot == FB_OF_MESSAGE) {
        f->inside = item->bytes;
        return 0;
    }
    f->place.field = of;
    if (field->repeated)
        return of->role == FB_VALUE_MAP ? add_entry(r, f, item) : add_element(r, f, item);
    if (FB_UNLIKELY(field->oneof) && clear_others(r, f, field)) return -1;
    if (is_message(field)) return add_part(f, field, item->bytes);
    PyObject *value = new_value(r, f, field, item);
    if (FB_UNLIKELY(!value)) return -1;
    Py_XSETREF(f->values[field->slot], value);
    return 0;
}

static PyObject *fail_field(reader *r, frame *f, const fb_codec_reader *fields) {
    const fb_codec_field *field;
    const char *problem = fb_codec_problem(fields, &field);
    f->place.field = field ? f->output->type->fields + field->slot : NULL;
    if (field && field->repeated && f->place.field->role != FB_VALUE_MAP) {
        PyObject *list = f->values[field->slot];
        f->place.index = list ? PyList_GET_SIZE(list) : 0;
    }
    return fail(r, &f->place, fields->p, problem);
}

static int read_fields(reader *r, frame *f, const part *bytes) {
    const fb_object_type *type = f->output->type;
    const part *first = bytes;
    fb_codec_reader fields;
    fb_codec_item item;
    for (; bytes; bytes = bytes->next) {
        fb_status status;
        fb_codec_reader_begin(&fields, &type->core, bytes->bytes);
        fields.depth = r->depth - 1;
        if (type->quick_count && bytes == first && !f->output->wanted &&
            fb_quick_read(&fields, type, f->values))
            return -1;
        while (FB_LIKELY((status = fb_codec_next(&fields, &item)) == FB_OK)) {
            if (FB_UNLIKELY(add_item(r, f, &item))) return -1;
        }
        if (FB_UNLIKELY(status != FB_END)) return fail_field(r, f, &fields), -1;
        f->place.field = NULL;
    }
    return 0;
}

/* Read the message fields that waited for the end of their message. */
static int read_pending(reader *r, frame *f) {
    const fb_object_type *type = f->output->type;
    for (size_t slot = 0; slot < type->core.count; slot++) {
        parts *all = type->pending[slot] ? f->pending + type->pending[slot] - 1 : NULL;
        if (!all || !all->last) continue;
        f->place.field = type->fields + slot;
        f->values[slot] = new_message(r, f, type->fields + slot, slot, &all->first);
        if (!f->values[slot]) return -1;
    }
    return 0;
}

/* Objects ------------------------------------------------------------------------------------ */

static PyObject *new_absent(const fb_codec_output *output, size_t slot) {
    if (FB_LIKELY(output->absent[slot] != NULL)) return Py_NewRef(output->absent[slot]);
    return output->type->fields[slot].role == FB_VALUE_MAP ? PyDict_New() : PyList_New(0);
}

static PyObject *make_dict(reader *r, frame *f) {
    const fb_object_type *type = f->output->type;
    const bool omit = r->options->omit_absent;
    /* a copy is faster than inserting the keys into a new dict */
    PyObject *dict = omit || f->output->wanted ? PyDict_New() : PyDict_Copy(type->blank);
    if (!dict) return NULL;
    for (size_t i = 0; i < type->core.count; i++) {
        if (omit && f->values[i] == Py_None) continue;
        if (FB_UNLIKELY(!f->values[i])) continue; /* an absent extension, or not wanted */
        if (PyDict_SetItem(dict, type->fields[i].name, f->values[i])) goto fail;
    }
    if (f->unknown) {
        PyObject *bytes = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(f->unknown),
                                                    PyByteArray_GET_SIZE(f->unknown));
        int result = bytes ? PyDict_SetItem(dict, r->options->unknown_key, bytes) : -1;
        Py_XDECREF(bytes);
        if (result) goto fail;
    }
    return dict;
fail:
    Py_DECREF(dict);
    return NULL;
}

static PyObject *make_tuple(frame *f) {
    size_t count = f->output->type->declared;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    if (!tuple) return NULL;
    for (size_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, f->values[i]);
        f->values[i] = NULL;
    }
    return tuple;
}

/* Call the class with the values that it takes. They are moved to the front. */
static PyObject *make_instance(frame *f) {
    const fb_codec_output *output = f->output;
    size_t count = output->type->core.count;
    if (output->wanted) {
        count = 0;
        for (size_t i = 0; i < output->type->core.count; i++) {
            if (!output->wanted[i]) continue;
            PyObject *value = f->values[i];
            f->values[i] = NULL;
            f->values[count++] = value;
        }
    }
    return PyObject_Vectorcall(output->make, f->values, output->keywords ? 0 : count,
                               output->keywords);
}

static PyObject *take(PyObject **value) {
    PyObject *taken = *value;
    *value = NULL;
    return taken;
}

/* Make the value of the message in an Any. *fields: it is a dict of fields. */
static PyObject *make_inside(reader *r, frame *f, bool *fields) {
    const part whole = {f->inside, NULL};
    size_t index;
    *fields = false;
    int known = f->values[FB_OF_URL]
                    ? fb_object_find_type(f->output->make, f->values[FB_OF_URL], &index)
                    : 0;
    if (known < 0) return NULL;
    if (!known)
        return PyBytes_FromStringAndSize((const char *)f->inside.data, (Py_ssize_t)f->inside.size);
    const fb_codec_output *output = f->output->all + index;
    switch (output->type->plain) {
        case FB_PLAIN_TIMESTAMP: return new_time(r, &f->place, false, &whole);
        case FB_PLAIN_DURATION: return new_time(r, &f->place, true, &whole);
        default: *fields = output->kind == FB_OUTPUT_DICT;
    }
    return read_object(r, &f->place, output, &whole);
}

static PyObject *make_any(reader *r, frame *f, const part *bytes) {
    PyObject *url = f->values[FB_OF_URL], *dict = PyDict_New();
    bool fields;
    if (!dict || (!url && !f->inside.data)) return dict;
    if (!f->inside.data) f->inside = (fb_bytes){bytes->bytes.data, 0};
    PyObject *type = url ? Py_NewRef(url) : PyUnicode_FromString("");
    PyObject *value = type ? make_inside(r, f, &fields) : NULL;
    int result = value ? PyDict_SetItem(dict, fb_object_type_key, type) : -1;
    if (!result)
        result =
            fields ? PyDict_Update(dict, value) : PyDict_SetItem(dict, fb_object_value_key, value);
    Py_XDECREF(value);
    Py_XDECREF(type);
    if (result) Py_CLEAR(dict);
    return dict;
}

static PyObject *make_plain(reader *r, frame *f, const part *bytes) {
    const fb_codec_output *output = f->output;
    switch (output->type->plain) {
        case FB_PLAIN_ANY: return make_any(r, f, bytes);
        case FB_PLAIN_VALUE:
            for (size_t i = FB_OF_NULL + 1; i < output->type->core.count; i++)
                if (f->values[i]) return take(f->values + i);
            return Py_NewRef(output->make);
        default: return f->values[0] ? take(f->values) : new_absent(output, 0);
    }
}

static PyObject *make_object(reader *r, frame *f, const part *bytes) {
    const fb_codec_output *output = f->output;
    if (FB_UNLIKELY(output->kind == FB_OUTPUT_PLAIN)) return make_plain(r, f, bytes);
    for (size_t i = 0; i < output->type->declared; i++) {
        if (f->values[i] || (output->wanted && !output->wanted[i])) continue;
        if (!(f->values[i] = new_absent(output, i))) return NULL;
    }
    if (output->kind == FB_OUTPUT_DICT) return make_dict(r, f);
    return output->kind == FB_OUTPUT_TUPLE ? make_tuple(f) : make_instance(f);
}

static PyObject *read_into(reader *r, frame *f, const part *bytes) {
    if (read_fields(r, f, bytes)) return NULL;
    if (f->output->type->pending_count && read_pending(r, f)) return NULL;
    f->place.field = NULL;
    return make_object(r, f, bytes);
}

static PyObject *read_object(reader *r, const fb_object_where *parent,
                             const fb_codec_output *output, const part *bytes) {
    PyObject *few_values[SMALL], *object = NULL;
    parts few_parts[FEW];
    size_t count = output->type->core.count, pending = output->type->pending_count;
    frame f = {.place = {.parent = parent, .index = -1}, .output = output};
    if (r->depth > FB_CODEC_DEPTH) return fail_depth(r, parent, bytes->bytes.data);
    f.values = count <= SMALL ? few_values : PyMem_Malloc(count * sizeof *f.values);
    f.pending = pending <= FEW ? few_parts : PyMem_Malloc(pending * sizeof *f.pending);
    if (f.values && f.pending) {
        memset(f.values, 0, count * sizeof *f.values);
        if (pending) memset(f.pending, 0, pending * sizeof *f.pending);
        r->depth++;
        object = read_into(r, &f, bytes);
        r->depth--;
        for (size_t i = 0; i < count; i++) Py_XDECREF(f.values[i]);
        Py_XDECREF(f.unknown);
        for (size_t i = 0; i < pending; i++) drop_parts(f.pending + i);
    } else {
        PyErr_NoMemory();
    }
    if (f.values != few_values) PyMem_Free(f.values);
    if (f.pending != few_parts) PyMem_Free(f.pending);
    return object;
}

PyObject *fb_object_read(const fb_codec_output *output, const fb_codec_options *options,
                         fb_bytes message, size_t before, Py_ssize_t index) {
    reader r = {.options = options, .begin = message.data, .before = before, .index = index};
    part whole = {message, NULL};
    return read_object(&r, NULL, output, &whole);
}
