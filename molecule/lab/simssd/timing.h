/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Waiting for a point in time, as exactly as a busy machine allows. */
#ifndef SIMSSD_TIMING_H
#define SIMSSD_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);
/* For the calling thread and all that it starts: timers without slack. */
void timing_drop_slack(void);
/* From now on the calling thread is woken at once, where that is allowed. wait_until() does it by itself. */
void timing_be_real_time(void);
/* Sleeps until the deadline, or until *interrupted. spin_ns is how long before the deadline the sleep ends and looking at
   the clock begins; 0 sleeps all the way. Returns false if interrupted. */
bool wait_until(int64_t deadline, int64_t spin_ns, const _Atomic bool *interrupted);

#endif
