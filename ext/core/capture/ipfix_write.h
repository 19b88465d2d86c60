/* Writes IPFIX files (RFC 5655): rows, as messages of a schema, become IPFIX messages.

   A record has the elements of the columns that its row has. Each set of elements has a template,
   so an absent value differs from zero. At most FB_IPFIX_TEMPLATES templates are in use; then all
   are withdrawn from use, and new ids begin. Templates are repeated, so that the messages can be
   sent over UDP.

   Sequence numbers count data records (RFC 7011 section 3.1). The observation domain is 0. */
#ifndef FB_CAPTURE_IPFIX_WRITE_H
#define FB_CAPTURE_IPFIX_WRITE_H

#include "core/base/buffer.h"

#define FB_IPFIX_COLUMNS   128
#define FB_IPFIX_TEMPLATES 192
/* Size of a message, unless a single record needs more. */
#define FB_IPFIX_MESSAGE_SIZE 1400

typedef enum {
    FB_IPFIX_UNSIGNED,
    FB_IPFIX_SIGNED,
    FB_IPFIX_ZIGZAG,       /* a signed number, in the message as sint32 or sint64 */
    FB_IPFIX_BOOLEAN,      /* 1 is true, 2 is false */
    FB_IPFIX_FLOAT,        /* 4 or 8 bytes, in the message as well */
    FB_IPFIX_ADDRESS,      /* IPv4 as 4 bytes, IPv6 as 16 bytes under the second element */
    FB_IPFIX_SECONDS,      /* since 1970 */
    FB_IPFIX_MILLISECONDS, /* since 1970 */
    FB_IPFIX_NTP,          /* seconds since 1900 and a binary fraction */
    FB_IPFIX_OCTETS,       /* of variable length */
    FB_IPFIX_LIST          /* of numbers: a basicList (RFC 6313); one field for each member */
} fb_ipfix_kind;

/* A number of an enum, and the number of the element for it. */
typedef struct {
    uint64_t member, value;
} fb_ipfix_member;

typedef struct {
    uint32_t number; /* of the field in messages */
    fb_ipfix_kind kind;
    uint8_t size;         /* bytes of the element or member; 0 for strings, bytes and addresses */
    uint16_t elements[2]; /* for IPv4, or any flow, and for IPv6; 0: the flow has no such element */
    uint16_t member;      /* element of the members of a list; IANA */
    uint32_t enterprise;  /* 0: IANA */
    uint64_t unit;        /* of a time, in nanoseconds */
    const fb_ipfix_member *members; /* the writer keeps the pointer */
    size_t member_count;
} fb_ipfix_column;

typedef struct {
    const fb_ipfix_column *columns; /* in the order of numbers; the writer copies them */
    size_t count;
    uint32_t time_number; /* field with the export time; 0: `time` is used for all messages */
    uint64_t time_unit;   /* in nanoseconds */
    uint32_t time;        /* seconds since 1970 */
} fb_ipfix_options;

typedef struct fb_ipfix_writer fb_ipfix_writer;

/* Create a writer; free it with fb_ipfix_writer_free. `memory` must outlive it. OK, NO_MEMORY, or
   BAD_ARGUMENT for more than FB_IPFIX_COLUMNS columns. */
fb_status fb_ipfix_writer_new(fb_ipfix_writer **out, fb_memory *memory,
                              const fb_ipfix_options *options);
void fb_ipfix_writer_free(fb_ipfix_writer *writer);

/* Append the rows of a length-delimited stream of messages. Complete IPFIX messages are appended to
   `out`. OK: all rows were taken. BAD_MESSAGE or MORE_INPUT: the stream is malformed or cut short.
   NO_MEMORY: `out` cannot grow. */
fb_status fb_ipfix_writer_add(fb_ipfix_writer *writer, fb_bytes stream, fb_buffer *out);

/* Append the message that is not complete, if there is one. OK or NO_MEMORY. */
fb_status fb_ipfix_writer_finish(fb_ipfix_writer *writer, fb_buffer *out);

/* Values that their element cannot hold, and rows without any element. Both are left out. */
typedef struct {
    uint64_t values, rows;
} fb_ipfix_left_out;

fb_ipfix_left_out fb_ipfix_writer_get_left_out(const fb_ipfix_writer *writer);

#endif
