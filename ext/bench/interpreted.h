/* NetFlow v9 without compiled templates: what the core would be without its second compilation. Only the benchmark that tells
   the story uses it (benchmarks/bench_story.py).

   Exporters, templates, sampling and the emitter are the core's; only the way from a record to its columns differs. Each field
   of each record is looked up in the plan by its element (twice, as what NetFlow v9 means by an id may differ: two searches by
   halving), and its value converted by the element's kind. Values of a lesser
   rank wait until the better ones have had their turn. Fields of variable length, packets in records, biflows, elements that
   occur twice, data before its template: of all that, NetFlow v9 needs nothing, or the story's captures hold none.

   A zero never ends the search for a value here, whatever the rule of its column: the core's operations decide that when a
   template is compiled. The interpreter does no more for a field because of that. Where a field of a better rank is zero, its
   flows have the value of a worse one.

   As fb_row_decode; datagrams of other protocols are passed over, and so is everything but data of known templates. */
#ifndef FB_BENCH_INTERPRETED_H
#define FB_BENCH_INTERPRETED_H

#include "core/decode/decode.h"

fb_status fb_row_interpret(fb_decoder *decoder, const fb_datagram *datagrams, size_t count, fb_position *position,
                           fb_row *row);

#endif
