/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "counters.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

static const char *const names[COUNTERS] = {
  "host_reads",          "host_read_bytes",  "host_writes",       "host_write_bytes", "fua_writes",
  "flushes",             "discards",         "discard_bytes",     "zeroes",           "zero_bytes",
  "mutations",           "media_page_reads", "media_page_programs", "media_read_bytes", "media_write_bytes",
  "rmw",                 "straddles",        "cache_lost_bytes",  "gc_moves",         "erases",
  "waits",               "late_ns",
};

static _Atomic uint64_t total[COUNTERS];
static _Atomic uint64_t window_start[COUNTERS];

void counters_add(enum counter counter, uint64_t amount)
{
  atomic_fetch_add_explicit(&total[counter], amount, memory_order_relaxed);
}

void counters_reset(void)
{
  for (int i = 0; i < COUNTERS; i++)
    window_start[i] = total[i];
}

int counters_json(char *text, size_t size)
{
  size_t used = 0;
  for (int windowed = 0; windowed <= 1; windowed++) {
    const char *separator = windowed ? "}, \"window\": {" : "{\"total\": {";
    for (int i = 0; i < COUNTERS; i++) {
      uint64_t value = total[i] - (windowed ? window_start[i] : 0);
      int length = snprintf(text + used, size - used, "%s\"%s\": %" PRIu64, separator, names[i], value);
      if (length < 0 || (size_t)length >= size - used)
        return -1;
      used += (size_t)length;
      separator = ", ";
    }
  }
  return snprintf(text + used, size - used, "}}") == 2 && used + 2 < size ? 0 : -1;
}
