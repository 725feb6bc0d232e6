/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_US 10000000u /* 10 s */

enum kind { PATH, BYTES, NUMBER, PERCENT, CHOICE };

/* Of the longest list of a CHOICE. */
#define MAX_CHOICES 8

struct key {
  const char *name;
  enum kind kind;
  size_t offset;
  bool at_run_time;
  uint64_t minimum, maximum;
  const char *choices[MAX_CHOICES + 1]; /* in the order of their enum; the rest is NULL */
};

#define AT(member) offsetof(struct settings, member)

static const struct key keys[] = {
  {.name = "file", .kind = PATH, .offset = AT(file)},
  {.name = "control", .kind = PATH, .offset = AT(control)},
  {.name = "size", .kind = BYTES, .offset = AT(size), .minimum = SECTOR_BYTES, .maximum = UINT64_C(1) << 50},
  {.name = "page_size", .kind = BYTES, .offset = AT(page_size), .minimum = SECTOR_BYTES, .maximum = 1 << 20},
  {.name = "page_phase", .kind = BYTES, .offset = AT(page_phase), .at_run_time = true, .maximum = (1 << 20) - SECTOR_BYTES},
  {.name = "channels", .kind = NUMBER, .offset = AT(channels), .minimum = 1, .maximum = 256},
  {.name = "read_us", .kind = NUMBER, .offset = AT(read_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "program_us", .kind = NUMBER, .offset = AT(program_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "rmw_us", .kind = NUMBER, .offset = AT(rmw_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "flush_us", .kind = NUMBER, .offset = AT(flush_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "transfer_us", .kind = NUMBER, .offset = AT(transfer_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "straddle_parallel", .kind = NUMBER, .offset = AT(straddle_parallel), .at_run_time = true, .maximum = 1},
  {.name = "straddle_us", .kind = NUMBER, .offset = AT(straddle_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "write_cache", .kind = NUMBER, .offset = AT(write_cache), .at_run_time = true, .maximum = 1},
  {.name = "cache_size", .kind = BYTES, .offset = AT(cache_size), .minimum = SECTOR_BYTES, .maximum = UINT64_C(4) << 30},
  {.name = "plp", .kind = NUMBER, .offset = AT(plp), .at_run_time = true, .maximum = 1},
  {.name = "writeback_ms", .kind = NUMBER, .offset = AT(writeback_ms), .at_run_time = true, .maximum = 3600000},
  {.name = "spin_us", .kind = NUMBER, .offset = AT(spin_us), .at_run_time = true, .maximum = 1000},
  {.name = "flush", .kind = CHOICE, .offset = AT(flush), .at_run_time = true, .choices = {"honest", "ignore"}},
  {.name = "fua", .kind = CHOICE, .offset = AT(fua), .at_run_time = true, .choices = {"honest", "ignore", "none"}},
  {.name = "noise", .kind = CHOICE, .offset = AT(noise), .at_run_time = true, .choices = {"none", "drift", "bursts", "lognormal", "pareto"}},
  {.name = "trim", .kind = CHOICE, .offset = AT(trim), .at_run_time = true, .choices = {"honest", "ignore"}},
  {.name = "unmapped_us", .kind = NUMBER, .offset = AT(unmapped_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "op", .kind = PERCENT, .offset = AT(op), .maximum = 1000 * 1000},
  {.name = "block_pages", .kind = NUMBER, .offset = AT(block_pages), .minimum = 1, .maximum = 65536},
  {.name = "gc", .kind = CHOICE, .offset = AT(gc), .at_run_time = true, .choices = {"greedy", "off"}},
  {.name = "gc_low", .kind = NUMBER, .offset = AT(gc_low), .minimum = FTL_GC_LOW_MIN, .maximum = 1 << 20},
  {.name = "gc_step", .kind = CHOICE, .offset = AT(gc_step), .at_run_time = true, .choices = {"burst", "amortised"}},
  {.name = "erase_us", .kind = NUMBER, .offset = AT(erase_us), .at_run_time = true, .maximum = MAX_US},
  {.name = "idle_gc", .kind = NUMBER, .offset = AT(idle_gc), .at_run_time = true, .maximum = 3600000},
  {.name = "slc_size", .kind = BYTES, .offset = AT(slc_size), .maximum = UINT64_C(1) << 50},
  {.name = "rated_cycles", .kind = NUMBER, .offset = AT(rated_cycles), .at_run_time = true, .minimum = 1, .maximum = 1 << 20},
};

#define KEYS (sizeof keys / sizeof keys[0])

static int complain(struct complaint *complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(struct complaint *complaint, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
  va_end(arguments);
  return -1;
}

static void *member(struct settings *settings, const struct key *key)
{
  return (char *)settings + key->offset;
}

static uint64_t number(const struct settings *settings, const struct key *key)
{
  uint64_t value;
  memcpy(&value, (const char *)settings + key->offset, sizeof value);
  return value;
}

void settings_init(struct settings *settings)
{
  *settings = (struct settings){
    .page_size = 4096,
    .channels = 8,
    .rmw_us = FOLLOWS_READ_US,
    .straddle_parallel = 1,
    .cache_size = 16 << 20,
    .writeback_ms = 1000,
    .spin_us = 50,
    .unmapped_us = FOLLOWS_READ_US,
    .op = NO_FTL,
    .block_pages = 64,
    .gc_low = FTL_GC_LOW_MIN,
    .rated_cycles = 3000,
  };
}

void settings_free(struct settings *settings)
{
  free(settings->file);
  free(settings->control);
}

/* Digits, and for bytes one of K, M, G, T or KiB, MiB, GiB, TiB: powers of 1024. strtoull alone would take signs and blanks. */
static int parse_number(const char *text, bool bytes, uint64_t *number)
{
  static const char units[] = "KMGT";
  char *end;

  if (*text < '0' || *text > '9')
    return -1;
  errno = 0;
  *number = strtoull(text, &end, 10);
  if (errno != 0)
    return -1;
  if (*end == '\0')
    return 0;
  const char *unit = strchr(units, *end == 'k' ? 'K' : *end);
  if (!bytes || unit == NULL || (end[1] != '\0' && strcmp(end + 1, "iB") != 0))
    return -1;
  unsigned shift = 10 * (unsigned)(unit - units + 1);
  if (*number > UINT64_MAX >> shift)
    return -1;
  *number <<= shift;
  return 0;
}

static int set_choice(const struct key *key, const char *value, uint64_t *chosen, struct complaint *complaint)
{
  char known[128] = "";
  for (uint64_t i = 0; i < MAX_CHOICES && key->choices[i] != NULL; i++) {
    if (strcmp(value, key->choices[i]) == 0) {
      *chosen = i;
      return 0;
    }
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i == 0 ? "" : ", ", key->choices[i]);
  }
  return complain(complaint, "%s=%s: expected one of: %s", key->name, value, known);
}

static int set_path(const struct key *key, const char *value, char **path, struct complaint *complaint)
{
  /* nbdkit changes to / when it goes to the background. */
  if (value[0] != '/')
    return complain(complaint, "%s=%s: expected an absolute path", key->name, value);
  char *copy = strdup(value);
  if (copy == NULL)
    return complain(complaint, "%s=%s: out of memory", key->name, value);
  free(*path);
  *path = copy;
  return 0;
}

static int set_number(const struct key *key, const char *value, uint64_t *number, struct complaint *complaint)
{
  uint64_t parsed;
  if (parse_number(value, key->kind == BYTES, &parsed) != 0)
    return complain(complaint, "%s=%s: expected a whole number%s", key->name, value,
                    key->kind == BYTES ? " of bytes, or one with K, M, G or T (powers of 1024)" : "");
  if (parsed < key->minimum || parsed > key->maximum)
    return complain(complaint, "%s=%s: expected %" PRIu64 " to %" PRIu64, key->name, value, key->minimum, key->maximum);
  *number = parsed;
  return 0;
}

/* In thousandths; more decimals are rounded. */
static int set_percent(const struct key *key, const char *value, uint64_t *thousandths, struct complaint *complaint)
{
  char *end;
  double percent = strtod(value, &end);
  if (*value == '\0' || *end != '\0' || value[strspn(value, "0123456789.")] != '\0')
    return complain(complaint, "%s=%s: expected a number of per cent", key->name, value);
  if (percent * 1000 > (double)key->maximum)
    return complain(complaint, "%s=%s: expected 0 to %" PRIu64, key->name, value, key->maximum / 1000);
  *thousandths = (uint64_t)(percent * 1000 + 0.5);
  return 0;
}

static int set_one(struct settings *settings, const struct key *key, const char *value, struct complaint *complaint)
{
  switch (key->kind) {
  case PATH:
    return set_path(key, value, member(settings, key), complaint);
  case CHOICE:
    return set_choice(key, value, member(settings, key), complaint);
  case PERCENT:
    return set_percent(key, value, member(settings, key), complaint);
  default:
    return set_number(key, value, member(settings, key), complaint);
  }
}

int settings_set(struct settings *settings, const char *key, const char *value, bool running, struct complaint *complaint)
{
  for (unsigned i = 0; i < KEYS; i++) {
    if (strcmp(key, keys[i].name) != 0)
      continue;
    if (!running)
      return set_one(settings, &keys[i], value, complaint);
    if (!keys[i].at_run_time)
      return complain(complaint, "%s: cannot change while the device runs", key);
    struct settings wanted = *settings; /* no path changes at run time, so the copy may share them */
    if (set_one(&wanted, &keys[i], value, complaint) != 0 || settings_check(&wanted, complaint) != 0)
      return -1;
    if ((wanted.fua == FUA_NONE) != (settings->fua == FUA_NONE))
      return complain(complaint, "fua=%s: clients were told at connection time whether there is FUA", value);
    if (settings->op != NO_FTL && wanted.page_phase != settings->page_phase)
      return complain(complaint, "page_phase=%s: cannot change while the device runs with op", value);
    *settings = wanted;
    return 0;
  }
  return complain(complaint, "%s: unknown parameter", key);
}

static int check_ftl(const struct settings *s, struct complaint *complaint)
{
  if (s->op == NO_FTL && (s->erase_us | s->idle_gc | s->slc_size) != 0)
    return complain(complaint, "erase_us, idle_gc, slc_size: without op= there is no flash translation layer for them");
  if (s->op == NO_FTL)
    return 0;
  struct ftl_shape shape = settings_ftl_shape(s);
  uint64_t spare = ftl_spare_blocks(&shape), needed = ftl_spare_blocks_needed(s->gc_low);
  if (shape.blocks * shape.block_pages + shape.slc_pages > FTL_PAGES_MAX)
    return complain(complaint, "size=%" PRIu64 ": more than %u flash pages of page_size=%" PRIu64, s->size, FTL_PAGES_MAX, s->page_size);
  if (spare < needed)
    return complain(complaint,
                    "op=%g: makes %" PRIu64 " spare blocks of block_pages=%" PRIu64 ", and gc_low=%" PRIu64 " needs %" PRIu64
                    "; raise op or size, or lower gc_low or block_pages",
                    (double)s->op / 1000, spare, s->block_pages, s->gc_low, needed);
  if (s->slc_size % s->page_size != 0)
    return complain(complaint, "slc_size=%" PRIu64 ": expected a multiple of page_size=%" PRIu64, s->slc_size, s->page_size);
  if (s->slc_size != 0 && s->idle_gc == 0)
    return complain(complaint, "slc_size=%" PRIu64 ": idle_gc= is required with it: nothing else empties the SLC cache", s->slc_size);
  return 0;
}

int settings_check(const struct settings *s, struct complaint *complaint)
{
  if (s->file == NULL)
    return complain(complaint, "file= is required: the path of the backing file");
  if (s->size == 0)
    return complain(complaint, "size= is required: the capacity in bytes");
  if (s->size % SECTOR_BYTES != 0)
    return complain(complaint, "size=%" PRIu64 ": expected a multiple of %u", s->size, SECTOR_BYTES);
  if ((s->page_size & (s->page_size - 1)) != 0)
    return complain(complaint, "page_size=%" PRIu64 ": expected a power of two", s->page_size);
  if (s->page_phase % SECTOR_BYTES != 0)
    return complain(complaint, "page_phase=%" PRIu64 ": expected a multiple of %u", s->page_phase, SECTOR_BYTES);
  if (s->page_phase >= s->page_size)
    return complain(complaint, "page_phase=%" PRIu64 ": expected less than page_size=%" PRIu64, s->page_phase, s->page_size);
  if (s->cache_size < s->page_size)
    return complain(complaint, "cache_size=%" PRIu64 ": expected at least one page of %" PRIu64, s->cache_size, s->page_size);
  return check_ftl(s, complaint);
}

/* A value, and where it follows another one, that. */
static uint64_t effective(const struct settings *settings, const struct key *key)
{
  if (key->offset == AT(rmw_us))
    return settings_rmw_us(settings);
  return key->offset == AT(unmapped_us) ? settings_unmapped_us(settings) : number(settings, key);
}

int settings_json(const struct settings *settings, char *text, size_t size)
{
  size_t used = 0;
  const char *separator = "{";
  for (unsigned i = 0; i < KEYS; i++) {
    const struct key *key = &keys[i];
    if (key->kind == PATH)
      continue;
    uint64_t value = effective(settings, key);
    int length;
    if (key->kind == CHOICE)
      length = snprintf(text + used, size - used, "%s\"%s\": \"%s\"", separator, key->name, key->choices[value]);
    else if (key->kind == PERCENT && value == NO_FTL)
      length = snprintf(text + used, size - used, "%s\"%s\": null", separator, key->name);
    else if (key->kind == PERCENT)
      length = snprintf(text + used, size - used, "%s\"%s\": %.10g", separator, key->name, (double)value / 1000);
    else
      length = snprintf(text + used, size - used, "%s\"%s\": %" PRIu64, separator, key->name, value);
    if (length < 0 || (size_t)length >= size - used)
      return -1;
    used += (size_t)length;
    separator = ", ";
  }
  return snprintf(text + used, size - used, "}") == 1 && used + 1 < size ? 0 : -1;
}

struct geometry settings_geometry(const struct settings *s)
{
  return (struct geometry){.size = s->size, .page_size = s->page_size, .phase = s->page_phase, .channels = s->channels};
}

struct ftl_shape settings_ftl_shape(const struct settings *s)
{
  struct geometry geometry = settings_geometry(s);
  uint64_t pages = geometry_page(&geometry, s->size - 1) + 1;
  return (struct ftl_shape){
    .size = s->size,
    .page_size = s->page_size,
    .page_phase = s->page_phase,
    .pages = pages,
    .block_pages = s->block_pages,
    .blocks = ftl_blocks(pages, s->block_pages, s->op),
    .slc_pages = s->slc_size / s->page_size,
  };
}

bool settings_have_costs(const struct settings *s)
{
  return (s->read_us | s->program_us | settings_rmw_us(s) | s->flush_us | s->transfer_us | s->straddle_us | s->erase_us |
          settings_unmapped_us(s)) != 0;
}

uint64_t settings_rmw_us(const struct settings *settings)
{
  return settings->rmw_us == FOLLOWS_READ_US ? settings->read_us : settings->rmw_us;
}

uint64_t settings_unmapped_us(const struct settings *settings)
{
  return settings->unmapped_us == FOLLOWS_READ_US ? settings->read_us : settings->unmapped_us;
}
