/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the host asked for and what the medium did: since the start, and since the last reset. */
#ifndef SIMSSD_COUNTERS_H
#define SIMSSD_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

/* The order of the names in counters.c. */
enum counter {
  HOST_READS,
  HOST_READ_BYTES,
  HOST_WRITES,
  HOST_WRITE_BYTES,
  FUA_WRITES,
  FLUSHES,
  DISCARDS,
  DISCARD_BYTES,
  ZEROES,
  ZERO_BYTES,
  MUTATIONS,
  MEDIA_PAGE_READS,
  MEDIA_PAGE_PROGRAMS,
  MEDIA_READ_BYTES,
  MEDIA_WRITE_BYTES,
  RMW,
  STRADDLES,
  CACHE_LOST_BYTES,
  GC_MOVES,
  ERASES,
  WAITS,
  LATE_NS,
  COUNTERS,
};

void counters_add(enum counter counter, uint64_t amount);
/* Begins a new window; the totals stay. */
void counters_reset(void);
/* {"total": {…}, "window": {…}} */
int counters_json(char *text, size_t size);

#endif
