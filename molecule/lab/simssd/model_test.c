/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables for model.c; `make check` runs it. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define K 1024u

static int failures;

static void expect(const char *what, unsigned row, uint64_t expected, uint64_t found)
{
  if (expected == found)
    return;
  printf("%s, row %u: expected %" PRIu64 ", found %" PRIu64 "\n", what, row, expected, found);
  failures++;
}

static void test_pages(void)
{
  static const struct {
    uint64_t page_size, phase, offset, length, first_page, touched, straddles;
  } rows[] = {
    {4 * K, 0, 0, 4 * K, 0, 1, 0},
    {4 * K, 0, 4 * K, 4 * K, 1, 1, 0},
    {4 * K, 0, 512, 4 * K, 0, 2, 1},
    {4 * K, 0, 3584, 512, 0, 1, 0},
    {4 * K, 0, 3584, 1024, 0, 2, 1},
    {4 * K, 0, 0, 64 * K, 0, 16, 0},
    {4 * K, 0, 512, 64 * K, 0, 17, 1},
    /* Sector 63 on a drive that compensates for it. */
    {4 * K, 3584, 63 * 512, 4 * K, 8, 1, 0},
    {4 * K, 3584, 64 * 512, 4 * K, 8, 2, 1},
    /* The short page in front: its own page, and no straddle for what fits in it. */
    {4 * K, 3584, 0, 3584, 0, 1, 0},
    {4 * K, 3584, 0, 4 * K, 0, 2, 1},
    {16 * K, 0, 12 * K, 4 * K, 0, 1, 0},
    {16 * K, 0, 13 * K, 4 * K, 0, 2, 1},
    {16 * K, 8 * K, 8 * K, 16 * K, 1, 1, 0},
    {16 * K, 8 * K, 0, 16 * K, 0, 2, 1},
    {512, 0, 512, 1024, 1, 2, 0},
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct geometry g = {.size = 1 << 20, .page_size = rows[i].page_size, .phase = rows[i].phase, .channels = 4};
    expect("first page", i, rows[i].first_page, geometry_page(&g, rows[i].offset));
    expect("pages touched", i, rows[i].touched, geometry_pages_touched(&g, rows[i].offset, rows[i].length));
    expect("straddles", i, rows[i].straddles, geometry_straddles(&g, rows[i].offset, rows[i].length));
  }
}

static void test_page_ends(void)
{
  static const struct {
    uint64_t phase, page, begin, end, channel;
  } rows[] = {
    {0, 0, 0, 4 * K, 0},
    {0, 3, 12 * K, 16 * K, 0},
    {1 * K, 0, 0, 1 * K, 0},
    {1 * K, 1, 1 * K, 5 * K, 1},
    {1 * K, 4, 13 * K, 16 * K, 1}, /* cut by the end of the device */
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct geometry g = {.size = 16 * K, .page_size = 4 * K, .phase = rows[i].phase, .channels = 3};
    expect("page begin", i, rows[i].begin, geometry_page_begin(&g, rows[i].page));
    expect("page end", i, rows[i].end, geometry_page_end(&g, rows[i].page));
    expect("channel", i, rows[i].channel, geometry_channel(&g, rows[i].page));
  }
}

static void test_unit(void)
{
  static const struct {
    int64_t earliest, cost, done;
  } rows[] = {
    {100, 50, 150}, /* idle: begins when asked */
    {120, 50, 200}, /* busy: queues */
    {500, 50, 550}, /* idle in between */
    {540, 0, 550},  /* even what costs nothing has to wait its turn */
  };
  struct unit unit = {0};
  for (unsigned i = 0; i < COUNT(rows); i++)
    expect("unit", i, (uint64_t)rows[i].done, (uint64_t)unit_book(&unit, rows[i].earliest, rows[i].cost));
}

int main(void)
{
  test_pages();
  test_page_ends();
  test_unit();
  printf(failures ? "%d rows failed\n" : "model: all rows pass\n", failures);
  return failures != 0;
}
