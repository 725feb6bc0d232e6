/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a page operation costs on a device that is not steady. Pure: the caller says what time it is. */
#ifndef SIMSSD_NOISE_H
#define SIMSSD_NOISE_H

#include <stdint.h>

enum noise_kind { NOISE_NONE, NOISE_DRIFT, NOISE_BURSTS, NOISE_LOGNORMAL, NOISE_PARETO };

/* Zeroed at the start: every device makes the same draws. */
struct noise {
  uint64_t state;
  int64_t burst_begins, burst_ends; /* nanoseconds; the burst that is, or the next one */
  double load;                      /* its mean extra, in costs */
};

/* The cost with its noise on it, for an operation that begins at `now`. Both in nanoseconds; what costs nothing has none. */
int64_t noise_cost(struct noise *noise, enum noise_kind kind, int64_t cost, int64_t now);

#endif
