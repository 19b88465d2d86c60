/* A NetFlow v9 decoder without compiled templates. It shows the cost that compiling templates
   saves, and is used only by benchmarks/bench_story.py.

   Exporters, templates, sampling and the emitter are those of the core. Only the path from a record
   to its columns differs. Each field of each record is looked up in the plan by its element.
   NetFlow v9 may define an id differently, so a lookup takes two binary searches. The value is
   converted by the element's kind. Values of a lower rank wait for values of better ranks.

   Not supported, because NetFlow v9 or the captures of the benchmark do not need it: fields of
   variable length, packets in records, biflows, repeated elements, and data before its template.

   A zero never ends the search for a value here, even if its column has that rule. The core applies
   the rule when it compiles a template. The interpreter's work per field is the same. But if a
   field of a better rank is zero, its flows have the value of a worse rank.

   The interface is that of fb_row_decode. Datagrams of other protocols are ignored, and so is
   everything except data of known templates. */
#ifndef FB_BENCH_INTERPRETED_H
#define FB_BENCH_INTERPRETED_H

#include "core/decode/decode.h"

fb_status fb_row_interpret(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                           fb_position *position, fb_row *row);

#endif
