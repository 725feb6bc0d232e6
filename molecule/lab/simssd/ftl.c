/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ftl.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
static const char MAGIC[8] = "simFTL1";

enum frontier { HOST, GC, FRONTIERS }; /* blocks that are being filled: by the host, by garbage collection */

/* At the beginning of the state. The map follows (per logical page its flash page + 1, 0: unmapped), then the blocks. */
struct header {
  char magic[sizeof MAGIC];
  struct ftl_shape shape;
  uint64_t host_bytes, host_pages, gc_moves, erases;
  uint32_t mapped;
  uint32_t frontier[FRONTIERS];
  uint32_t slc_first, slc_used; /* the SLC cache is a ring */
};

struct block {
  uint32_t erases;
  uint32_t filled; /* pages programmed since the last erase; 0: free */
};

/* Blocks that are full, in lists by the number of their valid pages. */
struct links {
  uint32_t previous, next;
};

struct ftl {
  struct header *header;
  uint32_t *map;
  struct block *block;
  uint32_t pages, block_pages, blocks, slc_pages;
  /* What follows from the state. */
  uint32_t *owner; /* per flash page, those of the SLC cache last: the logical page in it, NONE: no valid one */
  uint32_t *valid; /* per block */
  struct links *links;
  uint32_t *bucket; /* per number of valid pages: the first block */
  uint32_t *free;   /* a ring of blocks, the longest free first: so all of them take turns */
  uint32_t free_first, free_count;
  uint32_t victim, victim_at, victim_step; /* being emptied: the next page to look at, pages to move at each step */
};

uint64_t ftl_blocks(uint64_t pages, uint64_t block_pages, uint64_t op_thousandths)
{
  const uint64_t whole = 100 * 1000;
  uint64_t extra = pages / whole * op_thousandths + (pages % whole * op_thousandths + whole - 1) / whole;
  return (pages + extra + block_pages - 1) / block_pages;
}

uint64_t ftl_spare_blocks(const struct ftl_shape *shape)
{
  uint64_t logical = (shape->pages + shape->block_pages - 1) / shape->block_pages;
  return shape->blocks > logical ? shape->blocks - logical : 0;
}

/* gc_low free ones and both frontiers: then a block that is full has an invalid page whenever a victim is wanted. */
uint64_t ftl_spare_blocks_needed(uint64_t gc_low)
{
  return gc_low + FRONTIERS;
}

size_t ftl_state_bytes(const struct ftl_shape *shape)
{
  uint64_t map = (shape->pages + 1) / 2 * 2 * sizeof(uint32_t);
  return sizeof(struct header) + map + shape->blocks * sizeof(struct block);
}

void ftl_format(void *state, const struct ftl_shape *shape)
{
  struct header *header = state;
  header->shape = *shape;
  for (unsigned i = 0; i < FRONTIERS; i++)
    header->frontier[i] = NONE;
  memcpy(header->magic, MAGIC, sizeof MAGIC);
}

/* ---- lists of blocks ---- */

static void list_add(struct ftl *ftl, uint32_t block)
{
  uint32_t *first = &ftl->bucket[ftl->valid[block]];
  ftl->links[block] = (struct links){.previous = NONE, .next = *first};
  if (*first != NONE)
    ftl->links[*first].previous = block;
  *first = block;
}

static void list_remove(struct ftl *ftl, uint32_t block)
{
  const struct links *links = &ftl->links[block];
  *(links->previous == NONE ? &ftl->bucket[ftl->valid[block]] : &ftl->links[links->previous].next) = links->next;
  if (links->next != NONE)
    ftl->links[links->next].previous = links->previous;
}

static bool is_listed(const struct ftl *ftl, uint32_t block)
{
  return ftl->block[block].filled == ftl->block_pages && block != ftl->victim;
}

static void free_add(struct ftl *ftl, uint32_t block)
{
  ftl->free[(ftl->free_first + ftl->free_count++) % ftl->blocks] = block;
}

static uint32_t free_take(struct ftl *ftl)
{
  uint32_t block = ftl->free[ftl->free_first];
  ftl->free_first = (ftl->free_first + 1) % ftl->blocks;
  ftl->free_count--;
  return block;
}

/* ---- the map ---- */

static bool is_in_block(const struct ftl *ftl, uint32_t flash_page)
{
  return flash_page < ftl->blocks * ftl->block_pages;
}

/* A page of a block became valid, or is so no more. */
static void count_valid(struct ftl *ftl, uint32_t flash_page, int change)
{
  if (!is_in_block(ftl, flash_page))
    return;
  uint32_t block = flash_page / ftl->block_pages;
  bool listed = is_listed(ftl, block);
  if (listed)
    list_remove(ftl, block);
  ftl->valid[block] += (uint32_t)change;
  if (listed)
    list_add(ftl, block);
}

/* Points a logical page to a flash page + 1, or to nothing (0). */
static void point(struct ftl *ftl, uint32_t page, uint32_t to)
{
  uint32_t from = ftl->map[page];
  ftl->map[page] = to;
  ftl->header->mapped += (uint32_t)(to != 0) - (uint32_t)(from != 0);
  if (from != 0) {
    ftl->owner[from - 1] = NONE;
    count_valid(ftl, from - 1, -1);
  }
  if (to != 0) {
    ftl->owner[to - 1] = page;
    count_valid(ftl, to - 1, 1);
  }
}

/* Programs a logical page into the block that is being filled. */
static void append(struct ftl *ftl, enum frontier which, uint32_t page)
{
  uint32_t *frontier = &ftl->header->frontier[which];
  if (*frontier == NONE)
    *frontier = free_take(ftl);
  uint32_t number = *frontier;
  struct block *block = &ftl->block[number];
  uint32_t flash_page = number * ftl->block_pages + block->filled;
  bool full = block->filled + 1 == ftl->block_pages;
  if (full) {
    *frontier = NONE;
    list_add(ftl, number);
  }
  block->filled++;
  point(ftl, page, flash_page + 1);
}

/* ---- garbage collection ---- */

/* Takes the full block with the fewest valid pages. False if no full block has an invalid one. */
static bool choose_victim(struct ftl *ftl)
{
  uint32_t valid = 0;
  while (valid < ftl->block_pages && ftl->bucket[valid] == NONE)
    valid++;
  if (valid == ftl->block_pages)
    return false;
  uint32_t victim = ftl->bucket[valid];
  list_remove(ftl, victim);
  ftl->victim = victim;
  ftl->victim_at = victim * ftl->block_pages;
  /* The host may take as many pages as the victim has invalid ones until it is erased. */
  uint32_t invalid = ftl->block_pages - valid;
  ftl->victim_step = (valid + invalid - 1) / invalid;
  return true;
}

static void erase_victim(struct ftl *ftl, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  uint32_t victim = ftl->victim;
  ftl->block[victim].filled = 0;
  free_add(ftl, victim);
  ftl->victim = NONE;
  if (rules->off)
    return;
  ftl->block[victim].erases++;
  ftl->header->erases++;
  listener->erased(listener->context, victim);
}

static void count_move(struct ftl *ftl, uint32_t page, const struct ftl_listener *listener)
{
  ftl->header->gc_moves++;
  listener->moved(listener->context, page);
}

/* Moves so many valid pages out of the victim, and erases it after the last. False if there is none to take. */
static bool collect(struct ftl *ftl, uint32_t moves, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  if (ftl->victim == NONE && !choose_victim(ftl))
    return false;
  uint32_t end = (ftl->victim + 1) * ftl->block_pages;
  for (; ftl->victim_at < end; ftl->victim_at++) {
    uint32_t page = ftl->owner[ftl->victim_at];
    if (page == NONE)
      continue;
    if (moves-- == 0)
      return true;
    append(ftl, GC, page);
    if (!rules->off)
      count_move(ftl, page, listener);
  }
  erase_victim(ftl, rules, listener);
  return true;
}

/* Sees to it that the host can fill a page of a block. */
static void make_room(struct ftl *ftl, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  bool begins_block = ftl->header->frontier[HOST] == NONE;
  if (rules->amortised && (ftl->victim != NONE || (ftl->free_count < rules->gc_low && choose_victim(ftl))))
    collect(ftl, ftl->victim_step, rules, listener);
  uint64_t wanted = rules->amortised ? FTL_GC_LOW_MIN : rules->gc_low;
  while (begins_block && ftl->free_count < wanted && collect(ftl, ftl->block_pages, rules, listener))
    ;
}

/* ---- what the drive is asked for ---- */

bool ftl_write(struct ftl *ftl, uint64_t page, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  struct header *header = ftl->header;
  bool to_slc = header->slc_used < ftl->slc_pages;
  header->host_pages++;
  if (to_slc) {
    uint32_t slot = (uint32_t)(((uint64_t)header->slc_first + header->slc_used++) % ftl->slc_pages);
    point(ftl, (uint32_t)page, ftl->blocks * ftl->block_pages + slot + 1);
  } else {
    make_room(ftl, rules, listener);
    append(ftl, HOST, (uint32_t)page);
  }
  return to_slc;
}

void ftl_count_host_bytes(struct ftl *ftl, uint64_t bytes)
{
  ftl->header->host_bytes += bytes;
}

void ftl_trim(struct ftl *ftl, uint64_t page)
{
  point(ftl, (uint32_t)page, 0);
}

bool ftl_is_mapped(const struct ftl *ftl, uint64_t page)
{
  return ftl->map[page] != 0;
}

/* The oldest slot of the SLC cache. */
static void fold_slot(struct ftl *ftl, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  struct header *header = ftl->header;
  uint32_t page = ftl->owner[ftl->blocks * ftl->block_pages + header->slc_first];
  if (page != NONE) {
    make_room(ftl, rules, listener);
    append(ftl, HOST, page);
    count_move(ftl, page, listener);
  }
  header->slc_first = (header->slc_first + 1) % ftl->slc_pages;
  header->slc_used--;
}

bool ftl_tidy(struct ftl *ftl, const struct ftl_rules *rules, const struct ftl_listener *listener)
{
  if (ftl->header->slc_used > 0) {
    for (uint32_t i = 0; i < ftl->block_pages && ftl->header->slc_used > 0; i++)
      fold_slot(ftl, rules, listener);
    return true;
  }
  return ftl->free_count < ftl_spare_blocks(&ftl->header->shape) / 2 && collect(ftl, ftl->block_pages, rules, listener);
}

struct ftl_totals ftl_totals(const struct ftl *ftl)
{
  const struct header *header = ftl->header;
  struct ftl_totals totals = {
    .host_bytes = header->host_bytes,
    .host_pages = header->host_pages,
    .gc_moves = header->gc_moves,
    .erases = header->erases,
    .erases_min = UINT32_MAX,
    .mapped = header->mapped,
    .free_blocks = ftl->free_count,
  };
  for (uint32_t i = 0; i < ftl->blocks; i++) {
    uint32_t erases = ftl->block[i].erases;
    totals.erases_min = erases < totals.erases_min ? erases : totals.erases_min;
    totals.erases_max = erases > totals.erases_max ? erases : totals.erases_max;
  }
  return totals;
}

/* ---- taking up a state ---- */

/* True if this flash page can hold data: programmed since the last erase, or in the ring of the SLC cache. */
static bool is_programmed(const struct ftl *ftl, uint32_t flash_page)
{
  if (is_in_block(ftl, flash_page))
    return flash_page % ftl->block_pages < ftl->block[flash_page / ftl->block_pages].filled;
  uint32_t slot = flash_page - ftl->blocks * ftl->block_pages;
  return slot < ftl->slc_pages && (slot + ftl->slc_pages - ftl->header->slc_first) % ftl->slc_pages < ftl->header->slc_used;
}

/* Finds what follows from the map. False if it contradicts itself. */
static bool read_map(struct ftl *ftl)
{
  uint32_t mapped = 0;
  for (uint32_t page = 0; page < ftl->pages; page++) {
    if (ftl->map[page] == 0)
      continue;
    uint32_t flash_page = ftl->map[page] - 1;
    if (!is_programmed(ftl, flash_page) || ftl->owner[flash_page] != NONE)
      return false;
    ftl->owner[flash_page] = page;
    if (is_in_block(ftl, flash_page))
      ftl->valid[flash_page / ftl->block_pages]++;
    mapped++;
  }
  /* A process that was killed between two stores leaves them one apart. */
  bool agrees = mapped + 1 >= ftl->header->mapped && mapped <= ftl->header->mapped + 1;
  ftl->header->mapped = mapped;
  return agrees;
}

static bool is_frontier(const struct ftl *ftl, uint32_t block)
{
  return block == ftl->header->frontier[HOST] || block == ftl->header->frontier[GC];
}

/* Sorts the blocks into free and full ones. */
static bool read_blocks(struct ftl *ftl)
{
  uint64_t erases = 0;
  for (uint32_t i = 0; i < ftl->blocks; i++) {
    struct block *block = &ftl->block[i];
    erases += block->erases;
    if (block->filled > ftl->block_pages)
      return false;
    if (is_frontier(ftl, i))
      continue;
    if (block->filled == 0) {
      free_add(ftl, i);
      continue;
    }
    block->filled = ftl->block_pages; /* one that lost its place as a frontier between two stores */
    list_add(ftl, i);
  }
  return erases + 1 >= ftl->header->erases && erases <= ftl->header->erases + 1;
}

static bool header_is_sound(const struct header *header)
{
  for (unsigned i = 0; i < FRONTIERS; i++)
    if (header->frontier[i] != NONE && header->frontier[i] >= header->shape.blocks)
      return false;
  bool one_block = header->frontier[HOST] != NONE && header->frontier[HOST] == header->frontier[GC];
  bool in_ring = header->slc_used <= header->shape.slc_pages && header->slc_first <= header->shape.slc_pages;
  return !one_block && in_ring;
}

static bool read_state(struct ftl *ftl)
{
  struct header *header = ftl->header;
  if (!header_is_sound(header) || !read_map(ftl))
    return false;
  for (unsigned i = 0; i < FRONTIERS; i++)
    if (header->frontier[i] != NONE && ftl->block[header->frontier[i]].filled == ftl->block_pages)
      header->frontier[i] = NONE;
  return read_blocks(ftl);
}

static uint32_t *filled_with_none(uint64_t count)
{
  uint32_t *array = malloc(count * sizeof *array);
  if (array != NULL)
    memset(array, 0xff, count * sizeof *array);
  return array;
}

struct ftl *ftl_open(void *state, const struct ftl_shape *shape, const char **why)
{
  struct header *header = state;
  if (memcmp(header->magic, MAGIC, sizeof MAGIC) != 0) {
    *why = "damaged: it does not begin as the state of a flash translation layer";
    return NULL;
  }
  if (memcmp(&header->shape, shape, sizeof *shape) != 0) {
    *why = "of another drive: size, page_size, page_phase, op, block_pages or slc_size was another";
    return NULL;
  }
  struct ftl *ftl = calloc(1, sizeof *ftl);
  *why = "out of memory";
  if (ftl == NULL)
    return NULL;
  ftl->header = header;
  ftl->map = (uint32_t *)(header + 1);
  ftl->block = (struct block *)((char *)state + ftl_state_bytes(shape) - shape->blocks * sizeof(struct block));
  ftl->pages = (uint32_t)shape->pages;
  ftl->block_pages = (uint32_t)shape->block_pages;
  ftl->blocks = (uint32_t)shape->blocks;
  ftl->slc_pages = (uint32_t)shape->slc_pages;
  ftl->victim = NONE;
  ftl->owner = filled_with_none(shape->blocks * shape->block_pages + shape->slc_pages);
  ftl->valid = calloc(ftl->blocks, sizeof *ftl->valid);
  ftl->links = calloc(ftl->blocks, sizeof *ftl->links);
  ftl->bucket = filled_with_none(shape->block_pages + 1);
  ftl->free = calloc(ftl->blocks, sizeof *ftl->free);
  if (ftl->owner == NULL || ftl->valid == NULL || ftl->links == NULL || ftl->bucket == NULL || ftl->free == NULL) {
    ftl_close(ftl);
    return NULL;
  }
  if (read_state(ftl))
    return ftl;
  *why = "damaged: the map and the blocks in it contradict each other";
  ftl_close(ftl);
  return NULL;
}

void ftl_close(struct ftl *ftl)
{
  if (ftl == NULL)
    return;
  free(ftl->owner);
  free(ftl->valid);
  free(ftl->links);
  free(ftl->bucket);
  free(ftl->free);
  free(ftl);
}
