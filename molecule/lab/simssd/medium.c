/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "medium.h"

#include "counters.h"
#include "timing.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

int medium_pwrite(struct device *device, const void *buffer, uint64_t offset, uint64_t length)
{
  const uint8_t *from = buffer;
  while (length > 0) {
    ssize_t written = pwrite(device->file, from, length, (off_t)offset);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      device->failure = written < 0 ? errno : EIO;
      return device->failure;
    }
    from += written;
    offset += (uint64_t)written;
    length -= (uint64_t)written;
  }
  return 0;
}

void medium_count_program(const struct device *device, bool rmw)
{
  counters_add(MEDIA_PAGE_PROGRAMS, 1);
  counters_add(MEDIA_WRITE_BYTES, device->geometry.page_size);
  if (rmw) {
    counters_add(RMW, 1);
    counters_add(MEDIA_PAGE_READS, 1);
    counters_add(MEDIA_READ_BYTES, device->geometry.page_size);
  }
}

static int64_t noisy(struct device *device, int64_t cost, int64_t now)
{
  return noise_cost(&device->noise, device->settings.noise, cost, now);
}

/* Without a flash translation layer a page that is a hole in the backing file counts as unmapped. */
static bool is_mapped(const struct device *device, uint64_t page)
{
  if (device->ftl != NULL)
    return ftl_is_mapped(device->ftl, page);
  off_t data = lseek(device->file, (off_t)geometry_page_begin(&device->geometry, page), SEEK_DATA);
  return data >= 0 && (uint64_t)data < geometry_page_end(&device->geometry, page);
}

int64_t medium_read_cost(struct device *device, uint64_t page, int64_t now)
{
  bool same = device->settings.unmapped_us == FOLLOWS_READ_US;
  uint64_t us = same || is_mapped(device, page) ? device->settings.read_us : device->settings.unmapped_us;
  return noisy(device, (int64_t)us * NS_PER_US, now);
}

/* ---- the flash translation layer ---- */

/* A program in the SLC cache takes a quarter: single-level against triple-level cells. */
#define SLC_SHARE 4

struct collection {
  struct device *device;
  int64_t earliest, done;
};

static void book_move(void *context, uint32_t page)
{
  struct collection *collection = context;
  struct device *device = collection->device;
  int64_t cost = (int64_t)(device->settings.read_us + device->settings.program_us) * NS_PER_US;
  struct unit *channel = &device->channel[geometry_channel(&device->geometry, page)];
  int64_t done = unit_book(channel, collection->earliest, noisy(device, cost, collection->earliest));
  if (collection->done < done)
    collection->done = done;
  counters_add(GC_MOVES, 1);
  counters_add(MEDIA_PAGE_READS, 1);
  counters_add(MEDIA_READ_BYTES, device->geometry.page_size);
  medium_count_program(device, false);
}

/* After the moves out of the block: until then its pages are the only copies. */
static void book_erase(void *context, uint32_t block)
{
  struct collection *collection = context;
  struct device *device = collection->device;
  struct unit *channel = &device->channel[block % device->geometry.channels];
  collection->done = unit_book(channel, collection->done, (int64_t)device->settings.erase_us * NS_PER_US);
  counters_add(ERASES, 1);
}

static struct ftl_rules rules_of(const struct settings *settings)
{
  return (struct ftl_rules){
    .gc_low = settings->gc_low,
    .amortised = settings->gc_step == GC_AMORTISED,
    .off = settings->gc == GC_OFF,
  };
}

/* Gives a page of the host its place on flash; books the garbage collection that this needs. Returns what program_us is
   divided by. */
static int64_t place(struct device *device, uint64_t page, int64_t earliest)
{
  if (device->ftl == NULL)
    return 1;
  struct collection collection = {.device = device, .earliest = earliest, .done = earliest};
  struct ftl_listener listener = {.context = &collection, .moved = book_move, .erased = book_erase};
  struct ftl_rules rules = rules_of(&device->settings);
  return ftl_write(device->ftl, page, &rules, &listener) ? SLC_SHARE : 1;
}

int64_t medium_book_program(struct device *device, uint64_t page, bool whole, int64_t earliest)
{
  int64_t ns = (int64_t)device->settings.program_us * NS_PER_US / place(device, page, earliest);
  if (!whole)
    ns += (int64_t)settings_rmw_us(&device->settings) * NS_PER_US;
  struct unit *channel = &device->channel[geometry_channel(&device->geometry, page)];
  return unit_book(channel, earliest, noisy(device, ns, earliest));
}

void medium_unmap(struct device *device, uint64_t offset, uint64_t length)
{
  const struct geometry *geometry = &device->geometry;
  if (device->ftl == NULL || length == 0)
    return;
  uint64_t last = geometry_page(geometry, offset + length - 1);
  for (uint64_t page = geometry_page(geometry, offset); page <= last; page++)
    if (geometry_page_begin(geometry, page) >= offset && geometry_page_end(geometry, page) <= offset + length)
      ftl_trim(device->ftl, page);
}

/* A step of garbage collection if the host has been quiet. Returns when to look again. */
static int64_t tidy(struct device *device, int64_t now)
{
  int64_t quiet = (int64_t)device->settings.idle_gc * NS_PER_MS;
  if (device->ftl == NULL || quiet == 0)
    return INT64_MAX;
  int64_t due = device->last_request + quiet;
  if (due < device->tidied_until)
    due = device->tidied_until;
  if (due > now)
    return due;
  struct collection collection = {.device = device, .earliest = now, .done = now};
  struct ftl_listener listener = {.context = &collection, .moved = book_move, .erased = book_erase};
  struct ftl_rules rules = rules_of(&device->settings);
  bool busy = device->cache->used > 0 || device->under_way != NULL;
  if (device->power_lost || busy || !ftl_tidy(device->ftl, &rules, &listener))
    return now + quiet;
  device->tidied_until = collection.done;
  return collection.done;
}

/* The page is on the medium: only now does the backing file get it. */
static void land(struct device *device, struct cached_page *page, bool whole, int64_t done)
{
  uint64_t begin = geometry_page_begin(&device->geometry, page->page);
  uint64_t offset = 0, length;
  medium_count_program(device, !whole);
  for (; cached_page_run(page, &offset, &length); offset += length)
    medium_pwrite(device, page->data + offset, begin + offset, length);
  cache_release(device->cache, page);
  device->landings++;
  if (device->last_landing < done)
    device->last_landing = done;
}

/* When a page may be written for its age alone. */
static int64_t ripe_at(const struct device *device, const struct cached_page *page)
{
  return page->dirty_since + (int64_t)device->settings.writeback_ms * NS_PER_MS;
}

/* What a channel should program next: what a request waits for, then the oldest, if it has to go. */
static struct cached_page *candidate(const struct device *device, uint64_t channel, int64_t now)
{
  const struct cache *cache = device->cache;
  const struct dirty_lists *dirty = &cache->channel[channel];
  struct cached_page *oldest = dirty->aging.first;

  if (dirty->urgent.first != NULL)
    return dirty->urgent.first;
  if (oldest == NULL)
    return NULL;
  bool flushed = oldest->sequence <= device->drain_to;
  bool crowded = cache->used > cache->slots / 2;
  return flushed || crowded || ripe_at(device, oldest) <= now ? oldest : NULL;
}

/* A landing that is noticed late is followed by a program that began on time: the channel loses nothing to the scheduler. */
static int64_t pump_channel(struct device *device, uint64_t channel, int64_t now)
{
  struct flight *flight = &device->flight[channel];
  int64_t free_since = now;

  for (;;) {
    if (flight->page != NULL) {
      if (flight->done > now)
        return flight->done;
      land(device, flight->page, flight->whole, flight->done);
      free_since = flight->done;
      flight->page = NULL;
    }
    struct cached_page *next = candidate(device, channel, now);
    if (next == NULL) {
      const struct cached_page *oldest = device->cache->channel[channel].aging.first;
      return oldest == NULL ? INT64_MAX : ripe_at(device, oldest);
    }
    cache_take(device->cache, next);
    int64_t earliest = free_since > next->dirty_since ? free_since : next->dirty_since;
    flight->page = next;
    flight->whole = cached_page_is_whole(next);
    flight->done = medium_book_program(device, next->page, flight->whole, earliest);
  }
}

int64_t medium_pump(struct device *device, int64_t now)
{
  int64_t next = INT64_MAX;
  uint64_t landings = device->landings;

  if (device->power_lost || device->cache->used == 0)
    return next;
  for (uint64_t channel = 0; channel < device->geometry.channels; channel++) {
    int64_t due = pump_channel(device, channel, now);
    if (due < next)
      next = due;
  }
  if (device->landings != landings)
    pthread_cond_broadcast(&device->changed);
  if (next < device->writer_due) {
    device->writer_due = next;
    pthread_cond_signal(&device->work);
  }
  return next;
}

static void wait_on(struct device *device, pthread_cond_t *condition, int64_t until)
{
  struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
  pthread_cond_timedwait(condition, &device->lock, &at);
}

void *medium_writer(void *data)
{
  struct device *device = data;

  timing_be_real_time();
  pthread_mutex_lock(&device->lock);
  while (!device->stopping) {
    device->writer_due = INT64_MIN; /* no signal to oneself */
    int64_t now = now_ns(), pumped = medium_pump(device, now), tidied = tidy(device, now);
    device->writer_due = pumped < tidied ? pumped : tidied;
    wait_on(device, &device->work, device->writer_due);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

/* What is still to come for somebody who waits. */
struct outstanding {
  bool queued;    /* a page has no place on its channel yet */
  int64_t booked; /* when the last that has one is done, 0 for none */
};

static void note_flight(struct outstanding *outstanding, const struct flight *flight)
{
  if (outstanding->booked < flight->done)
    outstanding->booked = flight->done;
}

static struct outstanding outstanding_to(const struct device *device, uint64_t sequence)
{
  struct outstanding outstanding = {0};
  for (uint64_t channel = 0; channel < device->geometry.channels; channel++) {
    const struct dirty_lists *dirty = &device->cache->channel[channel];
    const struct flight *flight = &device->flight[channel];
    if (dirty->aging.first != NULL && dirty->aging.first->sequence <= sequence)
      outstanding.queued = true;
    for (const struct cached_page *page = dirty->urgent.first; page != NULL; page = page->next)
      outstanding.queued |= page->sequence <= sequence;
    if (flight->page != NULL && flight->page->sequence <= sequence)
      note_flight(&outstanding, flight);
  }
  return outstanding;
}

static struct outstanding outstanding_pages(const struct device *device, uint64_t first, uint64_t last, uint64_t sequence)
{
  struct outstanding outstanding = {0};
  for (uint64_t number = first; number <= last; number++) {
    const struct cached_page *page = cache_find(device->cache, number);
    const struct flight *flight = &device->flight[geometry_channel(&device->geometry, number)];
    outstanding.queued |= page != NULL && page->sequence <= sequence;
    if (flight->page != NULL && flight->page->page == number && flight->page->sequence <= sequence)
      note_flight(&outstanding, flight);
  }
  return outstanding;
}

/* Lets time pass until what is outstanding may have moved on: exactly to the end of the last program, where that is known. */
static void wait_for(struct device *device, const struct outstanding *outstanding, int64_t next)
{
  if (outstanding->queued) {
    wait_on(device, &device->changed, next);
    return;
  }
  pthread_mutex_unlock(&device->lock);
  wait_until(outstanding->booked, (int64_t)device->settings.spin_us * NS_PER_US, &device->power_lost);
  pthread_mutex_lock(&device->lock);
}

bool medium_drain(struct device *device, uint64_t sequence)
{
  if (device->drain_to < sequence)
    device->drain_to = sequence;
  while (!device->power_lost) {
    int64_t next = medium_pump(device, now_ns());
    struct outstanding outstanding = outstanding_to(device, sequence);
    if (!outstanding.queued && outstanding.booked == 0)
      return true;
    wait_for(device, &outstanding, next);
  }
  return false;
}

bool medium_drain_pages(struct device *device, uint64_t first, uint64_t last)
{
  uint64_t sequence = device->cache->sequence;
  while (!device->power_lost) {
    int64_t next = medium_pump(device, now_ns());
    struct outstanding outstanding = outstanding_pages(device, first, last, sequence);
    if (!outstanding.queued && outstanding.booked == 0)
      return true;
    wait_for(device, &outstanding, next);
  }
  return false;
}

bool medium_wait_for_room(struct device *device, uint64_t page)
{
  for (;;) {
    int64_t next = medium_pump(device, now_ns());
    if (device->power_lost)
      return false;
    if (cache_has_room(device->cache, page))
      return true;
    timing_be_real_time();
    wait_on(device, &device->changed, next);
  }
}

void medium_write_out(struct device *device)
{
  for (uint64_t channel = 0; channel < device->geometry.channels; channel++) {
    struct dirty_lists *dirty = &device->cache->channel[channel];
    struct flight *flight = &device->flight[channel];
    if (flight->page != NULL)
      land(device, flight->page, flight->whole, flight->done);
    flight->page = NULL;
    for (struct cached_page *page; (page = dirty->urgent.first) != NULL || (page = dirty->aging.first) != NULL;) {
      cache_take(device->cache, page);
      place(device, page->page, 0);
      land(device, page, cached_page_is_whole(page), 0);
    }
  }
}

static void forget_in(struct device *device, struct cached_page *page, uint64_t offset, uint64_t end)
{
  uint64_t begin = geometry_page_begin(&device->geometry, page->page);
  uint64_t page_end = geometry_page_end(&device->geometry, page->page);
  uint64_t from = offset > begin ? offset : begin;
  uint64_t to = end < page_end ? end : page_end;
  if (from < to)
    cached_page_forget(page, from - begin, to - from);
}

/* Walks the cache, which is bounded, and not the range, which may be the whole device. */
void medium_forget(struct device *device, uint64_t offset, uint64_t length)
{
  for (uint64_t channel = 0; channel < device->geometry.channels && device->cache->used > 0; channel++) {
    struct page_list *lists[] = {&device->cache->channel[channel].urgent, &device->cache->channel[channel].aging};
    if (device->flight[channel].page != NULL)
      forget_in(device, device->flight[channel].page, offset, offset + length);
    for (unsigned i = 0; i < 2; i++)
      for (struct cached_page *page = lists[i]->first, *next; page != NULL; page = next) {
        next = page->next;
        forget_in(device, page, offset, offset + length);
        if (cached_page_valid_bytes(page) > 0)
          continue;
        cache_take(device->cache, page);
        cache_release(device->cache, page);
      }
  }
}

uint64_t medium_drop(struct device *device)
{
  uint64_t bytes = 0;
  for (uint64_t channel = 0; channel < device->geometry.channels; channel++) {
    struct dirty_lists *dirty = &device->cache->channel[channel];
    struct flight *flight = &device->flight[channel];
    if (flight->page != NULL) {
      bytes += cached_page_valid_bytes(flight->page);
      cache_release(device->cache, flight->page);
    }
    flight->page = NULL;
    for (struct cached_page *page; (page = dirty->urgent.first) != NULL || (page = dirty->aging.first) != NULL;) {
      bytes += cached_page_valid_bytes(page);
      cache_take(device->cache, page);
      cache_release(device->cache, page);
    }
  }
  return bytes;
}
