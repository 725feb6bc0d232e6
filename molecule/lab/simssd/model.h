/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where pages lie, and when a unit of the device is done. Pure: no clock, no I/O, no locks. */
#ifndef SIMSSD_MODEL_H
#define SIMSSD_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define SECTOR_BYTES 512u

/* All in bytes. page_size is a power of two; phase < page_size; phase and size are multiples of SECTOR_BYTES. */
struct geometry {
  uint64_t size;
  uint64_t page_size;
  uint64_t phase;
  uint64_t channels;
};

/* Number of the page that holds this address. With a phase, page 0 is the short piece in front of the first boundary. */
uint64_t geometry_page(const struct geometry *g, uint64_t address);
/* First byte of a page, and the byte after its last: what the host can address of it, so cut at both ends of the device. */
uint64_t geometry_page_begin(const struct geometry *g, uint64_t page);
uint64_t geometry_page_end(const struct geometry *g, uint64_t page);
uint64_t geometry_channel(const struct geometry *g, uint64_t page);
uint64_t geometry_pages_touched(const struct geometry *g, uint64_t offset, uint64_t length);
/* True if the request touches more pages than its length needs. */
bool geometry_straddles(const struct geometry *g, uint64_t offset, uint64_t length);

/* Something that does one thing at a time: a channel, the controller, the flush engine. Times are nanoseconds. */
struct unit {
  int64_t busy_until;
};

/* Queues work that could begin at `earliest`; returns when it is done. Nothing here depends on when a thread wakes up,
   so a late wake-up delays one answer and never the work behind it. */
int64_t unit_book(struct unit *unit, int64_t earliest, int64_t cost);

#endif
