/* The map of shared blocks from inside: references in chains of their files and of their extents. */
#ifndef FILEOPS_SHARE_CHAINS_H
#define FILEOPS_SHARE_CHAINS_H

#include "share_counts.h"
#include "share_map.h"

/* A reference in two chains: of its file and of its extent. */
struct share_node {
    struct fileops_reference reference;
    struct share_node *next_of_file, *previous_of_file;
    struct share_node *next_of_extent, *previous_of_extent;
};

/* A file or an extent: a chain of nodes under a number. */
struct share_chain {
    uint64_t number;
    struct share_node *first;
    size_t length;
    struct share_counts counts; /* of an extent */
    struct share_chain *next;   /* in its bucket */
};

struct share_table {
    struct share_chain **buckets;
    size_t bucket_count; /* a power of two */
    size_t chain_count;
};

struct fileops_share_map {
    struct share_table files, extents;
    struct share_table promised; /* files whose space is promised, by inode number; chains without nodes */
    uint64_t last_id, last_sequence, last_extent;
    uint64_t bytes, needed;
};

bool share_table_init(struct share_table *table);
/* With all chains; of tables whose nodes are gone already. */
void share_table_free(struct share_table *table);
struct share_chain *share_find(const struct share_table *table, uint64_t number);
struct share_chain *share_find_or_make(struct share_table *table, uint64_t number); /* NULL: ENOMEM */
void share_drop_if_empty(struct share_table *table, struct share_chain *chain);

/* Into both chains, at their beginnings; what the extent counts is left as it is. NULL: ENOMEM. */
struct share_node *share_insert(struct fileops_share_map *map, const struct fileops_reference *reference);
/* Out of both chains; neither is dropped. */
void share_take_out(struct share_chain *file, struct share_chain *extent, struct share_node *node);
/* Counts a part of an extent, as that of a reference of a file, once more (`by` 1) or less (-1). ENOMEM: nothing changed. */
int share_count(struct fileops_share_map *map, struct share_chain *extent, uint64_t inode, uint64_t offset, uint64_t length, int by);
/* The same part is promised now (`by` 1), or no longer. */
int share_count_promised(struct fileops_share_map *map, struct share_chain *extent, uint64_t offset, uint64_t length, int by);

#endif
