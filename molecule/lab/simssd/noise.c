/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "noise.h"

#include <math.h>

#define SECOND INT64_C(1000000000)
#define DRIFT_PERIOD (2 * SECOND)
#define DRIFT_SWING 0.5
#define BURST_EVERY (SECOND / 2) /* on average, from the end of one to the beginning of the next */
#define BURST_SHORTEST (SECOND / 50)
#define BURST_LONGEST (SECOND / 5)
#define BURST_LOAD 8.0 /* the most that one adds on average, in costs */
#define LOGNORMAL_SIGMA 0.4
#define PARETO_SHAPE 1.5 /* no variance */
#define PARETO_SHARE 0.3

/* (0, 1]; xorshift64*, Vigna 2016 */
static double uniform(struct noise *noise)
{
  uint64_t x = noise->state != 0 ? noise->state : UINT64_C(0x9E3779B97F4A7C15);
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  noise->state = x;
  return ((double)((x * UINT64_C(0x2545F4914F6CDD1D)) >> 11) + 1) / 9007199254740992.0;
}

static double exponential(struct noise *noise, double mean)
{
  return -log(uniform(noise)) * mean;
}

static double normal(struct noise *noise)
{
  double radius = sqrt(-2 * log(uniform(noise)));
  return radius * cos(2 * M_PI * uniform(noise));
}

static double burst(struct noise *noise, int64_t now)
{
  if (now >= noise->burst_ends) {
    noise->burst_begins = now + (int64_t)exponential(noise, BURST_EVERY);
    noise->burst_ends = noise->burst_begins + BURST_SHORTEST + (int64_t)(uniform(noise) * (BURST_LONGEST - BURST_SHORTEST));
    noise->load = uniform(noise) * BURST_LOAD;
  }
  return now < noise->burst_begins ? 0 : exponential(noise, noise->load);
}

int64_t noise_cost(struct noise *noise, enum noise_kind kind, int64_t cost, int64_t now)
{
  if (cost == 0)
    return 0;
  double factor = 1;
  switch (kind) {
  case NOISE_NONE:
    return cost;
  case NOISE_DRIFT:
    factor += DRIFT_SWING * sin(2 * M_PI * (double)(now % DRIFT_PERIOD) / DRIFT_PERIOD);
    break;
  case NOISE_BURSTS:
    factor += burst(noise, now);
    break;
  case NOISE_LOGNORMAL:
    factor = exp(LOGNORMAL_SIGMA * normal(noise));
    break;
  case NOISE_PARETO:
    factor += PARETO_SHARE * (pow(uniform(noise), -1 / PARETO_SHAPE) - 1);
    break;
  }
  double noisy = (double)cost * factor;
  return noisy < 10.0 * SECOND ? (int64_t)noisy : 10 * SECOND;
}
