/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables for model.c and noise.c; `make check` runs it. */
#include "model.h"
#include "noise.h"

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

/* A million draws of one cost, a tenth of a millisecond apart: mean, median and the 99th part of a hundred, in per cent of the cost. */
static void test_noise(void)
{
  enum { DRAWS = 1000000, COST = 100000, TOP = 1000 };
  static const struct {
    enum noise_kind kind;
    unsigned mean_low, mean_high, median_low, median_high, tail_low, tail_high;
  } rows[] = {
    {NOISE_NONE, 100, 100, 100, 100, 100, 100},
    {NOISE_DRIFT, 98, 102, 98, 102, 148, 150},
    {NOISE_BURSTS, 140, 220, 100, 105, 800, TOP}, /* a fifth of the time, 4 more on average */
    {NOISE_LOGNORMAL, 107, 110, 99, 101, 248, 260}, /* exp(s²/2), 1, exp(2.326 s) for s = 0.4 */
    {NOISE_PARETO, 150, 170, 116, 119, 640, 760},   /* 1 + 0.3 (3 - 1), 1 + 0.3 (2^(2/3) - 1), 1 + 0.3 (100^(2/3) - 1) */
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    static unsigned seen[TOP + 1];
    struct noise noise = {0};
    double sum = 0;
    for (unsigned at = 0; at <= TOP; at++)
      seen[at] = 0;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
      int64_t cost = noise_cost(&noise, rows[i].kind, COST, (int64_t)draw * 100000);
      sum += (double)cost / DRAWS;
      seen[cost / (COST / 100) < TOP ? cost / (COST / 100) : TOP]++;
    }
    unsigned median = 0, tail = 0;
    for (unsigned at = 0, count = 0; at <= TOP; at++) {
      count += seen[at];
      median += count < DRAWS / 2;
      tail += count < DRAWS / 100 * 99;
    }
    unsigned mean = (unsigned)(sum / (COST / 100.0) + 0.5);
    expect("mean of noise", i, 1, mean >= rows[i].mean_low && mean <= rows[i].mean_high);
    expect("median of noise", i, 1, median >= rows[i].median_low && median <= rows[i].median_high);
    expect("tail of noise", i, 1, tail >= rows[i].tail_low && tail <= rows[i].tail_high);
    expect("noise on nothing", i, 0, (uint64_t)noise_cost(&noise, rows[i].kind, 0, 0));
  }
}

int main(void)
{
  test_pages();
  test_page_ends();
  test_unit();
  test_noise();
  printf(failures ? "%d rows failed\n" : "model: all rows pass\n", failures);
  return failures != 0;
}
