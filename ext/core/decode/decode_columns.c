/* The decoders compiled for columns and any processor, and the choice between the two column
   variants. */
#include "core/emit/columns.h"

#define FB_EMITTER fb_columns
#define FB_BY_COLUMN
#define FB_ENTRY fb_columns_decode_any
#include "core/decode/decode.tmpl.h"

#ifdef FB_NEWER_PROCESSORS
/* decode_columns_avx512.c */
fb_status fb_columns_decode_avx512(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                                   fb_position *position, fb_columns *columns);
#endif

fb_status fb_columns_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                            fb_position *position, fb_columns *columns) {
#ifdef FB_NEWER_PROCESSORS
    if (decoder->processor == FB_PROCESSOR_AVX512)
        return fb_columns_decode_avx512(decoder, datagrams, count, position, columns);
#endif
    return fb_columns_decode_any(decoder, datagrams, count, position, columns);
}
