/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "timing.h"

#include "counters.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

/* How long a sleeper may miss an interruption. */
#define SLICE_NS (20 * NS_PER_MS)

int64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void timing_drop_slack(void)
{
  /* The default slack of 50 us is of the size of what is simulated. */
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

/* On a machine where QEMU takes every core, an ordinary sleeper is now and then late by milliseconds. Only a device with
   costs has such threads: one that preempts its client at every request has two thirds of its speed to lose, and without costs
   it is meant to be fast. A thread that was started before there were costs changes when it first waits. Where it is not
   allowed, nothing changes. */
void timing_be_real_time(void)
{
  static _Thread_local bool is_real_time;
  struct sched_param lowest = {.sched_priority = 1};

  if (!is_real_time)
    sched_setscheduler(0, SCHED_RR, &lowest);
  is_real_time = true;
}

static void sleep_until(int64_t deadline)
{
  struct timespec at = {.tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Waking up takes 25 to 45 us in a virtual machine, hence the spin. One thread at a time: more would take the cores away from
   the machine that is being served. The others are late by one wake-up, which books no time on any channel. */
static void spin_until(int64_t deadline)
{
  static atomic_flag spinning = ATOMIC_FLAG_INIT;

  if (atomic_flag_test_and_set(&spinning)) {
    sleep_until(deadline);
    return;
  }
  while (now_ns() < deadline)
    ;
  atomic_flag_clear(&spinning);
}

static bool wait_precisely(int64_t deadline, int64_t spin_ns, const _Atomic bool *interrupted)
{
  int64_t wake = deadline - spin_ns;
  for (int64_t now = now_ns(); now < wake; now = now_ns()) {
    sleep_until(wake < now + SLICE_NS ? wake : now + SLICE_NS);
    if (*interrupted)
      return false;
  }
  if (spin_ns > 0)
    spin_until(deadline);
  return !*interrupted;
}

bool wait_until(int64_t deadline, int64_t spin_ns, const _Atomic bool *interrupted)
{
  if (now_ns() >= deadline)
    return !*interrupted;
  timing_be_real_time();
  bool waited = wait_precisely(deadline, spin_ns, interrupted);
  counters_add(WAITS, 1);
  if (waited)
    counters_add(LATE_NS, (uint64_t)(now_ns() - deadline));
  return waited;
}
