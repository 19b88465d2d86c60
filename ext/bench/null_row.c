/* The decoders compiled for the emitter that writes nothing. The choice between the three variants
   is as in decode_messages.c. */
#include "bench/null_row.h"

#define FB_EMITTER null_row
#define FB_ENTRY   null_row_decode_any
#include "core/decode/decode.tmpl.h"

#ifdef FB_NEWER_PROCESSORS
/* null_row_bmi2.c and null_row_avx512.c */
fb_status null_row_decode_bmi2(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                               fb_position *position, null_row *row);
fb_status null_row_decode_avx512(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                                 fb_position *position, null_row *row);
#endif

fb_status null_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                          fb_position *position, null_row *row) {
#ifdef FB_NEWER_PROCESSORS
    if (decoder->processor == FB_PROCESSOR_AVX512)
        return null_row_decode_avx512(decoder, datagrams, count, position, row);
    if (decoder->processor == FB_PROCESSOR_BMI2)
        return null_row_decode_bmi2(decoder, datagrams, count, position, row);
#endif
    return null_row_decode_any(decoder, datagrams, count, position, row);
}
