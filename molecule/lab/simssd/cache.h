/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The volatile write cache as a data structure: which sectors of which pages are newer than the medium. No locks, no time. */
#ifndef SIMSSD_CACHE_H
#define SIMSSD_CACHE_H

#include "model.h"

#include <stdbool.h>
#include <stdint.h>

/* One page in the cache. Offsets into it are bytes from geometry_page_begin(). */
struct cached_page {
  uint64_t page;
  uint64_t sequence;   /* rises with every page that becomes dirty */
  int64_t dirty_since; /* nanoseconds */
  bool urgent;         /* a request waits for it: it goes before all that only age */
  struct cached_page *hash_next;
  struct cached_page *previous, *next;
  uint64_t sectors;
  bool *valid; /* per sector */
  uint8_t *data;
};

struct page_list {
  struct cached_page *first, *last;
};

/* Dirty pages of one channel, in the order in which they became dirty, or urgent. */
struct dirty_lists {
  struct page_list urgent, aging;
};

struct cache {
  struct geometry geometry;
  uint64_t slots; /* a page takes a whole one, however little of it is valid */
  uint64_t used;
  uint64_t sequence;
  uint64_t buckets;
  struct cached_page **bucket;
  struct dirty_lists *channel;
};

struct cache *cache_new(const struct geometry *geometry, uint64_t bytes);
/* Drops everything in it as well. */
void cache_free(struct cache *cache);
struct cached_page *cache_find(const struct cache *cache, uint64_t page);
bool cache_has_room(const struct cache *cache, uint64_t page);
/* Takes sectors of one page; the caller has seen to room. NULL: out of memory. */
struct cached_page *cache_write(struct cache *cache, uint64_t page, uint64_t offset, const void *data, uint64_t length,
                                int64_t now, bool urgent);
/* Out of the dirty lists, on its way to the medium; its slot stays taken until cache_release(). */
void cache_take(struct cache *cache, struct cached_page *taken);
void cache_release(struct cache *cache, struct cached_page *taken);

bool cached_page_is_whole(const struct cached_page *page);
uint64_t cached_page_valid_bytes(const struct cached_page *page);
bool cached_page_covers(const struct cached_page *page, uint64_t offset, uint64_t length);
void cached_page_forget(struct cached_page *page, uint64_t offset, uint64_t length);
/* Lays the valid sectors of [offset, offset + length) over what the medium gave. */
void cached_page_overlay(const struct cached_page *page, uint64_t offset, uint64_t length, void *buffer);
/* The next run of valid bytes at or after *offset; false at the end of the page. */
bool cached_page_run(const struct cached_page *page, uint64_t *offset, uint64_t *length);

#endif
