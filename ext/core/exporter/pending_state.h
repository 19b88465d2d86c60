/* Waiting data sets as bytes, so that another decoder can continue with them (pending_sets.h).

   The form of an exporter is a version, then its sets in order of arrival. Numbers are big-endian.

      0        4            6        8          16            20       24         28     32
     +--------+------------+--------+----------+-------------+--------+----------+------+-----+
     | domain | 9 or 10    | port   | received | export time | uptime | sequence | size | set |
     | id (4) | (2)        | (2)    | ns (8)   | s (4)       | ms (4) | (4)      | (4)  |     |
     +--------+------------+--------+----------+-------------+--------+----------+------+-----+

   `size` is the number of bytes of the set, with its own header. A set that was cut short is
   smaller than its own header states. Of a set that was decoded in part, only the other records
   follow. `received` is at most FB_TIME_MAX.

   Usage, for each exporter with waiting sets:

     fb_pending_write(exporter, form) to a buffer of fb_pending_form_size(exporter) bytes
     in the other decoder: fb_pending_check(form), then fb_pending_restore(…, form)
     then fb_decoder_hand_over in the first decoder */
#ifndef FB_EXPORTER_PENDING_STATE_H
#define FB_EXPORTER_PENDING_STATE_H

#include "core/exporter/pending_sets.h"

#define FB_PENDING_FORM_VERSION 1

/* Return the size of the form of an exporter, in bytes. */
size_t fb_pending_form_size(const fb_exporter *exporter);
/* Write the form of an exporter. REQUIRES: room for fb_pending_form_size(exporter) bytes. */
void fb_pending_write(const fb_exporter *exporter, uint8_t *out);

/* Check every length and number of a form. OK. BAD_ARGUMENT: it has another version, or it is
   damaged. */
fb_status fb_pending_check(fb_bytes form);
/* Let the sets of a form wait for the templates of an exporter, which is created if it is new. Each
   set is counted as EARLY_DATA_INHERITED. A set without room is also counted as TEMPLATE_MISSING,
   with the counters of `overflow` if there is no room for its exporter. REQUIRES: fb_pending_check
   returned OK, and no datagram is being decoded. */
void fb_pending_restore(fb_exporters *exporters, const uint8_t address[16], uint64_t agent,
                        fb_bytes form);

#endif
