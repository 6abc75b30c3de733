/* How many references each part of an extent has. */
#ifndef FILEOPS_SHARE_COUNTS_H
#define FILEOPS_SHARE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

/* From an offset to where the next part begins; the last is beyond the end, with no references. Neighbours differ. */
struct share_part {
    uint64_t from;
    uint64_t references;
};

struct share_counts {
    struct share_part *parts;
    size_t count, room;
    uint64_t excess; /* the sum of (n - 1) x size over parts with n references, n > 1 */
};

/* One reference more (`by` 1) or less (-1) to a range that has not less than one then. ENOMEM: nothing changed. */
int share_counts_change(struct share_counts *counts, uint64_t from, uint64_t to, int by);

/* The part that an offset is in; `count` where it is before all. */
size_t share_counts_find(const struct share_counts *counts, uint64_t at);

void share_counts_free(struct share_counts *counts);

#endif
