/* Export of schemas through the Arrow C Data Interface. One allocation holds the texts of a
   field. */
#include "core/arrow/arrow.h"

typedef struct {
    fb_memory memory;
    size_t size;
    struct ArrowSchema **children, *schemas;
    char text[]; /* format, name, metadata */
} schema_node;

static void release_schema(struct ArrowSchema *schema) {
    schema_node *node = schema->private_data;
    fb_memory memory = node->memory;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    if (schema->dictionary && schema->dictionary->release)
        schema->dictionary->release(schema->dictionary);
    fb_memory_release(&memory, node, node->size);
    schema->release = NULL;
}

static char *put_string(char **p, const char *text) {
    char *begin = *p;
    size_t size = strlen(text) + 1;
    memcpy(begin, text, size);
    *p += size;
    return begin;
}

/* The metadata of an extension type in the packed form of the specification: the number of pairs,
   then the length and bytes of each text. The empty parameters are included, because pyarrow 15 and
   16 abort the process without them. */
static const char name_key[] = "ARROW:extension:name",
                  parameters_key[] = "ARROW:extension:metadata";

static size_t metadata_size(const char *extension) {
    return extension ? 5 * sizeof(int32_t) + sizeof name_key - 1 + strlen(extension) +
                           sizeof parameters_key - 1
                     : 0;
}

static char *put_sized(char *p, const char *text) {
    int32_t size = (int32_t)strlen(text);
    memcpy(p, &size, 4);
    memcpy(p + 4, text, (size_t)size);
    return p + 4 + size;
}

static char *put_metadata(char *p, const char *extension) {
    const int32_t pairs = 2;
    char *begin = p;
    memcpy(p, &pairs, 4);
    p = put_sized(put_sized(p + 4, name_key), extension);
    put_sized(put_sized(p, parameters_key), "");
    return begin;
}

static bool new_schema(fb_memory memory, const char *format, const char *name,
                       const char *extension, size_t children, struct ArrowSchema *schema) {
    size_t parts = (children + 1) * (sizeof(struct ArrowSchema) + sizeof(struct ArrowSchema *));
    size_t text = (strlen(format) + strlen(name) + 2 + metadata_size(extension) + 7) / 8 * 8;
    size_t size = sizeof(schema_node) + text + parts;
    memory.used = 0;
    schema_node *node = fb_memory_allocate(&memory, size);
    if (!node) return false;
    node->memory = memory;
    node->size = size;
    node->schemas = (struct ArrowSchema *)(void *)((uint8_t *)(node + 1) + text);
    node->children = (struct ArrowSchema **)(node->schemas + children + 1);
    for (size_t i = 0; i < children; i++) node->children[i] = &node->schemas[i];
    char *p = node->text;
    *schema = (struct ArrowSchema){.children = children ? node->children : NULL,
                                   .release = release_schema,
                                   .private_data = node};
    schema->format = put_string(&p, format);
    schema->name = put_string(&p, name);
    schema->metadata = extension ? put_metadata(p, extension) : NULL;
    return true;
}

/* Make the values of a schema without children texts of a dictionary. */
static bool add_dictionary(fb_memory memory, struct ArrowSchema *schema) {
    struct ArrowSchema *names = ((schema_node *)schema->private_data)->schemas;
    if (!new_schema(memory, "u", "", NULL, 0, names)) return false;
    schema->dictionary = names;
    return true;
}

static bool export_value_type(const fb_field_type *field, const char *name, fb_memory memory,
                              struct ArrowSchema *schema) {
    if (!new_schema(memory, field->format, name, field->extension, 0, schema)) return false;
    schema->flags = field->nullable && !field->listed ? ARROW_FLAG_NULLABLE : 0;
    return !field->dictionary || add_dictionary(memory, schema);
}

static bool export_field_type(const fb_field_type *field, fb_memory memory,
                              struct ArrowSchema *schema) {
    if (!field->listed) return export_value_type(field, field->name, memory, schema);
    if (!new_schema(memory, "+l", field->name, NULL, 1, schema)) return false;
    schema->n_children = 1;
    return export_value_type(field, "item", memory, schema->children[0]);
}

fb_status fb_schema_export(const fb_field_type *fields, size_t count, fb_memory memory,
                           struct ArrowSchema *out) {
    struct ArrowSchema schema;
    if (!new_schema(memory, "+s", "", NULL, count, &schema)) return FB_NO_MEMORY;
    schema.n_children = (int64_t)count;
    for (size_t i = 0; i < count; i++)
        if (!export_field_type(&fields[i], memory, schema.children[i])) {
            schema.release(&schema);
            return FB_NO_MEMORY;
        }
    *out = schema;
    return FB_OK;
}

static bool export_tree(const fb_tree_type **next, fb_memory memory, struct ArrowSchema *schema) {
    const fb_tree_type *type = (*next)++;
    if (!new_schema(memory, type->format, type->name, NULL, type->child_count, schema))
        return false;
    schema->flags = type->nullable ? ARROW_FLAG_NULLABLE : 0;
    schema->n_children = (int64_t)type->child_count;
    for (size_t i = 0; i < type->child_count; i++)
        if (!export_tree(next, memory, schema->children[i])) return false;
    return !type->dictionary || add_dictionary(memory, schema);
}

fb_status fb_schema_export_tree(const fb_tree_type *types, fb_memory memory,
                                struct ArrowSchema *out) {
    struct ArrowSchema schema = {.release = NULL};
    if (!export_tree(&types, memory, &schema)) {
        if (schema.release) schema.release(&schema);
        return FB_NO_MEMORY;
    }
    *out = schema;
    return FB_OK;
}
