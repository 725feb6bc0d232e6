/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The simulated SSD. Requests may come from any number of threads; each returns 0 or an errno value. */
#ifndef SIMSSD_DEVICE_H
#define SIMSSD_DEVICE_H

#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;

/* What a copy was. */
struct image {
  uint64_t bytes;   /* that are not holes */
  uint64_t held_ns; /* how long requests stood still */
};

/* Opens the backing file, locked against a second device. Takes the settings over; NULL and a complaint on failure. */
struct device *device_open(const struct settings *settings, struct complaint *complaint);
/* Begins background writing; after the fork, because threads do not survive one. */
int device_start(struct device *device);
/* An orderly end: what is in the cache is written out, without taking simulated time. */
void device_close(struct device *device);

uint64_t device_size(const struct device *device);
int device_read(struct device *device, void *buffer, uint64_t offset, uint64_t length);
int device_write(struct device *device, const void *buffer, uint64_t offset, uint64_t length, bool fua);
int device_flush(struct device *device);
int device_discard(struct device *device, uint64_t offset, uint64_t length);
int device_zero(struct device *device, uint64_t offset, uint64_t length);

/* The orderly end of power: the cache is written out, without taking simulated time; EIO for all from then on. */
void device_power_off(struct device *device);
/* Drops the cache (with capacitors: writes it out) and everything that is not programmed at this moment; EIO for all until
   device_power_on(). Returns the bytes that were lost from the cache. */
uint64_t device_power_cut(struct device *device);
void device_power_on(struct device *device);
/* What a power cut at this instant would leave, into a new file. Requests stand still meanwhile, and go on; whatever was answered
   before the instant is in it. 0, or -1 and the complaint, and no file. */
int device_copy(struct device *device, const char *path, struct image *image, struct complaint *complaint);
/* Waits for the requests under way; where the key asks for it, for the cache to be written out. */
int device_set(struct device *device, const char *key, const char *value, struct complaint *complaint);
/* Why the device gave up for good, or NULL. */
const char *device_failure(const struct device *device);
bool device_has_ftl(const struct device *device);
/* What the flash translation layer went through since the drive was new. */
int device_smart_json(struct device *device, char *text, size_t size);
int device_settings_json(struct device *device, char *text, size_t size);

#endif
