/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parameters: parsed and checked in one place, for the command line and for `set` at run time. */
#ifndef SIMSSD_SETTINGS_H
#define SIMSSD_SETTINGS_H

#include "ftl.h"
#include "model.h"
#include "noise.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flush_mode { FLUSH_HONEST, FLUSH_IGNORE };
enum fua_mode { FUA_HONEST, FUA_IGNORE, FUA_NONE };
enum trim_mode { TRIM_HONEST, TRIM_IGNORE };
enum gc_mode { GC_GREEDY, GC_OFF };
enum gc_step { GC_BURST, GC_AMORTISED };

#define FOLLOWS_READ_US UINT64_MAX
#define NO_FTL UINT64_MAX

struct settings {
  char *file;
  char *control;
  uint64_t size;
  uint64_t page_size;
  uint64_t page_phase;
  uint64_t channels;
  uint64_t read_us;
  uint64_t program_us;
  uint64_t rmw_us; /* or FOLLOWS_READ_US */
  uint64_t flush_us;
  uint64_t transfer_us;
  uint64_t straddle_parallel;
  uint64_t straddle_us;
  uint64_t write_cache;
  uint64_t cache_size;
  uint64_t plp; /* capacitors: a power cut writes the cache out */
  uint64_t writeback_ms;
  uint64_t spin_us;
  uint64_t flush; /* enum flush_mode */
  uint64_t fua;   /* enum fua_mode */
  uint64_t noise; /* enum noise_kind */
  uint64_t trim;  /* enum trim_mode */
  uint64_t unmapped_us; /* or FOLLOWS_READ_US */
  uint64_t op; /* 1/1000 per cent, or NO_FTL; what follows is of no use without it */
  uint64_t block_pages;
  uint64_t gc; /* enum gc_mode */
  uint64_t gc_low;
  uint64_t gc_step; /* enum gc_step */
  uint64_t erase_us;
  uint64_t idle_gc; /* ms */
  uint64_t slc_size;
  uint64_t rated_cycles;
};

/* One sentence that names the key, the value and what would do. */
struct complaint {
  char text[256];
};

void settings_init(struct settings *settings);
void settings_free(struct settings *settings);
/* One key. `running` refuses what cannot change under a running device. 0, or -1 and the complaint. */
int settings_set(struct settings *settings, const char *key, const char *value, bool running, struct complaint *complaint);
/* What one key alone cannot show: required keys, and values that exclude each other. */
int settings_check(const struct settings *settings, struct complaint *complaint);
/* A JSON object of everything but the two paths. */
int settings_json(const struct settings *settings, char *text, size_t size);
struct geometry settings_geometry(const struct settings *settings);
/* Of a drive with a flash translation layer. */
struct ftl_shape settings_ftl_shape(const struct settings *settings);
/* True if anything takes time. */
bool settings_have_costs(const struct settings *settings);
uint64_t settings_rmw_us(const struct settings *settings);
uint64_t settings_unmapped_us(const struct settings *settings);

#endif
