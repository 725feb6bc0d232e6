/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "device.h"

#include "counters.h"
#include "image.h"
#include "medium.h"
#include "side_file.h"
#include "timing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening and closing ---- */

static int refuse(struct complaint *complaint, const char *path, const char *what)
{
  snprintf(complaint->text, sizeof complaint->text, "%s: %s", path, what);
  return -1;
}

static int open_ftl(struct device *device, bool new, struct complaint *complaint)
{
  const struct settings *settings = &device->settings;
  const char *why;

  if (settings->op == NO_FTL && !side_file_exists(settings->file))
    return 0;
  if (settings->op == NO_FTL)
    return refuse(complaint, settings->file, "has a side file: it is a drive with op=, and is started with it");
  struct ftl_shape shape = settings_ftl_shape(settings);
  device->ftl = side_file_open(settings->file, new, &shape, &device->ftl_state, &why);
  if (device->ftl != NULL)
    return 0;
  snprintf(complaint->text, sizeof complaint->text, "%s" SIDE_FILE_SUFFIX ": %s", settings->file, why);
  return -1;
}

static int open_file(struct device *device, struct complaint *complaint)
{
  const struct settings *settings = &device->settings;
  struct stat status;
  char text[128];

  device->file = open(settings->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (device->file < 0)
    return refuse(complaint, settings->file, strerror(errno));
  if (flock(device->file, LOCK_EX | LOCK_NB) != 0)
    return refuse(complaint, settings->file, "another simulated SSD is using it");
  if (fstat(device->file, &status) != 0)
    return refuse(complaint, settings->file, strerror(errno));
  if (!S_ISREG(status.st_mode))
    return refuse(complaint, settings->file, "not a regular file");
  if (status.st_size != 0 && (uint64_t)status.st_size != settings->size) {
    snprintf(text, sizeof text, "holds %" PRIu64 " bytes, but size=%" PRIu64, (uint64_t)status.st_size, settings->size);
    return refuse(complaint, settings->file, text);
  }
  if (open_ftl(device, status.st_size == 0, complaint) != 0)
    return -1;
  if (status.st_size == 0 && ftruncate(device->file, (off_t)settings->size) != 0)
    return refuse(complaint, settings->file, strerror(errno));
  return 0;
}

static void init_locks(struct device *device)
{
  pthread_rwlockattr_t gate;
  pthread_rwlockattr_init(&gate);
  /* Or a queue that never empties would keep every change out. */
  pthread_rwlockattr_setkind_np(&gate, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&device->gate, &gate);
  pthread_rwlock_init(&device->shutter, &gate);

  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&device->changed, &monotonic);
  pthread_cond_init(&device->work, &monotonic);
  pthread_mutex_init(&device->lock, NULL);
}

struct device *device_open(const struct settings *settings, struct complaint *complaint)
{
  struct device *device = calloc(1, sizeof *device);
  if (device == NULL) {
    refuse(complaint, settings->file, "out of memory");
    return NULL;
  }
  device->settings = *settings;
  device->geometry = settings_geometry(settings);
  device->channel = calloc(settings->channels, sizeof *device->channel);
  device->flight = calloc(settings->channels, sizeof *device->flight);
  device->cache = cache_new(&device->geometry, settings->cache_size);
  if (device->channel == NULL || device->flight == NULL || device->cache == NULL) {
    refuse(complaint, settings->file, "out of memory");
    return NULL;
  }
  if (open_file(device, complaint) != 0)
    return NULL;
  init_locks(device);
  return device;
}

int device_start(struct device *device)
{
  int error = pthread_create(&device->writer, NULL, medium_writer, device);
  device->writer_runs = error == 0;
  return error;
}

void device_close(struct device *device)
{
  pthread_mutex_lock(&device->lock);
  device->stopping = true;
  pthread_cond_signal(&device->work);
  pthread_mutex_unlock(&device->lock);
  if (device->writer_runs)
    pthread_join(device->writer, NULL);
  medium_write_out(device);
  cache_free(device->cache);
  if (device->ftl != NULL) {
    struct ftl_shape shape = settings_ftl_shape(&device->settings);
    side_file_close(device->ftl, device->ftl_state, &shape);
  }
  close(device->file);
  free(device->channel);
  free(device->flight);
  free(device);
}

uint64_t device_size(const struct device *device)
{
  return device->settings.size;
}

/* ---- what every request begins and ends with ---- */

/* Lets a request in, if there is power, and takes it through the controller. Returns 0 and when it comes out there. */
static int enter(struct device *device, int64_t *through_controller)
{
  pthread_rwlock_rdlock(&device->gate);
  if (device->power_lost || device->failure != 0) {
    pthread_rwlock_unlock(&device->gate);
    return EIO;
  }
  int64_t now = now_ns();
  device->last_request = now;
  pthread_mutex_lock(&device->lock);
  *through_controller = unit_book(&device->controller, now, (int64_t)device->settings.transfer_us * NS_PER_US);
  pthread_mutex_unlock(&device->lock);
  return 0;
}

static int leave(struct device *device, int error)
{
  if (error == 0 && (device->power_lost || device->failure != 0))
    error = EIO;
  device->last_request = now_ns();
  pthread_rwlock_unlock(&device->gate);
  return error;
}

static int until(struct device *device, int64_t deadline)
{
  int64_t spin = (int64_t)device->settings.spin_us * NS_PER_US;
  return wait_until(deadline, spin, &device->power_lost) ? 0 : EIO;
}

/* The same without the spin, between two steps of one request: the next is booked from the deadline, not from the wake-up. */
static int roughly_until(struct device *device, int64_t deadline)
{
  return wait_until(deadline, 0, &device->power_lost) ? 0 : EIO;
}

/* A request's share of one page. */
struct piece {
  uint64_t page;
  uint64_t begin;  /* of the page, bytes on the device */
  uint64_t offset; /* into the page */
  uint64_t length;
  bool whole;
};

static struct piece piece_at(const struct geometry *geometry, uint64_t at, uint64_t end)
{
  uint64_t page = geometry_page(geometry, at);
  uint64_t page_begin = geometry_page_begin(geometry, page);
  uint64_t page_end = geometry_page_end(geometry, page);
  struct piece piece = {.page = page, .begin = page_begin, .offset = at - page_begin};
  piece.length = (end < page_end ? end : page_end) - at;
  piece.whole = piece.length == page_end - page_begin;
  return piece;
}

/* ---- reading ---- */

/* True if the cache answers for this piece alone. */
static bool is_cached(const struct device *device, const struct piece *piece)
{
  if (device->cache->used == 0)
    return false;
  const struct flight *flight = &device->flight[geometry_channel(&device->geometry, piece->page)];
  const struct cached_page *page = cache_find(device->cache, piece->page);
  if (page != NULL && cached_page_covers(page, piece->offset, piece->length))
    return true;
  return flight->page != NULL && flight->page->page == piece->page &&
         cached_page_covers(flight->page, piece->offset, piece->length);
}

/* Books the page reads of a request and waits for them. With straddle_parallel all are booked at once, so that channels
   overlap; without, each page is asked for when the one before has come. */
static int spend_reads(struct device *device, uint64_t offset, uint64_t length, int64_t start)
{
  bool parallel = device->settings.straddle_parallel;
  uint64_t pages = 0, end = offset + length;
  int64_t more = geometry_straddles(&device->geometry, offset, length) ? (int64_t)device->settings.straddle_us * NS_PER_US : 0;
  int64_t done = start;
  int error = 0;

  pthread_mutex_lock(&device->lock);
  medium_pump(device, now_ns());
  for (struct piece piece; offset < end && error == 0; offset += piece.length) {
    piece = piece_at(&device->geometry, offset, end);
    if (is_cached(device, &piece))
      continue;
    if (pages > 0 && !parallel) {
      pthread_mutex_unlock(&device->lock);
      error = roughly_until(device, done);
      pthread_mutex_lock(&device->lock);
    }
    struct unit *channel = &device->channel[geometry_channel(&device->geometry, piece.page)];
    int64_t asked = parallel ? start : done;
    int64_t page_done = unit_book(channel, asked, medium_read_cost(device, piece.page, asked) + (pages > 0 ? more : 0));
    if (done < page_done)
      done = page_done;
    pages++;
  }
  pthread_mutex_unlock(&device->lock);
  counters_add(MEDIA_PAGE_READS, pages);
  counters_add(MEDIA_READ_BYTES, pages * device->geometry.page_size);
  return error != 0 ? error : until(device, done);
}

static int pread_all(struct device *device, void *buffer, uint64_t offset, uint64_t length)
{
  uint8_t *to = buffer;
  while (length > 0) {
    ssize_t got = pread(device->file, to, length, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      device->failure = got < 0 ? errno : ENODATA;
      return EIO;
    }
    to += got;
    offset += (uint64_t)got;
    length -= (uint64_t)got;
  }
  return 0;
}

/* Newest last: the medium, then what is being programmed, then what is dirty. Wants the lock. */
static void overlay(struct device *device, uint8_t *buffer, uint64_t offset, uint64_t length)
{
  uint64_t end = offset + length;
  for (struct piece piece; offset < end && device->cache->used > 0; offset += piece.length, buffer += piece.length) {
    piece = piece_at(&device->geometry, offset, end);
    const struct flight *flight = &device->flight[geometry_channel(&device->geometry, piece.page)];
    const struct cached_page *page = cache_find(device->cache, piece.page);
    if (flight->page != NULL && flight->page->page == piece.page)
      cached_page_overlay(flight->page, piece.offset, piece.length, buffer);
    if (page != NULL)
      cached_page_overlay(page, piece.offset, piece.length, buffer);
  }
}

static int fetch(struct device *device, void *buffer, uint64_t offset, uint64_t length)
{
  pthread_mutex_lock(&device->lock);
  uint64_t landings = device->landings;
  pthread_mutex_unlock(&device->lock);

  int error = pread_all(device, buffer, offset, length);

  pthread_mutex_lock(&device->lock);
  /* A page that left the cache meanwhile may be in neither of the two views: look again, with the cache held still. */
  if (error == 0 && device->landings != landings)
    error = pread_all(device, buffer, offset, length);
  overlay(device, buffer, offset, length);
  pthread_mutex_unlock(&device->lock);
  return error;
}

int device_read(struct device *device, void *buffer, uint64_t offset, uint64_t length)
{
  int64_t start;
  int error = enter(device, &start);
  if (error != 0)
    return error;
  counters_add(HOST_READS, 1);
  counters_add(HOST_READ_BYTES, length);
  counters_add(STRADDLES, geometry_straddles(&device->geometry, offset, length));
  error = spend_reads(device, offset, length, start);
  if (error == 0)
    error = fetch(device, buffer, offset, length);
  return leave(device, error);
}

/* ---- writing ---- */

/* With capacitors what is in the cache is as safe as what is programmed: nothing has to wait for the medium. */
static bool is_protected(const struct device *device)
{
  return device->settings.write_cache && device->settings.plp;
}

/* A write past the cache, from its first booking until its pages are in the file. */
struct direct_write {
  const uint8_t *buffer;
  uint64_t offset, end;
  int64_t *done; /* per page: when it is programmed */
  struct direct_write *next;
};

/* Puts the pieces of a request on the medium whose programming was over at `now`, neighbours together. */
static void land_pieces(struct device *device, const struct direct_write *write, int64_t now)
{
  uint64_t offset = write->offset, run = 0;
  const int64_t *done = write->done;
  for (struct piece piece; offset < write->end; offset += piece.length, done++) {
    piece = piece_at(&device->geometry, offset, write->end);
    if (*done <= now) {
      medium_count_program(device, !piece.whole);
      run += piece.length;
      continue;
    }
    medium_pwrite(device, write->buffer + (offset - run - write->offset), offset - run, run);
    run = 0;
  }
  medium_pwrite(device, write->buffer + (offset - run - write->offset), offset - run, run);
}

/* Wants the lock, as the next one does. */
static void begin_direct_write(struct device *device, struct direct_write *write)
{
  write->next = device->under_way;
  device->under_way = write;
}

static void end_direct_write(struct device *device, const struct direct_write *write)
{
  struct direct_write **at = &device->under_way;
  while (*at != write)
    at = &(*at)->next;
  *at = write->next;
}

/* The pages are in the file and the write is off the list, or neither: a copy of the file sees no third. */
static void finish_direct_write(struct device *device, struct direct_write *write)
{
  pthread_rwlock_rdlock(&device->shutter);
  pthread_mutex_lock(&device->lock);
  int64_t horizon = device->power_lost ? device->power_lost_at : INT64_MAX - 1;
  pthread_mutex_unlock(&device->lock);
  land_pieces(device, write, horizon);
  pthread_mutex_lock(&device->lock);
  end_direct_write(device, write);
  pthread_mutex_unlock(&device->lock);
  pthread_rwlock_unlock(&device->shutter);
}

/* No cache: every page is programmed before the answer. A power cut leaves the pages that were done by then. */
static int write_through(struct device *device, const uint8_t *buffer, uint64_t offset, uint64_t length, int64_t start)
{
  struct direct_write write = {.buffer = buffer, .offset = offset, .end = offset + length};
  uint64_t pages = 0, touched = geometry_pages_touched(&device->geometry, offset, length);
  bool parallel = device->settings.straddle_parallel;
  int64_t last = start;
  int error = 0;

  write.done = malloc(touched * sizeof *write.done);
  if (write.done == NULL)
    return ENOMEM;
  for (uint64_t i = 0; i < touched; i++)
    write.done[i] = INT64_MAX;
  pthread_mutex_lock(&device->lock);
  begin_direct_write(device, &write);
  for (uint64_t at = offset; at < write.end && error == 0; pages++) {
    struct piece piece = piece_at(&device->geometry, at, write.end);
    if (pages > 0 && !parallel) {
      pthread_mutex_unlock(&device->lock);
      error = roughly_until(device, last);
      pthread_mutex_lock(&device->lock);
    }
    int64_t asked = parallel ? start : last;
    if (error == 0)
      write.done[pages] = medium_book_program(device, piece.page, piece.whole, asked);
    if (error == 0 && last < write.done[pages])
      last = write.done[pages];
    at += piece.length;
  }
  pthread_mutex_unlock(&device->lock);
  if (error == 0)
    error = until(device, last);
  finish_direct_write(device, &write);
  free(write.done);
  return error;
}

static int write_cached(struct device *device, const uint8_t *buffer, uint64_t offset, uint64_t length, bool fua,
                        int64_t start)
{
  uint64_t end = offset + length;
  uint64_t first = geometry_page(&device->geometry, offset);
  uint64_t last = geometry_page(&device->geometry, end - 1);
  int error = 0;

  pthread_mutex_lock(&device->lock);
  for (struct piece piece; offset < end && error == 0; offset += piece.length, buffer += piece.length) {
    piece = piece_at(&device->geometry, offset, end);
    if (!medium_wait_for_room(device, piece.page))
      error = EIO;
    else if (cache_write(device->cache, piece.page, piece.offset, buffer, piece.length, start, fua) == NULL)
      error = ENOMEM;
  }
  if (error == 0 && fua && !medium_drain_pages(device, first, last))
    error = EIO;
  medium_pump(device, now_ns());
  pthread_mutex_unlock(&device->lock);
  return error != 0 ? error : until(device, start);
}

int device_write(struct device *device, const void *buffer, uint64_t offset, uint64_t length, bool fua)
{
  int64_t start;
  int error = enter(device, &start);
  if (error != 0)
    return error;
  counters_add(HOST_WRITES, 1);
  counters_add(HOST_WRITE_BYTES, length);
  counters_add(FUA_WRITES, fua);
  counters_add(MUTATIONS, 1);
  counters_add(STRADDLES, geometry_straddles(&device->geometry, offset, length));
  if (device->ftl != NULL) {
    pthread_mutex_lock(&device->lock);
    ftl_count_host_bytes(device->ftl, length);
    pthread_mutex_unlock(&device->lock);
  }
  bool urgent = fua && device->settings.fua != FUA_IGNORE && !is_protected(device);
  if (device->settings.write_cache)
    error = write_cached(device, buffer, offset, length, urgent, start);
  else
    error = write_through(device, buffer, offset, length, start);
  return leave(device, error);
}

/* ---- flush, discard, write zeroes ---- */

int device_flush(struct device *device)
{
  int64_t start;
  int error = enter(device, &start);
  if (error != 0)
    return error;
  counters_add(FLUSHES, 1);
  if (device->settings.flush == FLUSH_IGNORE || is_protected(device))
    return leave(device, until(device, start));

  pthread_mutex_lock(&device->lock);
  if (!medium_drain(device, device->cache->sequence))
    error = EIO;
  int64_t written = device->last_landing > start ? device->last_landing : start;
  int64_t done = unit_book(&device->flusher, written, (int64_t)device->settings.flush_us * NS_PER_US);
  pthread_mutex_unlock(&device->lock);
  return leave(device, error != 0 ? error : until(device, done));
}

/* Takes the range out of the mapping: no page is programmed, and the backing file loses the blocks. */
static int unmap(struct device *device, uint64_t offset, uint64_t length, int64_t start)
{
  int error = until(device, start);
  if (error != 0)
    return error;
  pthread_mutex_lock(&device->lock);
  if (device->power_lost) {
    error = EIO;
  } else {
    medium_pump(device, now_ns());
    medium_forget(device, offset, length);
    medium_unmap(device, offset, length);
    if (fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length) != 0)
      error = errno;
    device->landings++; /* the file changed: a read that is under way looks again */
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->lock);
  return error;
}

int device_discard(struct device *device, uint64_t offset, uint64_t length)
{
  int64_t start;
  int error = enter(device, &start);
  if (error != 0)
    return error;
  counters_add(DISCARDS, 1);
  counters_add(DISCARD_BYTES, length);
  counters_add(MUTATIONS, 1);
  return leave(device, device->settings.trim == TRIM_IGNORE ? until(device, start) : unmap(device, offset, length, start));
}

int device_zero(struct device *device, uint64_t offset, uint64_t length)
{
  int64_t start;
  int error = enter(device, &start);
  if (error != 0)
    return error;
  counters_add(ZEROES, 1);
  counters_add(ZERO_BYTES, length);
  counters_add(MUTATIONS, 1);
  return leave(device, unmap(device, offset, length, start));
}

/* ---- from outside ---- */

/* Wants the lock, and gives it back. Nothing that began before may end after the power comes back. */
static void lose_power(struct device *device, int64_t now)
{
  if (!device->power_lost)
    device->power_lost_at = now;
  device->power_lost = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);

  pthread_rwlock_wrlock(&device->gate);
  pthread_mutex_lock(&device->lock);
  memset(device->channel, 0, device->geometry.channels * sizeof *device->channel);
  device->controller = device->flusher = (struct unit){0};
  pthread_mutex_unlock(&device->lock);
  pthread_rwlock_unlock(&device->gate);
}

void device_power_off(struct device *device)
{
  pthread_mutex_lock(&device->lock);
  medium_write_out(device);
  lose_power(device, now_ns());
}

uint64_t device_power_cut(struct device *device)
{
  pthread_mutex_lock(&device->lock);
  int64_t now = now_ns();
  medium_pump(device, now);
  if (is_protected(device))
    medium_write_out(device);
  uint64_t lost = medium_drop(device);
  counters_add(CACHE_LOST_BYTES, lost);
  lose_power(device, now);
  return lost;
}

void device_power_on(struct device *device)
{
  device->power_lost = false;
}

/* The pages of direct writes that were programmed by `now`; their requests put them in the file themselves, later. */
static int copy_under_way(const struct device *device, int to, int64_t now)
{
  int error = 0;
  for (const struct direct_write *write = device->under_way; write != NULL; write = write->next) {
    const int64_t *done = write->done;
    uint64_t offset = write->offset;
    for (struct piece piece; offset < write->end && error == 0; offset += piece.length, done++) {
      piece = piece_at(&device->geometry, offset, write->end);
      if (*done <= now)
        error = image_pwrite(to, write->buffer + (offset - write->offset), offset, piece.length);
    }
  }
  return error;
}

static int copy_cached_page(const struct device *device, int to, const struct cached_page *page)
{
  uint64_t begin = geometry_page_begin(&device->geometry, page->page);
  uint64_t offset = 0, length;
  int error = 0;
  for (; error == 0 && cached_page_run(page, &offset, &length); offset += length)
    error = image_pwrite(to, page->data + offset, begin + offset, length);
  return error;
}

/* What capacitors would write out: of each page what is being programmed first, then what is newer. */
static int copy_cache(const struct device *device, int to)
{
  int error = 0;
  for (uint64_t channel = 0; channel < device->geometry.channels; channel++) {
    const struct page_list *lists[] = {&device->cache->channel[channel].urgent, &device->cache->channel[channel].aging};
    if (device->flight[channel].page != NULL && error == 0)
      error = copy_cached_page(device, to, device->flight[channel].page);
    for (unsigned i = 0; i < 2; i++)
      for (const struct cached_page *page = lists[i]->first; page != NULL && error == 0; page = page->next)
        error = copy_cached_page(device, to, page);
  }
  return error;
}

/* The instant is when both are held: nothing lands, nothing is answered, until the copy is done. */
static int copy_now(struct device *device, int to, struct image *image)
{
  pthread_rwlock_wrlock(&device->shutter);
  pthread_mutex_lock(&device->lock);
  int64_t now = now_ns();
  medium_pump(device, now);
  int error = device->failure;
  if (error == 0)
    error = image_copy(device->file, to, device->settings.size, &image->bytes);
  if (error == 0)
    error = copy_under_way(device, to, device->power_lost ? device->power_lost_at : now);
  if (error == 0 && is_protected(device))
    error = copy_cache(device, to);
  image->held_ns = (uint64_t)(now_ns() - now);
  pthread_mutex_unlock(&device->lock);
  pthread_rwlock_unlock(&device->shutter);
  return error;
}

int device_copy(struct device *device, const char *path, struct image *image, struct complaint *complaint)
{
  if (path[0] != '/') /* nbdkit works in / */
    return refuse(complaint, path, "expected an absolute path");
  int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (to < 0)
    return refuse(complaint, path, strerror(errno));
  int error = copy_now(device, to, image);
  if (close(to) != 0 && error == 0)
    error = errno;
  if (error == 0)
    return 0;
  unlink(path);
  return refuse(complaint, path, strerror(error));
}

/* Pages move under a new phase, and nothing may be volatile once there is no cache: both begin with an empty one. */
static int change(struct device *device, const struct settings *wanted, struct complaint *complaint)
{
  bool moves = wanted->page_phase != device->settings.page_phase;
  bool ends_caching = device->settings.write_cache && !wanted->write_cache;

  if ((moves || ends_caching) && !medium_drain(device, device->cache->sequence) && device->cache->used > 0)
    return refuse(complaint, "page_phase, write_cache", "power was lost while the cache was being written out");
  device->settings = *wanted;
  device->geometry = settings_geometry(wanted);
  device->cache->geometry = device->geometry;
  return 0;
}

int device_set(struct device *device, const char *key, const char *value, struct complaint *complaint)
{
  pthread_rwlock_wrlock(&device->gate);
  pthread_mutex_lock(&device->lock);
  struct settings wanted = device->settings;
  int result = settings_set(&wanted, key, value, true, complaint);
  if (result == 0)
    result = change(device, &wanted, complaint);
  pthread_cond_broadcast(&device->changed);
  pthread_cond_signal(&device->work);
  pthread_mutex_unlock(&device->lock);
  pthread_rwlock_unlock(&device->gate);
  return result;
}

const char *device_failure(const struct device *device)
{
  return device->failure == 0 ? NULL : strerror(device->failure);
}

int device_settings_json(struct device *device, char *text, size_t size)
{
  pthread_mutex_lock(&device->lock);
  int result = settings_json(&device->settings, text, size);
  pthread_mutex_unlock(&device->lock);
  return result;
}

bool device_has_ftl(const struct device *device)
{
  return device->ftl != NULL;
}

/* NVMe's percentage used goes up to 255, and its data units are 1000 sectors, rounded up (log page 02h). */
#define UNREPORTABLE 255

static uint64_t units(uint64_t bytes)
{
  const uint64_t unit = 1000 * SECTOR_BYTES;
  return (bytes + unit - 1) / unit;
}

int device_smart_json(struct device *device, char *text, size_t size)
{
  const struct settings *settings = &device->settings;
  struct ftl_shape shape = settings_ftl_shape(settings);
  pthread_mutex_lock(&device->lock);
  struct ftl_totals totals = ftl_totals(device->ftl);
  pthread_mutex_unlock(&device->lock);
  uint64_t media_bytes = (totals.host_pages + totals.gc_moves) * settings->page_size;
  double mean = (double)totals.erases / (double)shape.blocks;
  double used = 100 * mean / (double)settings->rated_cycles;
  int length =
    snprintf(text, size,
             "{\"percentage_used\": %u, \"host_units_written\": %" PRIu64 ", \"media_units_written\": %" PRIu64
             ", \"host_pages\": %" PRIu64 ", \"gc_moves\": %" PRIu64 ", \"erases\": %" PRIu64
             ", \"erases_min\": %u, \"erases_mean\": %.3f, \"erases_max\": %u, \"mapped\": %u, \"free\": %u"
             ", \"pages\": %" PRIu64 ", \"block_pages\": %" PRIu64 ", \"blocks\": %" PRIu64 "}",
             used < UNREPORTABLE ? (unsigned)used : UNREPORTABLE, units(totals.host_bytes), units(media_bytes), totals.host_pages,
             totals.gc_moves, totals.erases, totals.erases_min, mean, totals.erases_max, totals.mapped, totals.free_blocks,
             shape.pages, shape.block_pages, shape.blocks);
  return length > 0 && (size_t)length < size ? 0 : -1;
}
