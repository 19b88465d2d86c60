/* The decoders compiled for Protocol Buffers messages and any processor, and the choice between the
   three variants. */
#include "core/emit/message_row.h"

#define FB_EMITTER fb_row
#define FB_ENTRY   fb_row_decode_any
#include "core/decode/decode.tmpl.h"

#ifdef FB_NEWER_PROCESSORS
/* decode_messages_bmi2.c and decode_messages_avx512.c */
fb_status fb_row_decode_bmi2(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                             fb_position *position, fb_row *row);
fb_status fb_row_decode_avx512(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                               fb_position *position, fb_row *row);
#endif

fb_status fb_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                        fb_position *position, fb_row *row) {
#ifdef FB_NEWER_PROCESSORS
    if (decoder->processor == FB_PROCESSOR_AVX512)
        return fb_row_decode_avx512(decoder, datagrams, count, position, row);
    if (decoder->processor == FB_PROCESSOR_BMI2)
        return fb_row_decode_bmi2(decoder, datagrams, count, position, row);
#endif
    return fb_row_decode_any(decoder, datagrams, count, position, row);
}
