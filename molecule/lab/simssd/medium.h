/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The device's inside: the channels, the cache in front of them, and the program operations under way between the two. */
#ifndef SIMSSD_MEDIUM_H
#define SIMSSD_MEDIUM_H

#include "cache.h"
#include "ftl.h"
#include "model.h"
#include "settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A cached page that its channel is programming. */
struct flight {
  struct cached_page *page; /* NULL: none */
  bool whole;               /* when the operation began: a discard may take sectors out of it meanwhile */
  int64_t done;
};

struct direct_write;

struct device {
  struct settings settings;
  struct geometry geometry;
  int file;

  /* Requests hold it shared; what changes the device under them holds it alone. */
  pthread_rwlock_t gate;
  _Atomic int64_t last_request; /* when one came or ended */
  _Atomic bool power_lost;
  _Atomic int failure; /* errno of the backing file: nothing is believed after that */

  /* Requests hold it shared while they put pages in the file without the lock; a copy of the file holds it alone. It is
     taken before the lock. */
  pthread_rwlock_t shutter;

  pthread_mutex_t lock; /* all below */
  pthread_cond_t changed; /* pages landed, or power went */
  pthread_cond_t work;    /* the writer has to wake up before writer_due */
  int64_t writer_due;
  int64_t power_lost_at;
  struct unit controller, flusher;
  struct noise noise;
  struct unit *channel;
  struct flight *flight; /* per channel */
  struct cache *cache;
  struct direct_write *under_way; /* writes past the cache whose pages are not in the file yet */
  uint64_t drain_to;   /* pages up to this sequence have to be written */
  uint64_t landings;   /* program operations that ended */
  int64_t last_landing;
  struct ftl *ftl; /* NULL: none */
  void *ftl_state;
  int64_t tidied_until; /* the end of the last work in idle time */
  pthread_t writer;
  bool writer_runs, stopping;
};

/* Everything here but medium_writer() wants device->lock held. */

/* Ends and begins whatever is due at `now`. Returns when the next thing is due, INT64_MAX for nothing. */
int64_t medium_pump(struct device *device, int64_t now);
/* Writes every page of the cache up to a sequence number; false if power was lost. last_landing is when that was over. */
bool medium_drain(struct device *device, uint64_t sequence);
/* The same for the pages first..last, which are urgent already. */
bool medium_drain_pages(struct device *device, uint64_t first, uint64_t last);
bool medium_wait_for_room(struct device *device, uint64_t page);
/* Writes the cache out at once, taking no simulated time. */
void medium_write_out(struct device *device);
/* Forgets a range of the cache, also where it is being programmed. */
void medium_forget(struct device *device, uint64_t offset, uint64_t length);
/* Forgets the whole cache and what is being programmed. Returns the valid bytes that went. */
uint64_t medium_drop(struct device *device);
/* Counts one page program. */
void medium_count_program(const struct device *device, bool rmw);
/* What reading a page costs at `now`, in nanoseconds. */
int64_t medium_read_cost(struct device *device, uint64_t page, int64_t now);
/* Books the program of a page, whole or in part, on its channel, after what garbage collection does for it. Returns when it is done. */
int64_t medium_book_program(struct device *device, uint64_t page, bool whole, int64_t earliest);
/* Takes the whole pages of a range out of the flash translation layer's map. */
void medium_unmap(struct device *device, uint64_t offset, uint64_t length);
/* All of it, or the device is failed. Needs no lock. */
int medium_pwrite(struct device *device, const void *buffer, uint64_t offset, uint64_t length);
/* The thread that writes the cache back in the background. */
void *medium_writer(void *device);

#endif
