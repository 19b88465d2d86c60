# The functions and types of the C core that the binding uses. The headers in ext/ hold the contracts.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "core/base/base.h" nogil:
    uint64_t FB_TIME_MAX
    ctypedef enum fb_status:
        FB_OK
        FB_END
        FB_NO_SPACE
        FB_MORE_INPUT
        FB_UNSUPPORTED_VERSION
        FB_BAD_HEADER
        FB_NO_MEMORY
        FB_BAD_ARGUMENT
        FB_BAD_SOURCE
        FB_RATE_LIMITED
        FB_BAD_MESSAGE
        FB_TEMPLATE_LIMIT
        FB_STATUS_COUNT
    ctypedef enum fb_status_class:
        pass
    const char *fb_status_name(fb_status status)
    const char *fb_status_text(fb_status status)
    fb_status_class fb_status_get_class(fb_status status)
    ctypedef struct fb_bytes:
        const uint8_t *data
        size_t size
    ctypedef struct fb_memory:
        size_t used
        size_t limit
    fb_memory fb_memory_system(size_t limit)
    ctypedef enum fb_processor:
        FB_PROCESSOR_ANY
    fb_processor fb_processor_find()
    void fb_store_address(uint8_t *p, const uint8_t *data, size_t size)

cdef extern from "core/base/buffer.h" nogil:
    ctypedef struct fb_buffer:
        uint8_t *begin
        uint8_t *p
        uint8_t *end
    size_t fb_grown_capacity(size_t capacity, size_t used, size_t more)
    fb_status fb_buffer_grow(fb_buffer *buffer, size_t more)
    fb_status fb_buffer_reserve(fb_buffer *buffer, size_t size)
    size_t fb_buffer_size(const fb_buffer *buffer)
    void fb_buffer_free(fb_buffer *buffer)

cdef extern from "core/base/block_cache.h" nogil:
    ctypedef struct fb_block_cache:
        pass
    fb_memory fb_memory_cached(fb_block_cache *cache, size_t limit)

cdef extern from "core/wire/wire.h" nogil:
    enum:
        FB_VARINT_MAX
        FB_NUMBER_MAX
    ctypedef enum fb_wire_type:
        FB_WIRE_BYTES
    uint8_t *fb_wire_put_varint(uint8_t *p, uint64_t value)
    size_t fb_wire_varint_size(uint64_t value)
    uint8_t *fb_wire_put_fixed32(uint8_t *p, uint32_t value)
    uint8_t *fb_wire_put_fixed64(uint8_t *p, uint64_t value)
    uint64_t fb_wire_zigzag(int64_t value)
    int64_t fb_wire_unzigzag(uint64_t value)
    uint64_t fb_wire_tag(uint32_t number, fb_wire_type type)
    const uint8_t *fb_wire_read_varint(const uint8_t *p, const uint8_t *end, uint64_t *value)

cdef extern from "core/plan/source.h" nogil:
    ctypedef enum fb_kind:
        FB_KIND_COUNT
    ctypedef enum fb_source:
        FB_SOURCE_COUNT
    enum:
        FB_SOURCE_FIRST_OF_COUNTERS
        FB_SOURCE_LAST_OF_COUNTERS
        FB_SOURCE_FIRST_NAME
        FB_SOURCE_LAST_NAME
    ctypedef enum fb_scope:
        FB_SCOPE_TEMPLATE
    ctypedef enum fb_name_kind:
        FB_NAME_KINDS
    const char *fb_name_kind_name(fb_name_kind kind)

cdef extern from "core/plan/plan.h" nogil:
    enum:
        FB_MAX_COLUMNS
        FB_MAX_RANK
        FB_NO_COLUMN
    uint64_t FB_PEN_NETFLOW9
    uint64_t FB_PEN_NETFLOW5
    uint64_t FB_PEN_SCOPE
    uint16_t FB_LAST_OCCURRENCE
    ctypedef enum fb_type:
        FB_TYPE_UINT
        FB_TYPE_ENUM
        FB_TYPE_INT
        FB_TYPE_SINT
        FB_TYPE_BOOL
        FB_TYPE_FLOAT
        FB_TYPE_DOUBLE
        FB_TYPE_FIXED32
        FB_TYPE_FIXED64
        FB_TYPE_STRING
        FB_TYPE_BYTES
        FB_TYPE_IP
        FB_TYPE_TIMESTAMP
        FB_TYPE_DURATION
    enum:
        FB_COLUMN_ENABLED
        FB_COLUMN_REPEATED
        FB_COLUMN_EXPLICIT
        FB_COLUMN_LATE
        FB_COLUMN_NATIVE_IP
        FB_COLUMN_DEFERRED
        FB_COLUMN_UNORDERED
        FB_COLUMN_SCALED
        FB_COLUMN_RATE
        FB_COLUMN_ONE_DIRECTION
        FB_COLUMN_ZERO
    ctypedef struct fb_mapping:
        uint32_t from_ "from"
        uint32_t to
    ctypedef struct fb_column:
        uint64_t limit
        uint32_t number
        uint8_t type
        uint8_t wire
        uint16_t flags
    ctypedef struct fb_target:
        uint16_t column
        uint8_t rank
        uint8_t kind
    ctypedef enum fb_rows:
        FB_ROWS_FLOWS
        FB_ROWS_COUNTERS
        FB_ROWS_OPTIONS
        FB_ROWS_COUNT
    ctypedef struct fb_plan:
        fb_rows rows
        fb_column *columns
        size_t column_count
        size_t max_fixed_size
        size_t max_size_per_byte
    ctypedef struct fb_column_spec:
        uint32_t number
        fb_type type
        unsigned flags
        uint64_t limit
        uint64_t unit
        const fb_mapping *mappings
        size_t mappings_size
    fb_status fb_plan_new(fb_plan **plan, fb_memory *memory)
    fb_status fb_plan_set_rows(fb_plan *plan, fb_rows rows)
    void fb_plan_free(fb_plan *plan)
    fb_status fb_plan_add_column(fb_plan *plan, const fb_column_spec *spec)
    fb_status fb_plan_add_source(fb_plan *plan, uint16_t column, unsigned rank, fb_source source)
    fb_status fb_plan_add_element(fb_plan *plan, uint16_t column, unsigned rank, uint64_t pen, uint32_t id,
                                  uint16_t occurrence,
                                  fb_kind kind)
    fb_status fb_plan_set_replacement(fb_plan *plan)
    fb_status fb_plan_set_mirror(fb_plan *plan, uint16_t column, uint16_t mirror)
    fb_status fb_plan_set_registry(fb_plan *plan, const uint8_t *kinds, size_t count)
    fb_status fb_plan_seal(fb_plan *plan)
    bint fb_kind_fits(fb_kind kind, fb_type type)
    const char *fb_source_name(fb_source source)
    const char *fb_kind_name(fb_kind kind)
    const char *fb_scope_name(fb_scope scope)
    size_t fb_netflow5_field_count()
    const char *fb_netflow5_field_name(size_t index)
    fb_kind fb_netflow5_field_kind(size_t index)

cdef extern from "core/emit/deferred_values.h" nogil:
    ctypedef enum fb_deferred_state:
        FB_DEFERRED_UINT
        FB_DEFERRED_INT
        FB_DEFERRED_REAL
        FB_DEFERRED_BYTES
    ctypedef struct fb_deferred_values:
        pass
    fb_status fb_deferred_values_override(fb_deferred_values *deferred, uint16_t column,
                                          fb_deferred_state state, uint64_t number, fb_bytes content)
    void fb_deferred_values_clear_overrides(fb_deferred_values *deferred)

cdef extern from "core/emit/message_row.h" nogil:
    ctypedef struct fb_row_cursor:
        pass
    ctypedef struct fb_row:
        uint64_t count
        size_t needed
        fb_deferred_values deferred
        fb_row **others
    fb_status fb_row_new(fb_row *row, const fb_plan *plan, fb_memory *memory)
    void fb_row_free(fb_row *row)
    void fb_row_set_output(fb_row *row, uint8_t *data, size_t capacity, size_t used)
    size_t fb_row_size(const fb_row *row)
    void fb_row_begin_constants(fb_row *row, fb_row_cursor *at)
    void fb_row_end_constants(fb_row *row, fb_row_cursor at)
    bint fb_row_begin(fb_row *row, size_t max_size, fb_row_cursor *at)
    void fb_row_put_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value)
    void fb_row_repeat_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value)
    void fb_row_put_int(fb_row *row, fb_row_cursor *at, fb_target target, int64_t value)
    void fb_row_put_real(fb_row *row, fb_row_cursor *at, fb_target target, double value)
    void fb_row_put_bytes(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size)
    void fb_row_put_ip(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size)
    void fb_row_finish(fb_row *row, fb_row_cursor at)

cdef extern from "core/base/prefix_table.h" nogil:
    ctypedef struct fb_prefix:
        uint8_t *address
        uint8_t bits
    ctypedef struct fb_prefix_table:
        pass
    fb_status fb_prefix_table_new(fb_prefix_table *table, const fb_prefix *prefixes, size_t count,
                                  uint32_t *outer, fb_memory *memory)
    void fb_prefix_table_free(fb_prefix_table *table)
    uint32_t fb_prefix_table_find(const fb_prefix_table *table, const uint8_t *address)

cdef extern from "core/base/key_table.h" nogil:
    ctypedef struct fb_key_table:
        fb_memory *memory
        uint64_t seed
        size_t size
        uint8_t *keys
        uint32_t count
    fb_status fb_key_table_get_many(fb_key_table *table, const void *keys, size_t count, uint32_t *indexes)
    const uint8_t *fb_key_table_key(const fb_key_table *table, uint32_t index)
    void fb_key_table_free(fb_key_table *table)

cdef extern from "core/exporter/sampling_rules.h" nogil:
    ctypedef struct fb_sampling_rule:
        uint32_t network
        uint32_t interface
        uint64_t rate
        bint replaces

cdef extern from "core/base/address_format.h" nogil:
    enum:
        FB_FORMAT_ADDRESS_MAX
    char *fb_format_address(char *p, const uint8_t *address)

cdef extern from "core/arrow/arrow.h" nogil:
    struct ArrowSchema:
        const char *format
        const char *name
        int64_t n_children
        ArrowSchema **children
        void (*release)(ArrowSchema *) noexcept
    struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray *) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept
        void *private_data
    ctypedef struct fb_member:
        fb_bytes name
        uint32_t number
    ctypedef struct fb_field_type:
        const char *name
        const char *format
        const char *extension
        bint nullable
        bint listed
        bint dictionary
    fb_status fb_schema_export(const fb_field_type *fields, size_t count, fb_memory memory,
                               ArrowSchema *schema)

cdef extern from "core/emit/batch.h" nogil:
    ctypedef struct fb_batch:
        size_t rows
        size_t capacity
    fb_status fb_batch_new(fb_batch **batch, const fb_plan *plan, size_t capacity, fb_memory memory)
    void fb_batch_free(fb_batch *batch)
    fb_status fb_batch_grow(fb_batch **batch, const fb_plan *plan, size_t capacity)

cdef extern from "core/arrow/arrow_table.h" nogil:
    ctypedef struct fb_table_field:
        uint16_t column
        bint nullable
        bint text
        const fb_member *members
        size_t member_count
    ctypedef struct fb_table:
        pass
    fb_status fb_table_new(fb_table **table, const fb_plan *plan, fb_batch *batch,
                           const fb_table_field *fields, size_t count)
    fb_status fb_table_view(fb_table **table, const fb_plan *plan, fb_table *base,
                            const fb_table_field *fields, size_t count)
    fb_status fb_table_take(fb_table **table, const fb_plan *plan, const fb_table *base, const uint64_t *rows,
                            size_t row_count, const fb_table_field *fields, size_t count)
    void fb_table_release(fb_table *table)
    size_t fb_table_rows(const fb_table *table)
    size_t fb_table_size(const fb_table *table)
    fb_status fb_table_export(fb_table *table, ArrowArray *array)

cdef extern from "core/emit/columns.h" nogil:
    ctypedef struct fb_columns:
        uint64_t count
        fb_deferred_values deferred
        fb_columns **others
    fb_status fb_columns_new(fb_columns *columns, const fb_plan *plan, fb_memory *memory)
    void fb_columns_free(fb_columns *columns)
    void fb_columns_set_batch(fb_columns *columns, fb_batch *batch)

cdef extern from "core/base/datagram.h" nogil:
    ctypedef struct fb_datagram:
        uint64_t time
        uint8_t source[16]
        uint16_t source_port
        uint16_t destination_port
        fb_bytes payload

cdef extern from "core/exporter/template.h" nogil:
    ctypedef struct fb_field:
        uint32_t pen
        uint16_t id
        uint16_t size
    ctypedef struct fb_compiled_template:
        uint16_t field_count
        uint16_t scope_count
        bint options
        fb_field *fields
    ctypedef struct fb_compiled_templates:
        size_t count

cdef extern from "core/exporter/sequence.h" nogil:
    ctypedef enum fb_sequence_unit:
        pass
    ctypedef struct fb_sequence_totals:
        uint64_t expected
        uint64_t lost
        uint64_t late
        uint64_t restarts
    ctypedef struct fb_sequences:
        fb_sequence_unit unit
        fb_sequence_totals totals
    enum:
        FB_SEQUENCE_UNITS
    ctypedef struct fb_lost:
        uint64_t *units
        unsigned char *counted
    ctypedef struct fb_samples:
        fb_sequence_totals totals

cdef extern from "core/exporter/exporter.h" nogil:
    uint64_t FB_SYSTEM_INIT_MAX
    uint64_t FB_AGENT_SESSION
    uint64_t FB_AGENT_SFLOW
    enum:
        FB_DOMAIN_SFLOW
        FB_MAX_SELECTORS
    ctypedef struct fb_map_entry:
        uint64_t key
        uint64_t number
        void *pointer
    ctypedef struct fb_map:
        fb_map_entry *entries
        uint16_t *order
        uint32_t count
    ctypedef struct fb_counters:
        uint64_t datagrams
        uint64_t bytes
        uint64_t *rows
        uint64_t options_records
        uint64_t templates
        uint64_t *status
    ctypedef struct fb_template:
        fb_compiled_template *compiled
        uint64_t time
        uint16_t id
        uint16_t port
        bint contested
    ctypedef struct fb_definition:
        const fb_field *fields
        uint16_t field_count
        uint16_t scope_count
        uint16_t id
        bint options
        uint16_t port
        uint64_t time
    ctypedef struct fb_name_id:
        uint64_t high
        uint64_t low
    ctypedef struct fb_name:
        fb_name *newer
        fb_name_id id
        uint64_t speed
        uint8_t kind
        uint8_t size
        uint8_t *text
    ctypedef struct fb_names:
        fb_name *oldest
    ctypedef struct fb_selection:
        uint64_t *ids
        uint16_t count
    ctypedef struct fb_domain:
        uint16_t version
        uint16_t port
        bint split
        uint32_t id
        fb_domain *common
        fb_template *templates
        uint16_t *template_order
        uint32_t template_count
        fb_map samplers
        fb_map selections
        uint64_t system_init
        fb_sequences sequences
        fb_samples samples
        fb_names names
    ctypedef struct fb_pending_list:
        size_t sets
        size_t bytes
    ctypedef struct fb_exporter:
        uint8_t *address
        uint64_t agent
        fb_domain *latest
        fb_map domains
        fb_pending_list pending
        fb_counters counters
    ctypedef struct fb_exporters:
        size_t capacity
        size_t count
        fb_lost lost
        fb_exporter overflow
    void fb_exporter_sum_lost(const fb_exporter *exporter, fb_lost *lost)
    fb_exporter *fb_exporters_restore(fb_exporters *exporters, const uint8_t *address, uint64_t agent)
    void fb_exporters_end_session(fb_exporters *exporters, const uint8_t *address, uint32_t session)
    fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i)
    fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version,
                                     uint32_t id, fb_domain **domain)
    fb_domain *fb_domain_of_port(fb_exporters *exporters, fb_exporter *exporter, fb_domain *common,
                                 uint16_t port)
    fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                                     const fb_definition *definition)
    fb_template *fb_domain_find_template(fb_domain *domain, uint16_t id)
    void fb_domain_set_name(const fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                            fb_name_kind kind, fb_name_id id, fb_bytes text, uint64_t speed)
    fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler, uint64_t rate)
    fb_status fb_domain_set_selection(fb_exporter *exporter, fb_domain *domain, uint64_t sequence,
                                      const fb_selection *selection)

cdef extern from "core/exporter/context.h" nogil:
    ctypedef struct fb_fault:
        fb_status status
        size_t datagram
        size_t offset
        uint8_t *exporter

cdef extern from "core/packet/packet.h" nogil:
    ctypedef enum fb_tunnel:
        FB_TUNNEL_COUNT
    const char *fb_tunnel_name(fb_tunnel tunnel)

cdef extern from "core/decode/ipfix_stream.h" nogil:
    enum:
        FB_IPFIX_HEADER_SIZE
    fb_status fb_ipfix_stream_next(fb_bytes *stream, fb_bytes *message)

cdef extern from "core/exporter/pending_state.h" nogil:
    int FB_PENDING_FORM_VERSION
    size_t fb_pending_form_size(const fb_exporter *exporter)
    void fb_pending_write(const fb_exporter *exporter, uint8_t *out)
    fb_status fb_pending_check(fb_bytes form)
    void fb_pending_restore(fb_exporters *exporters, const uint8_t *address, uint64_t agent, fb_bytes form)

cdef extern from "core/decode/decode.h" nogil:
    ctypedef struct fb_decoder_options:
        size_t exporter_limit
        uint64_t default_sampling_rate
        uint64_t hash_seed
        size_t early_data_limit
        size_t early_data_total
        uint64_t template_expiry
        bint obey_withdrawals
        uint64_t rate_limit
        fb_processor processor
        unsigned decapsulate
    ctypedef struct fb_row_kind:
        uint64_t *left_out
    ctypedef struct fb_decoder:
        fb_row_kind *kinds
        fb_rows full
        fb_compiled_templates compiled_templates
        fb_exporters exporters
        fb_counters other
        uint8_t *undecoded
        fb_fault fault
        bint expect_flows
        uint64_t agent
    ctypedef struct fb_position:
        size_t datagram
        size_t set
        size_t record
    fb_status fb_decoder_new(fb_decoder **decoder, const fb_plan *plan, fb_decoder_options options,
                             fb_memory *memory)
    void fb_decoder_free(fb_decoder *decoder)
    fb_status fb_decoder_add_rows(fb_decoder *decoder, const fb_plan *plan)
    fb_status fb_decoder_set_sampling(fb_decoder *decoder, const fb_prefix *networks, size_t network_count,
                                      const fb_sampling_rule *rules, size_t rule_count)
    void fb_decoder_finish(fb_decoder *decoder)
    void fb_decoder_hand_over(fb_decoder *decoder)
    void fb_datagram_get_exporter(const fb_datagram *datagram, uint8_t *address)
    fb_status fb_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                            fb_position *position, fb_row *row)
    fb_status fb_columns_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                                fb_position *position,
                                fb_columns *columns)

cdef extern from "core/wire/message_reader.h" nogil:
    ctypedef struct fb_message_field:
        uint32_t number
        fb_wire_type wire
        uint64_t value
        fb_bytes bytes
    const uint8_t *fb_message_read_value(const uint8_t *p, const uint8_t *end, fb_message_field *field)
    fb_status fb_message_next(fb_bytes *rest, fb_message_field *field)
    fb_status fb_stream_next(fb_bytes *rest, fb_bytes *message)
    uint64_t fb_stream_length(fb_bytes stream)
    size_t fb_stream_cut(fb_bytes stream, size_t limit, size_t *count)
    ctypedef struct fb_conversation:
        uint32_t src_addr
        uint32_t dst_addr
        uint32_t src_port
        uint32_t dst_port
        uint32_t proto
    uint64_t fb_message_hash_conversation(fb_bytes message, const fb_conversation *numbers)

cdef extern from "generate/generate.h" nogil:
    ctypedef enum fb_generator_protocol:
        FB_GENERATOR_PROTOCOL_COUNT
    ctypedef struct fb_generator_options:
        fb_generator_protocol protocol
        uint64_t flows
        uint64_t seed
        uint32_t exporters
        uint32_t sampling_rate
        uint64_t start
        uint64_t flows_per_second
        uint32_t mtu
        uint32_t template_refresh
    ctypedef struct fb_generator:
        pass
    fb_generator_protocol fb_generator_find_protocol(const char *name)
    const char *fb_generator_options_fault(const fb_generator_options *options)
    fb_status fb_generator_new(fb_memory *memory, const fb_generator_options *options,
                               fb_generator **generator)
    void fb_generator_free(fb_generator *generator)
    fb_status fb_generator_next(fb_generator *generator, uint8_t *buffer, size_t capacity, size_t *size)
    uint64_t fb_generator_flows_written(const fb_generator *generator)

cdef extern from "core/codec/codec.h" nogil:
    ctypedef struct fb_codec_message
    ctypedef struct fb_codec_field:
        uint32_t number
        uint8_t type
        bint repeated
        bint packed
        bint presence
        bint required
        uint16_t slot
        uint16_t oneof
        int64_t least
        uint64_t most
        const int32_t *members
        size_t member_count
        const fb_codec_message *message
    ctypedef struct fb_codec_message:
        fb_codec_field *fields
        size_t count
    int FB_PROTO_COUNT
    const char *fb_proto_name(int kind)
    fb_status fb_codec_field_finish(fb_codec_field *field)
    fb_status fb_codec_message_finish(fb_codec_message *message, uint16_t *places, size_t place_count)

cdef extern from "core/codec/codec_write.h" nogil:
    enum:
        FB_CODEC_ROOM
    uint8_t *fb_codec_begin_length(uint8_t *p)
    uint8_t *fb_codec_end_length(uint8_t *begin, uint8_t *p)
