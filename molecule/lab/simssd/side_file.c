/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "side_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *open_error(int error)
{
  if (error == ENOENT)
    return "missing, and with it what the drive went through; take the backing file away as well for a new drive";
  if (error == EEXIST)
    return "left of an earlier drive, and the backing file is new; take it away for a new drive";
  return strerror(error);
}

/* All of it at once, of the right size, with its blocks allocated: a full disk would end the process later. */
static void *map_state(int file, bool new, size_t bytes, const char **why)
{
  struct stat status;
  int error = new ? posix_fallocate(file, 0, (off_t)bytes) : 0;
  if (error == 0 && fstat(file, &status) != 0)
    error = errno;
  if (error != 0) {
    *why = strerror(error);
    return NULL;
  }
  if ((size_t)status.st_size != bytes) {
    *why = "damaged, or of another drive: its length is another than size, page_size, op, block_pages and slc_size make it";
    return NULL;
  }
  void *state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (state != MAP_FAILED)
    return state;
  *why = strerror(errno);
  return NULL;
}

static char *path_of(const char *file)
{
  char *path;
  return asprintf(&path, "%s" SIDE_FILE_SUFFIX, file) < 0 ? NULL : path;
}

bool side_file_exists(const char *file)
{
  char *path = path_of(file);
  bool exists = path != NULL && access(path, F_OK) == 0;
  free(path);
  return exists;
}

struct ftl *side_file_open(const char *file, bool new, const struct ftl_shape *shape, void **state, const char **why)
{
  char *path = path_of(file);
  if (path == NULL) {
    *why = strerror(ENOMEM);
    return NULL;
  }
  int opened = open(path, O_RDWR | O_CLOEXEC | (new ? O_CREAT | O_EXCL : 0), 0600);
  struct ftl *ftl = NULL;
  *state = NULL;
  if (opened < 0)
    *why = open_error(errno);
  else
    *state = map_state(opened, new, ftl_state_bytes(shape), why);
  if (*state != NULL) {
    if (new)
      ftl_format(*state, shape);
    ftl = ftl_open(*state, shape, why);
  }
  if (ftl == NULL && *state != NULL)
    munmap(*state, ftl_state_bytes(shape));
  if (ftl == NULL && opened >= 0 && new)
    unlink(path);
  if (opened >= 0)
    close(opened);
  free(path);
  return ftl;
}

void side_file_close(struct ftl *ftl, void *state, const struct ftl_shape *shape)
{
  ftl_close(ftl);
  munmap(state, ftl_state_bytes(shape));
}
