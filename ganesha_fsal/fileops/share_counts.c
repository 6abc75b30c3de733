#include "share_counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first part that begins at an offset or later. */
static size_t first_from(const struct share_counts *counts, uint64_t at)
{
    size_t low = 0, high = counts->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (counts->parts[middle].from < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t share_counts_find(const struct share_counts *counts, uint64_t at)
{
    const size_t next = first_from(counts, at);
    if (next < counts->count && counts->parts[next].from == at)
        return next;
    return next ? next - 1 : counts->count;
}

/* Makes a part begin there. There is room. */
static size_t split(struct share_counts *counts, uint64_t at)
{
    const size_t place = first_from(counts, at);
    if (place < counts->count && counts->parts[place].from == at)
        return place;
    memmove(&counts->parts[place + 1], &counts->parts[place], (counts->count - place) * sizeof *counts->parts);
    counts->parts[place] = place ? counts->parts[place - 1] : (struct share_part){0};
    counts->parts[place].from = at;
    counts->count++;
    return place;
}

/* A part goes when it is as the one before. */
static void join(struct share_counts *counts, size_t place)
{
    const struct share_part before = place ? counts->parts[place - 1] : (struct share_part){0};
    if (counts->parts[place].references != before.references || counts->parts[place].promised != before.promised)
        return;
    counts->count--;
    memmove(&counts->parts[place], &counts->parts[place + 1], (counts->count - place) * sizeof *counts->parts);
}

static uint64_t excess_of(const struct share_part *part)
{
    return part->references > 1 ? part->references - 1 : 0;
}

/* Whoever overwrites first takes new space, the last does not. What is promised may be overwritten before all else, or after. */
static uint64_t needed_of(const struct share_part *part)
{
    return part->promised < excess_of(part) ? part->promised : excess_of(part);
}

int share_counts_change(struct share_counts *counts, uint64_t from, uint64_t to, int references, int promised)
{
    if (counts->count + 2 > counts->room) {
        const size_t room = counts->room ? counts->room * 2 : 4;
        struct share_part *larger = realloc(counts->parts, room * sizeof *larger);
        if (!larger)
            return ENOMEM;
        counts->parts = larger;
        counts->room = room;
    }
    const size_t first = split(counts, from), end = split(counts, to);
    for (size_t i = first; i < end; i++) {
        struct share_part *part = &counts->parts[i];
        const uint64_t size = counts->parts[i + 1].from - part->from;
        const struct share_part before = *part;
        part->references += (uint64_t)(int64_t)references;
        part->promised += (uint64_t)(int64_t)promised;
        counts->excess += (excess_of(part) - excess_of(&before)) * size;
        counts->needed += (needed_of(part) - needed_of(&before)) * size;
    }
    join(counts, end);
    join(counts, first);
    return 0;
}

void share_counts_free(struct share_counts *counts)
{
    free(counts->parts);
    *counts = (struct share_counts){0};
}
