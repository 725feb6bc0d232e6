/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model.h"

/* What page 0 lacks in front: with phase p, the first boundary is at p, so page 0 began page_size - p bytes before address 0. */
static uint64_t lead(const struct geometry *g)
{
  return g->phase == 0 ? 0 : g->page_size - g->phase;
}

uint64_t geometry_page(const struct geometry *g, uint64_t address)
{
  return (address + lead(g)) / g->page_size;
}

uint64_t geometry_page_begin(const struct geometry *g, uint64_t page)
{
  return page == 0 ? 0 : page * g->page_size - lead(g);
}

uint64_t geometry_page_end(const struct geometry *g, uint64_t page)
{
  uint64_t end = (page + 1) * g->page_size - lead(g);
  return end < g->size ? end : g->size;
}

uint64_t geometry_channel(const struct geometry *g, uint64_t page)
{
  return page % g->channels;
}

uint64_t geometry_pages_touched(const struct geometry *g, uint64_t offset, uint64_t length)
{
  if (length == 0)
    return 0;
  return geometry_page(g, offset + length - 1) - geometry_page(g, offset) + 1;
}

bool geometry_straddles(const struct geometry *g, uint64_t offset, uint64_t length)
{
  uint64_t needed = (length + g->page_size - 1) / g->page_size;
  return geometry_pages_touched(g, offset, length) > needed;
}

int64_t unit_book(struct unit *unit, int64_t earliest, int64_t cost)
{
  if (unit->busy_until < earliest)
    unit->busy_until = earliest;
  unit->busy_until += cost;
  return unit->busy_until;
}
