/* Compiles the decoders for one emitter. A file that defines FB_EMITTER (fb_row, …) and includes decode.tmpl.h gets the
   function FB_EMITTER_decode; the contract is drawn up in message_row.h. There is no function pointer in a record's way. */
#ifndef FB_EMITTER_H
#define FB_EMITTER_H

/* A compiler or an editor that opens a decoder alone sees the emitter of messages. */
#ifndef FB_EMITTER
#include "core/emit/message_row.h"
#define FB_EMITTER fb_row
#endif

/* What the decoder is called. */
#ifndef FB_ENTRY
#define FB_ENTRY FB_EMIT(decode)
#endif

#define FB_PASTE_(a, b) a##_##b
#define FB_PASTE(a, b) FB_PASTE_(a, b)
#define FB_EMIT(verb) FB_PASTE(FB_EMITTER, verb)

typedef FB_EMITTER fb_emitter;
typedef FB_EMIT(cursor) fb_cursor;

#endif
