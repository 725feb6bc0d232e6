/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of the flash translation layer in a file beside the backing file: FILE.ftl. It is mapped, so it outlives the process
   however that ends. */
#ifndef SIMSSD_SIDE_FILE_H
#define SIMSSD_SIDE_FILE_H

#include "ftl.h"

#include <stdbool.h>

#define SIDE_FILE_SUFFIX ".ftl"

/* Opens the side file of a backing file, and makes it for a `new` one. A backing file that held data before has to have one, and a new
   one must not. NULL, and *why the side file cannot be had, one sentence. */
struct ftl *side_file_open(const char *file, bool new, const struct ftl_shape *shape, void **state, const char **why);
bool side_file_exists(const char *file);
/* Ends both. */
void side_file_close(struct ftl *ftl, void *state, const struct ftl_shape *shape);

#endif
