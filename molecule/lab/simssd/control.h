/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The unix socket on which the device is watched and steered: a line in, a line of JSON out. */
#ifndef SIMSSD_CONTROL_H
#define SIMSSD_CONTROL_H

#include "device.h"
#include "settings.h"

/* Binds the socket; a left-over of a dead process is replaced, a living one is not. 0, or -1 and the complaint. */
int control_open(const char *path, struct complaint *complaint);
/* Begins to answer; after the fork. */
int control_start(struct device *device);
void control_close(const char *path);

#endif
