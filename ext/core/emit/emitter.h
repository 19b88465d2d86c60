/* Compile the decoders for one emitter. A file that defines FB_EMITTER (fb_row, …) and includes
   decode.tmpl.h gets the function FB_EMITTER_decode. message_row.h defines the contract. Emitters
   are bound at compile time, so a record needs no call through a function pointer. */
#ifndef FB_EMIT_EMITTER_H
#define FB_EMIT_EMITTER_H

/* Default for compilers and editors that open a decoder file alone: the message emitter. */
#ifndef FB_EMITTER
#include "core/emit/message_row.h"
#define FB_EMITTER fb_row
#endif

/* Name of the decoder function. */
#ifndef FB_ENTRY
#define FB_ENTRY FB_EMIT(decode)
#endif

#define FB_PASTE_(a, b) a##_##b
#define FB_PASTE(a, b)  FB_PASTE_(a, b)
#define FB_EMIT(verb)   FB_PASTE(FB_EMITTER, verb)

typedef FB_EMITTER fb_emitter;
typedef FB_EMIT(cursor) fb_cursor;

#endif
