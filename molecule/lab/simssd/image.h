/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A file's contents into another one, holes as holes. */
#ifndef SIMSSD_IMAGE_H
#define SIMSSD_IMAGE_H

#include <stdint.h>

/* Gives `to`, which is empty, the size and contents of `from`. 0 or an errno value; *copied is the bytes that are not holes,
   or all of them where the two files came to share their blocks. */
int image_copy(int from, int to, uint64_t size, uint64_t *copied);
/* All of it, or an errno value. */
int image_pwrite(int to, const void *buffer, uint64_t offset, uint64_t length);

#endif
