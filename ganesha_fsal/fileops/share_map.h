/* Which ranges of which files refer to the same blocks: the model behind the ledger, in memory, with no I/O and no locks.
 *
 * A run of blocks that was cloned is an extent. Each reference says that a range of a file refers to a part of an extent. A part with
 * n references needs n - 1 times its size when all of them are overwritten: the first overwrites take new space while the
 * blocks stay for the others, only the last gives them back. */
#ifndef FILEOPS_SHARE_MAP_H
#define FILEOPS_SHARE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In place of an inode number: a file of another dataset, which is never seen to let go. */
#define FILEOPS_OTHER_DATASET UINT64_C(0)

struct fileops_reference {
    uint64_t id;       /* of this reference; what is left of a split keeps or gets one of its own */
    uint64_t sequence; /* when it was made: later ones are higher; what is left of a split keeps it */
    uint64_t inode;
    uint64_t offset; /* in the file */
    uint64_t length;
    uint64_t extent;
    uint64_t extent_offset;
};

struct fileops_share_map;

struct fileops_share_map *fileops_share_map_new(void); /* NULL: ENOMEM */
void fileops_share_map_free(struct fileops_share_map *map);

/* Adds a reference as it is (from the ledger). */
int fileops_share_map_add(struct fileops_share_map *map, const struct fileops_reference *reference);

/* A range of a file that was overwritten: references up to the sequence number no longer say what is there. */
struct fileops_overwritten {
    uint64_t offset;
    uint64_t length;
    uint64_t sequence;
};

/* By inode numbers; FILEOPS_OTHER_DATASET for either file. */
struct fileops_clone_range {
    uint64_t source, source_offset;
    uint64_t destination, destination_offset;
    uint64_t length;
};

/* References in the order they were added in. The list is the caller's to free. */
struct fileops_references {
    struct fileops_reference *list;
    size_t count, room;
};

/* Adds what a clone of a range makes shared, to `added` too. What the source's range refers to already (by whatever reference, as which
 * is true may not be certain) is referred to once more; the rest becomes new extents. Old references of the destination's
 * range stay until they are removed. `uncertain`: what the source refers to may be no longer true, and a new extent is made
 * for all of it as well: with no `overwritten` that is an upper bound in few references. E2BIG: more than `most` would be in
 * `added`, and nothing was added. */
int fileops_share_map_clone(struct fileops_share_map *map, const struct fileops_clone_range *range, const struct fileops_overwritten *overwritten,
                            size_t overwritten_count, bool uncertain, size_t most, struct fileops_references *added);

/* Takes back what was just added, but for the first `count`. */
void fileops_share_map_take_back(struct fileops_share_map *map, struct fileops_references *added, size_t count);

/* Whether the file's space is promised, with what it refers to now and later. ENOMEM: as before. */
int fileops_share_map_promise(struct fileops_share_map *map, uint64_t inode, bool promised);

/* The file no longer refers to the blocks of a range by references with sequence numbers up to `sequence`. Splits what is
 * partly covered, as long as the file has fewer than `most` references: beyond that it keeps them whole.
 * Calls `changed` (may be NULL) for each reference as it was, and what is left of it: 0, 1 or 2; the first keeps its id. */
typedef void (*fileops_reference_changed)(void *context, const struct fileops_reference *before,
                                          const struct fileops_reference *left, size_t count);
int fileops_share_map_remove(struct fileops_share_map *map, uint64_t inode, uint64_t offset, uint64_t length,
                             uint64_t sequence, size_t most, fileops_reference_changed changed, void *context);

/* The file lets go of all it refers to by references with sequence numbers beyond `after`, up to `last`. Calls `changed` as above. */
int fileops_share_map_let_go(struct fileops_share_map *map, uint64_t inode, uint64_t after, uint64_t last, fileops_reference_changed changed,
                             void *context);

/* What overwriting everything would newly take: the sum of (n - 1) x size over all parts. */
uint64_t fileops_share_map_bytes(const struct fileops_share_map *map);

/* What of that overwriting all promised files may newly take, whatever others overwrite before: the sum of min(p, n - 1) x size, p of a part's n
 * references being promised ones. */
uint64_t fileops_share_map_needed(const struct fileops_share_map *map);

/* Bytes of the file that others refer to too. */
uint64_t fileops_share_map_shared_of(const struct fileops_share_map *map, uint64_t inode);

bool fileops_share_map_has(const struct fileops_share_map *map, uint64_t inode);
/* The highest sequence number given. */
uint64_t fileops_share_map_sequence(const struct fileops_share_map *map);

/* Calls `visit` for the inode number of each file that has references, some more than once; not FILEOPS_OTHER_DATASET. */
void fileops_share_map_files(const struct fileops_share_map *map, void (*visit)(void *context, uint64_t inode), void *context);

#endif
