/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BUFFER_BYTES (256 * 1024)

int image_pwrite(int to, const void *buffer, uint64_t offset, uint64_t length)
{
  const uint8_t *from = buffer;
  while (length > 0) {
    ssize_t written = pwrite(to, from, length, (off_t)offset);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return written < 0 ? errno : EIO;
    from += written;
    offset += (uint64_t)written;
    length -= (uint64_t)written;
  }
  return 0;
}

/* What copy_file_range() cannot do between these two: other filesystems, or an old kernel. */
static bool is_unable(int error)
{
  return error == EXDEV || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static int copy_by_hand(int from, int to, uint64_t offset, uint64_t end)
{
  static uint8_t buffer[BUFFER_BYTES]; /* one copy at a time: the control socket serves one client at a time */
  while (offset < end) {
    size_t wanted = end - offset < BUFFER_BYTES ? (size_t)(end - offset) : BUFFER_BYTES;
    ssize_t got = pread(from, buffer, wanted, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : ENODATA;
    int error = image_pwrite(to, buffer, offset, (uint64_t)got);
    if (error != 0)
      return error;
    offset += (uint64_t)got;
  }
  return 0;
}

static int copy_range(int from, int to, uint64_t offset, uint64_t end)
{
  off64_t read_at = (off64_t)offset, write_at = (off64_t)offset;
  while ((uint64_t)read_at < end) {
    ssize_t done = copy_file_range(from, &read_at, to, &write_at, end - (uint64_t)read_at, 0);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0 && is_unable(errno))
      return copy_by_hand(from, to, (uint64_t)read_at, end);
    if (done <= 0)
      return done < 0 ? errno : ENODATA;
  }
  return 0;
}

int image_copy(int from, int to, uint64_t size, uint64_t *copied)
{
  *copied = size;
  if (ioctl(to, FICLONE, from) == 0)
    return 0;
  *copied = 0;
  if (ftruncate(to, (off_t)size) != 0)
    return errno;
  for (off_t end = 0;;) {
    off_t begin = lseek(from, end, SEEK_DATA);
    if (begin < 0 || (uint64_t)begin >= size)
      return begin < 0 && errno != ENXIO ? errno : 0; /* ENXIO: nothing but a hole is left */
    end = lseek(from, begin, SEEK_HOLE);
    if (end < 0)
      return errno;
    int error = copy_range(from, to, (uint64_t)begin, (uint64_t)end);
    if (error != 0)
      return error;
    *copied += (uint64_t)(end - begin);
  }
}
