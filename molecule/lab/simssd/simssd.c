/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The nbdkit plugin: parameters in, requests handed on. README.md has the model. */
#include "control.h"
#include "device.h"
#include "settings.h"
#include "timing.h"

#include <errno.h>
#include <stdlib.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static struct settings settings;
static struct device *device;

static int report(const struct complaint *complaint)
{
  nbdkit_error("%s", complaint->text);
  return -1;
}

static void simssd_load(void)
{
  settings_init(&settings);
}

static void simssd_unload(void)
{
  settings_free(&settings);
}

static int simssd_config(const char *key, const char *value)
{
  struct complaint complaint;
  return settings_set(&settings, key, value, false, &complaint) == 0 ? 0 : report(&complaint);
}

static int simssd_config_complete(void)
{
  struct complaint complaint;
  return settings_check(&settings, &complaint) == 0 ? 0 : report(&complaint);
}

static int simssd_get_ready(void)
{
  struct complaint complaint;
  device = device_open(&settings, &complaint);
  if (device == NULL)
    return report(&complaint);
  if (settings.control != NULL && control_open(settings.control, &complaint) != 0)
    return report(&complaint);
  return 0;
}

static int simssd_after_fork(void)
{
  timing_drop_slack();
  /* Every thread that nbdkit starts from here on inherits it, and so is awake in time for its first request too. */
  if (settings_have_costs(&settings))
    timing_be_real_time();
  errno = device_start(device);
  if (errno == 0 && settings.control != NULL)
    errno = control_start(device);
  if (errno == 0)
    return 0;
  nbdkit_error("cannot start a thread: %m");
  return -1;
}

static void simssd_cleanup(void)
{
  if (settings.control != NULL)
    control_close(settings.control);
  device_close(device);
  device = NULL;
}

static void *simssd_open(int readonly)
{
  (void)readonly;
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t simssd_get_size(void *handle)
{
  (void)handle;
  return (int64_t)device_size(device);
}

static int simssd_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
  (void)handle;
  *minimum = SECTOR_BYTES;
  *preferred = 4096;
  *maximum = 32 << 20;
  return 0;
}

static int yes(void *handle)
{
  (void)handle;
  return 1;
}

static int simssd_can_fua(void *handle)
{
  (void)handle;
  return settings.fua == FUA_NONE ? NBDKIT_FUA_NONE : NBDKIT_FUA_NATIVE;
}

/* nbdkit has checked the range against the size; that requests come in sectors is the client's part of the protocol. */
static int answer(int error)
{
  if (error == 0)
    return 0;
  nbdkit_set_error(error);
  return -1;
}

static int in_sectors(uint64_t offset, uint32_t length)
{
  return offset % SECTOR_BYTES == 0 && length % SECTOR_BYTES == 0;
}

static int simssd_pread(void *handle, void *buffer, uint32_t length, uint64_t offset, uint32_t flags)
{
  (void)handle, (void)flags;
  return answer(in_sectors(offset, length) ? device_read(device, buffer, offset, length) : EINVAL);
}

static int simssd_pwrite(void *handle, const void *buffer, uint32_t length, uint64_t offset, uint32_t flags)
{
  (void)handle;
  bool fua = flags & NBDKIT_FLAG_FUA;
  return answer(in_sectors(offset, length) ? device_write(device, buffer, offset, length, fua) : EINVAL);
}

static int simssd_flush(void *handle, uint32_t flags)
{
  (void)handle, (void)flags;
  return answer(device_flush(device));
}

static int simssd_trim(void *handle, uint32_t length, uint64_t offset, uint32_t flags)
{
  (void)handle, (void)flags;
  return answer(in_sectors(offset, length) ? device_discard(device, offset, length) : EINVAL);
}

static int simssd_zero(void *handle, uint32_t length, uint64_t offset, uint32_t flags)
{
  (void)handle, (void)flags;
  return answer(in_sectors(offset, length) ? device_zero(device, offset, length) : EINVAL);
}

static struct nbdkit_plugin plugin = {
  .name = "simssd",
  .longname = "simulated SSD",
  .description = "An SSD with pages, channels, a volatile cache and counters",
  .load = simssd_load,
  .unload = simssd_unload,
  .config = simssd_config,
  .config_complete = simssd_config_complete,
  .config_help = "size=BYTES file=PATH (required), control=PATH, page_size=, page_phase=, channels=, read_us=, program_us=,\n"
                 "rmw_us=, flush_us=, transfer_us=, straddle_parallel=, straddle_us=, write_cache=, cache_size=, plp=, writeback_ms=,\n"
                 "flush=honest|ignore, fua=honest|ignore|none, spin_us=, noise=none|drift|bursts|lognormal|pareto,\n"
                 "trim=honest|ignore, unmapped_us=, op=PER_CENT, block_pages=, gc=greedy|off, gc_low=, gc_step=burst|amortised,\n"
                 "erase_us=, idle_gc=MILLISECONDS, slc_size=BYTES, rated_cycles=",
  .get_ready = simssd_get_ready,
  .after_fork = simssd_after_fork,
  .cleanup = simssd_cleanup,
  .open = simssd_open,
  .get_size = simssd_get_size,
  .block_size = simssd_block_size,
  .can_multi_conn = yes,
  .can_trim = yes,
  .can_zero = yes,
  .can_fast_zero = yes,
  .can_flush = yes,
  .can_fua = simssd_can_fua,
  .pread = simssd_pread,
  .pwrite = simssd_pwrite,
  .flush = simssd_flush,
  .trim = simssd_trim,
  .zero = simssd_zero,
};

NBDKIT_REGISTER_PLUGIN(plugin)
