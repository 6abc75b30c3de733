/* How many references each part of an extent has. */
#ifndef FILEOPS_SHARE_COUNTS_H
#define FILEOPS_SHARE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

/* From an offset to where the next part begins; the last is beyond the end, with no references. Neighbours differ. */
struct share_part {
    uint64_t from;
    uint64_t references;
    uint64_t promised; /* of these, of files whose space is promised */
};

struct share_counts {
    struct share_part *parts;
    size_t count, room;
    uint64_t excess; /* the sum of (n - 1) x size over parts with n references, n > 1 */
    uint64_t needed; /* of that, what promised files can take: the sum of min(p, n - 1) x size, p of the n being promised */
};

/* So many references more or less to a range, and so many of promised files. It has not less than none then. ENOMEM: nothing changed. */
int share_counts_change(struct share_counts *counts, uint64_t from, uint64_t to, int references, int promised);

/* The part that an offset is in; `count` where it is before all. */
size_t share_counts_find(const struct share_counts *counts, uint64_t at);

void share_counts_free(struct share_counts *counts);

#endif
