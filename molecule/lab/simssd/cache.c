/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

struct cache *cache_new(const struct geometry *geometry, uint64_t bytes)
{
  struct cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return NULL;
  cache->geometry = *geometry;
  cache->slots = bytes / geometry->page_size;
  cache->buckets = cache->slots;
  cache->bucket = calloc(cache->buckets, sizeof(struct cached_page *));
  cache->channel = calloc(geometry->channels, sizeof *cache->channel);
  if (cache->bucket == NULL || cache->channel == NULL) {
    cache_free(cache);
    return NULL;
  }
  return cache;
}

void cache_free(struct cache *cache)
{
  if (cache == NULL)
    return;
  for (uint64_t i = 0; cache->bucket != NULL && i < cache->buckets; i++)
    while (cache->bucket[i] != NULL) {
      struct cached_page *page = cache->bucket[i];
      cache->bucket[i] = page->hash_next;
      free(page);
    }
  free(cache->bucket);
  free(cache->channel);
  free(cache);
}

/* Where the pointer to this page stands, or would stand. Neighbours fall into neighbouring buckets. */
static struct cached_page **slot_of(const struct cache *cache, uint64_t page)
{
  struct cached_page **slot = &cache->bucket[page % cache->buckets];
  while (*slot != NULL && (*slot)->page != page)
    slot = &(*slot)->hash_next;
  return slot;
}

struct cached_page *cache_find(const struct cache *cache, uint64_t page)
{
  return *slot_of(cache, page);
}

bool cache_has_room(const struct cache *cache, uint64_t page)
{
  return cache->used < cache->slots || cache_find(cache, page) != NULL;
}

static struct page_list *list_of(struct cache *cache, const struct cached_page *page)
{
  struct dirty_lists *lists = &cache->channel[geometry_channel(&cache->geometry, page->page)];
  return page->urgent ? &lists->urgent : &lists->aging;
}

static void append(struct page_list *list, struct cached_page *page)
{
  page->previous = list->last;
  page->next = NULL;
  *(list->last == NULL ? &list->first : &list->last->next) = page;
  list->last = page;
}

static void unlink_page(struct page_list *list, struct cached_page *page)
{
  *(page->previous == NULL ? &list->first : &page->previous->next) = page->next;
  *(page->next == NULL ? &list->last : &page->next->previous) = page->previous;
}

/* One allocation: the record, its data, its valid flags. */
static struct cached_page *new_page(const struct geometry *geometry, uint64_t number)
{
  uint64_t bytes = geometry_page_end(geometry, number) - geometry_page_begin(geometry, number);
  uint64_t sectors = bytes / SECTOR_BYTES;
  struct cached_page *page = malloc(sizeof *page + bytes + sectors * sizeof(bool));
  if (page == NULL)
    return NULL;
  *page = (struct cached_page){.page = number, .sectors = sectors};
  page->data = (uint8_t *)(page + 1);
  page->valid = (bool *)(page->data + bytes);
  memset(page->valid, 0, sectors * sizeof(bool));
  return page;
}

struct cached_page *cache_write(struct cache *cache, uint64_t number, uint64_t offset, const void *data, uint64_t length,
                                int64_t now, bool urgent)
{
  struct cached_page **slot = slot_of(cache, number);
  struct cached_page *page = *slot;
  if (page == NULL) {
    page = new_page(&cache->geometry, number);
    if (page == NULL)
      return NULL;
    page->sequence = ++cache->sequence;
    page->dirty_since = now;
    page->urgent = urgent;
    *slot = page;
    append(list_of(cache, page), page);
    cache->used++;
  } else if (urgent && !page->urgent) {
    unlink_page(list_of(cache, page), page);
    page->urgent = true;
    append(list_of(cache, page), page);
  }
  memcpy(page->data + offset, data, length);
  memset(page->valid + offset / SECTOR_BYTES, true, length / SECTOR_BYTES);
  return page;
}

void cache_take(struct cache *cache, struct cached_page *taken)
{
  *slot_of(cache, taken->page) = taken->hash_next;
  unlink_page(list_of(cache, taken), taken);
}

void cache_release(struct cache *cache, struct cached_page *taken)
{
  cache->used--;
  free(taken);
}

bool cached_page_is_whole(const struct cached_page *page)
{
  return memchr(page->valid, false, page->sectors) == NULL;
}

uint64_t cached_page_valid_bytes(const struct cached_page *page)
{
  uint64_t sectors = 0;
  for (uint64_t i = 0; i < page->sectors; i++)
    sectors += page->valid[i];
  return sectors * SECTOR_BYTES;
}

bool cached_page_covers(const struct cached_page *page, uint64_t offset, uint64_t length)
{
  return memchr(page->valid + offset / SECTOR_BYTES, false, length / SECTOR_BYTES) == NULL;
}

void cached_page_forget(struct cached_page *page, uint64_t offset, uint64_t length)
{
  memset(page->valid + offset / SECTOR_BYTES, false, length / SECTOR_BYTES);
}

void cached_page_overlay(const struct cached_page *page, uint64_t offset, uint64_t length, void *buffer)
{
  uint64_t at = offset, run;
  while (at < offset + length && cached_page_run(page, &at, &run) && at < offset + length) {
    if (run > offset + length - at)
      run = offset + length - at;
    memcpy((uint8_t *)buffer + (at - offset), page->data + at, run);
    at += run;
  }
}

bool cached_page_run(const struct cached_page *page, uint64_t *offset, uint64_t *length)
{
  uint64_t first = *offset / SECTOR_BYTES;
  while (first < page->sectors && !page->valid[first])
    first++;
  uint64_t last = first;
  while (last < page->sectors && page->valid[last])
    last++;
  *offset = first * SECTOR_BYTES;
  *length = (last - first) * SECTOR_BYTES;
  return first < page->sectors;
}
