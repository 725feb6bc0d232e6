/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The books of a flash translation layer: which logical page lies in which block, and what garbage collection moves and erases.
   Accounting only: no data, no time, no locks, no files. Pages and blocks are counted, not bytes. */
#ifndef SIMSSD_FTL_H
#define SIMSSD_FTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FTL_PAGES_MAX (UINT32_MAX - 1)
#define FTL_GC_LOW_MIN 2u /* the host never takes the last free block: garbage collection may need it */

/* What cannot change in the life of a drive. */
struct ftl_shape {
  uint64_t size, page_size, page_phase; /* bytes */
  uint64_t pages;                       /* logical */
  uint64_t block_pages, blocks;
  uint64_t slc_pages; /* of the SLC cache, beside the blocks */
};

/* How garbage collection works. */
struct ftl_rules {
  uint64_t gc_low; /* free blocks below which it begins */
  bool amortised;  /* a victim's pages are moved a few with each page of the host, not all at once */
  bool off;        /* it takes place for nothing: neither told nor counted */
};

/* Told of what the medium has to do for garbage collection. */
struct ftl_listener {
  void *context;
  void (*moved)(void *context, uint32_t page); /* read and programmed again */
  void (*erased)(void *context, uint32_t block);
};

/* Since the drive was new. */
struct ftl_totals {
  uint64_t host_bytes; /* as the host wrote them */
  uint64_t host_pages, gc_moves, erases;
  uint32_t erases_min, erases_max; /* of a block */
  uint32_t mapped, free_blocks;
};

struct ftl;

/* The blocks that this over-provisioning (1/1000 of a per cent of the logical pages) comes to, rounded up. */
uint64_t ftl_blocks(uint64_t pages, uint64_t block_pages, uint64_t op_thousandths);
/* Blocks beside those that hold the logical pages; less than this, and garbage collection could come to a stop. */
uint64_t ftl_spare_blocks(const struct ftl_shape *shape);
uint64_t ftl_spare_blocks_needed(uint64_t gc_low);

/* Bytes of the state that outlives the process. */
size_t ftl_state_bytes(const struct ftl_shape *shape);
/* Makes zeroed memory the state of a new drive. */
void ftl_format(void *state, const struct ftl_shape *shape);
/* Takes up a state, which stays the caller's and is kept up to date in place: after each single store it can be opened again.
   NULL, and *why: damaged, another shape, out of memory. */
struct ftl *ftl_open(void *state, const struct ftl_shape *shape, const char **why);
void ftl_close(struct ftl *ftl);

/* The host programs a page; garbage collection that has to come first is told before this returns. True if the page went to
   the SLC cache. */
bool ftl_write(struct ftl *ftl, uint64_t page, const struct ftl_rules *rules, const struct ftl_listener *listener);
/* The host sent so much. */
void ftl_count_host_bytes(struct ftl *ftl, uint64_t bytes);
void ftl_trim(struct ftl *ftl, uint64_t page);
bool ftl_is_mapped(const struct ftl *ftl, uint64_t page);
/* A step of work that nobody waits for: a block's worth of the SLC cache into blocks, or else one victim, as long as less than
   half of the spare blocks are free. False if there is nothing to do. */
bool ftl_tidy(struct ftl *ftl, const struct ftl_rules *rules, const struct ftl_listener *listener);
struct ftl_totals ftl_totals(const struct ftl *ftl);

#endif
