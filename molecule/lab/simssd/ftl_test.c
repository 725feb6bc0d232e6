/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables for ftl.c; `make check` runs it. */
#include "ftl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static int failures;

static void expect(const char *what, unsigned row, uint64_t expected, uint64_t found)
{
  if (expected == found)
    return;
  printf("%s, row %u: expected %" PRIu64 ", found %" PRIu64 "\n", what, row, expected, found);
  failures++;
}

/* ---- a drive, and what its medium was told ---- */

struct drive {
  struct ftl_shape shape;
  struct ftl_rules rules;
  void *state;
  struct ftl *ftl;
  uint64_t moves, erases, most_moves, random;
};

static void count_move(void *context, uint32_t page)
{
  struct drive *drive = context;
  drive->moves++;
  expect("a moved page is mapped", page, 1, ftl_is_mapped(drive->ftl, page));
}

static void count_erase(void *context, uint32_t block)
{
  struct drive *drive = context;
  drive->erases++;
  expect("an erased block exists", block, 1, block < drive->shape.blocks);
}

static struct drive drive_new(uint64_t pages, uint64_t block_pages, uint64_t op, uint64_t slc_pages, struct ftl_rules rules)
{
  struct drive drive = {
    .shape = {.pages = pages, .block_pages = block_pages, .blocks = ftl_blocks(pages, block_pages, op), .slc_pages = slc_pages},
    .rules = rules,
    .random = 88172645463325252u,
  };
  const char *why = "";
  drive.state = calloc(1, ftl_state_bytes(&drive.shape));
  ftl_format(drive.state, &drive.shape);
  drive.ftl = ftl_open(drive.state, &drive.shape, &why);
  expect(why, 0, 1, drive.ftl != NULL);
  return drive;
}

static void drive_free(struct drive *drive)
{
  ftl_close(drive->ftl);
  free(drive->state);
}

static struct ftl_listener listener_of(struct drive *drive)
{
  return (struct ftl_listener){.context = drive, .moved = count_move, .erased = count_erase};
}

static bool drive_write(struct drive *drive, uint64_t page)
{
  struct ftl_listener listener = listener_of(drive);
  uint64_t before = drive->moves;
  bool to_slc = ftl_write(drive->ftl, page, &drive->rules, &listener);
  if (drive->most_moves < drive->moves - before)
    drive->most_moves = drive->moves - before;
  return to_slc;
}

static bool drive_tidy(struct drive *drive)
{
  struct ftl_listener listener = listener_of(drive);
  return ftl_tidy(drive->ftl, &drive->rules, &listener);
}

/* Marsaglia's xorshift64, 2003 */
static uint64_t drive_draw(struct drive *drive, uint64_t below)
{
  drive->random ^= drive->random << 13;
  drive->random ^= drive->random >> 7;
  drive->random ^= drive->random << 17;
  return (drive->random >> 20) % below;
}

static void drive_fill(struct drive *drive)
{
  for (uint64_t page = 0; page < drive->shape.pages; page++)
    drive_write(drive, page);
}

static void drive_age(struct drive *drive, uint64_t writes)
{
  for (uint64_t i = 0; i < writes; i++)
    drive_write(drive, drive_draw(drive, drive->shape.pages));
}

/* Four writes of five go to a fifth of the pages. */
static void drive_age_unevenly(struct drive *drive, uint64_t writes)
{
  uint64_t hot = drive->shape.pages / 5;
  for (uint64_t i = 0; i < writes; i++) {
    bool is_hot = drive_draw(drive, 5) > 0;
    drive_write(drive, is_hot ? drive_draw(drive, hot) : hot + drive_draw(drive, drive->shape.pages - hot));
  }
}

/* Closes the state and opens it again, as the next process would. */
static void drive_reopen(struct drive *drive, unsigned row)
{
  const char *why = "";
  ftl_close(drive->ftl);
  drive->ftl = ftl_open(drive->state, &drive->shape, &why);
  expect(why, row, 1, drive->ftl != NULL);
}

/* ---- the tests ---- */

static void test_blocks(void)
{
  static const struct {
    uint64_t pages, block_pages, op, blocks, spare;
  } rows[] = {
    {65536, 64, 7030, 1096, 72}, {65536, 64, 12500, 1152, 128}, {65536, 64, 100000, 2048, 1024},
    {65536, 64, 0, 1024, 0},     {100, 64, 0, 2, 0},            {1, 1, 1, 2, 1},
    {100, 64, 1000000, 18, 16}, /* 1100 pages */
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct ftl_shape shape = {.pages = rows[i].pages, .block_pages = rows[i].block_pages};
    shape.blocks = ftl_blocks(rows[i].pages, rows[i].block_pages, rows[i].op);
    expect("blocks", i, rows[i].blocks, shape.blocks);
    expect("spare blocks", i, rows[i].spare, ftl_spare_blocks(&shape));
  }
}

/* Uniform random pages after a sequential fill: write amplification in thousandths, from the finite-block formula (tests/bench/ftl.py). */
static void test_amplification(void)
{
  static const struct {
    uint64_t block_pages, op, expected;
    struct ftl_rules rules;
  } rows[] = {
    {64, 12500, 4384, {.gc_low = 2}}, {64, 28000, 2402, {.gc_low = 2}},
    {64, 100000, 1239, {.gc_low = 2}}, {32, 7030, 6323, {.gc_low = 2}},
    {64, 28000, 2402, {.gc_low = 4, .amortised = true}},
    {64, 28000, 1000, {.gc_low = 2, .off = true}},
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct drive drive = drive_new(65536, rows[i].block_pages, rows[i].op, 0, rows[i].rules);
    drive_fill(&drive);
    expect("moves of a sequential fill", i, 0, drive.moves);
    drive_age(&drive, 2 * 65536);
    uint64_t before = drive.moves;
    drive_age(&drive, 65536);
    uint64_t found = 1000 + (drive.moves - before) * 1000 / 65536;
    expect("write amplification is within 4 %", i, 1, found * 25 >= rows[i].expected * 24 && found * 25 <= rows[i].expected * 26);
    struct ftl_totals totals = ftl_totals(drive.ftl);
    expect("moves counted", i, drive.moves, totals.gc_moves);
    expect("erases counted", i, drive.erases, totals.erases);
    expect("host pages counted", i, 4 * 65536, totals.host_pages);
    expect("mapped", i, 65536, totals.mapped);
    drive_free(&drive);
  }
}

/* Uniform addresses are not the worst case. Expected is what another greedy simulation of the same shape found. */
static void test_uneven(void)
{
  static const struct {
    uint64_t op, expected;
  } rows[] = {{12500, 4770}, {28000, 2660}};
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct drive drive = drive_new(65536, 64, rows[i].op, 0, (struct ftl_rules){.gc_low = 2});
    drive_fill(&drive);
    drive_age_unevenly(&drive, 6 * 65536);
    uint64_t before = drive.moves;
    drive_age_unevenly(&drive, 2 * 65536);
    uint64_t found = 1000 + (drive.moves - before) * 1000 / (2 * 65536);
    expect("write amplification is within 4 %", i, 1, found * 25 >= rows[i].expected * 24 && found * 25 <= rows[i].expected * 26);
    drive_free(&drive);
  }
}

static void test_sequential_and_first_collection(void)
{
  struct drive drive = drive_new(65536, 64, 12500, 0, (struct ftl_rules){.gc_low = 2});
  uint64_t first = 0;
  for (uint64_t i = 0; i < 5 * 65536; i++) {
    drive_write(&drive, i % 65536);
    if (first == 0 && drive.erases > 0)
      first = i;
  }
  expect("moves of sequential fills", 0, 0, drive.moves);
  /* 1152 blocks, but the last one before gc_low of them are free */
  expect("pages before the first erase", 0, (1152 - 1) * 64, first);
  drive_free(&drive);
}

/* The least that is allowed, and small shapes: it never stops, whatever is written. */
static void test_least(void)
{
  static const struct {
    uint64_t pages, block_pages, op, slc_pages;
    struct ftl_rules rules;
  } rows[] = {
    {64, 1, 6250, 0, {.gc_low = 2}},  {64, 16, 100000, 0, {.gc_low = 2}},  {64, 16, 100000, 0, {.gc_low = 2, .amortised = true}},
    {1, 1, 400000, 0, {.gc_low = 2}}, {100, 16, 160000, 0, {.gc_low = 8}}, {100, 16, 160000, 7, {.gc_low = 8, .amortised = true}},
    {640, 64, 40000, 1, {.gc_low = 2, .amortised = true}}, {640, 64, 40000, 100, {.gc_low = 2, .off = true}},
  };
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct drive drive = drive_new(rows[i].pages, rows[i].block_pages, rows[i].op, rows[i].slc_pages, rows[i].rules);
    expect("spare blocks are the least", i, ftl_spare_blocks_needed(rows[i].rules.gc_low), ftl_spare_blocks(&drive.shape));
    drive_fill(&drive);
    drive_age(&drive, 20000);
    while (drive_tidy(&drive))
      ;
    drive_age(&drive, 20000);
    expect("all is mapped", i, rows[i].pages, ftl_totals(drive.ftl).mapped);
    drive_reopen(&drive, i);
    drive_free(&drive);
  }
}

/* Writes, trims, idle work and reopening in any order, beside an array of flags: also where a victim is half emptied. */
static void test_against_flags(void)
{
  static const struct ftl_rules rules[] = {
    {.gc_low = 2}, {.gc_low = 4, .amortised = true}, {.gc_low = 2, .off = true}, {.gc_low = 2, .amortised = true}};
  enum { PAGES = 500 };
  for (unsigned i = 0; i < 2 * COUNT(rules); i++) {
    static bool mapped[PAGES];
    struct drive drive = drive_new(PAGES, 16, 25000, i % 2 ? 40 : 0, rules[i / 2]);
    memset(mapped, 0, sizeof mapped);
    for (unsigned turn = 0; turn < 100000; turn++) {
      uint64_t page = drive_draw(&drive, PAGES), kind = drive_draw(&drive, 1000);
      if (kind < 700) {
        drive_write(&drive, page);
        mapped[page] = true;
      } else if (kind < 990) {
        ftl_trim(drive.ftl, page);
        mapped[page] = false;
      } else if (kind < 998) {
        drive_tidy(&drive);
      } else {
        drive_reopen(&drive, turn);
      }
    }
    unsigned expected = 0;
    for (unsigned page = 0; page < PAGES; page++) {
      expected += mapped[page];
      expect("page is mapped", page, mapped[page], ftl_is_mapped(drive.ftl, page));
    }
    expect("mapped pages", i, expected, ftl_totals(drive.ftl).mapped);
    drive_free(&drive);
  }
}

static void test_trim(void)
{
  struct drive drive = drive_new(4096, 64, 12500, 0, (struct ftl_rules){.gc_low = 2});
  drive_fill(&drive);
  drive_age(&drive, 4 * 4096);
  for (uint64_t page = 0; page < 4096; page++)
    ftl_trim(drive.ftl, page);
  uint64_t before = drive.moves;
  drive_fill(&drive);
  expect("moves after a trim of everything", 0, before, drive.moves);
  /* Half of it trimmed is as much spare space as over-provisioning of 125 %. */
  for (uint64_t page = 2048; page < 4096; page++)
    ftl_trim(drive.ftl, page);
  for (unsigned i = 0; i < 2 * 4096; i++)
    drive_write(&drive, drive_draw(&drive, 2048));
  before = drive.moves;
  for (unsigned i = 0; i < 4096; i++)
    drive_write(&drive, drive_draw(&drive, 2048));
  expect("write amplification below 1.25", 0, 1, drive.moves - before < 1024);
  drive_free(&drive);
}

static void test_steps(void)
{
  static const struct {
    struct ftl_rules rules;
    uint64_t least, most; /* moves that one write waits for */
  } rows[] = {{{.gc_low = 4}, 30, 128}, {{.gc_low = 4, .amortised = true}, 2, 16}};
  for (unsigned i = 0; i < COUNT(rows); i++) {
    struct drive drive = drive_new(16384, 64, 28000, 0, rows[i].rules);
    drive_fill(&drive);
    drive_age(&drive, 16384);
    drive.most_moves = 0;
    drive_age(&drive, 16384);
    expect("most moves before a write", i, 1, drive.most_moves >= rows[i].least && drive.most_moves <= rows[i].most);
    drive_free(&drive);
  }
}

static void test_idle(void)
{
  struct drive drive = drive_new(4096, 64, 50000, 0, (struct ftl_rules){.gc_low = 2});
  drive_fill(&drive);
  drive_age(&drive, 2 * 4096);
  expect("few blocks are free", 0, 1, ftl_totals(drive.ftl).free_blocks <= 2);
  while (drive_tidy(&drive))
    ;
  expect("half of the spare blocks are free", 0, 16, ftl_totals(drive.ftl).free_blocks);
  uint64_t before = drive.moves;
  drive_age(&drive, 14 * 64);
  expect("so many blocks for nothing", 0, before, drive.moves);
  drive_free(&drive);
}

static void test_slc(void)
{
  struct drive drive = drive_new(4096, 64, 12500, 128, (struct ftl_rules){.gc_low = 2});
  unsigned taken = 0;
  for (uint64_t page = 0; page < 4096; page++)
    taken += drive_write(&drive, page % 256);
  expect("pages that the SLC cache took", 0, 128, taken);
  unsigned steps = 0;
  while (drive_tidy(&drive))
    steps++;
  expect("what was written again is not folded", 0, 0, drive.moves);
  expect("a block's worth at a time", 0, 1, steps >= 2);
  for (uint64_t page = 0; page < 128; page++)
    expect("there is room again", (unsigned)page, 1, drive_write(&drive, page));
  drive_tidy(&drive);
  expect("folded", 0, 64, drive.moves);
  drive_free(&drive);
}

/* Damage to a state, and states of other drives. */
static void test_refused(void)
{
  struct drive drive = drive_new(4096, 64, 12500, 0, (struct ftl_rules){.gc_low = 2});
  drive_fill(&drive);
  drive_age(&drive, 4096);
  ftl_close(drive.ftl);
  size_t bytes = ftl_state_bytes(&drive.shape), map = bytes - drive.shape.blocks * 8 - 4096 * 4;
  static const struct {
    const char *says;
    unsigned char with;
    bool in_map;
    size_t at, length; /* 0: to the end */
  } rows[] = {
    {"damaged: it does not begin", 'X', false, 0, 1},  {"damaged: it does not begin", 0, false, 0, 0},
    {"of another drive", 0x55, false, 8, 8},           {"damaged: the map", 0xee, true, 400, 4},
    {"damaged: the map", 0, true, 400, 400},           {"damaged: the map", 0, true, 4096 * 2, 0},
    {"damaged: the map", 0x01, true, 400, 8},          {"damaged: the map", 0xff, true, 4096 * 4, 0},
    {"damaged: the map", 0, true, 4096 * 4, 0},
  };
  char *damaged = malloc(bytes);
  for (unsigned i = 0; i < COUNT(rows); i++) {
    const char *why = "it was opened";
    size_t at = rows[i].at + (rows[i].in_map ? map : 0);
    memcpy(damaged, drive.state, bytes);
    memset(damaged + at, rows[i].with, rows[i].length != 0 ? rows[i].length : bytes - at);
    struct ftl *ftl = ftl_open(damaged, &drive.shape, &why);
    expect(why, i, 0, strncmp(why, rows[i].says, strlen(rows[i].says)) != 0);
    ftl_close(ftl);
  }
  const char *twice = "it was opened";
  memcpy(damaged, drive.state, bytes);
  memcpy(damaged + map, damaged + map + 4, 4);
  expect("one flash page for two pages", 0, 1, ftl_open(damaged, &drive.shape, &twice) == NULL);
  expect(twice, 0, 0, strncmp(twice, "damaged: the map", 16) != 0);
  free(damaged);
  for (unsigned i = 0; i < sizeof drive.shape / sizeof(uint64_t); i++) {
    const char *why = "it was opened";
    struct ftl_shape other = drive.shape;
    ((uint64_t *)&other)[i]++;
    struct ftl *ftl = ftl_open(drive.state, &other, &why);
    expect(why, i, 0, strncmp(why, "of another drive", 16) != 0);
    ftl_close(ftl);
  }
  free(drive.state);
}

int main(void)
{
  test_blocks();
  test_amplification();
  test_uneven();
  test_sequential_and_first_collection();
  test_least();
  test_against_flags();
  test_trim();
  test_steps();
  test_idle();
  test_slc();
  test_refused();
  printf(failures ? "%d rows failed\n" : "ftl: all rows pass\n", failures);
  return failures != 0;
}
