/* What a clone makes shared. */
#include "share_chains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint64_t from, to; /* in the source */
};

/* What is put together for one clone. */
struct making {
    struct fileops_references *added;
    size_t most;
    struct fileops_reference template; /* sequence number and destination; the id is the next one */
    uint64_t source_offset;            /* where the destination's range begins in the source */
    struct range *said;                /* what references say of the source */
    size_t said_count, said_room;
};

static int put(struct making *making, const struct fileops_reference *reference)
{
    struct fileops_references *added = making->added;
    if (added->count == making->most)
        return E2BIG;
    if (added->count == added->room) {
        const size_t room = added->room ? added->room * 2 : 16;
        struct fileops_reference *larger = realloc(added->list, room * sizeof *larger);
        if (!larger)
            return ENOMEM;
        added->list = larger;
        added->room = room;
    }
    added->list[added->count] = *reference;
    added->list[added->count++].id = making->template.id++;
    return 0;
}

/* The destination refers to what from..to of the source refers to. */
static int put_destination(struct making *making, const struct range *range, uint64_t extent, uint64_t extent_offset)
{
    struct fileops_reference reference = making->template;
    reference.offset += range->from - making->source_offset;
    reference.length = range->to - range->from;
    reference.extent = extent;
    reference.extent_offset = extent_offset;
    return put(making, &reference);
}

/* A part of a reference of the source that is true: the destination refers to the same. */
static int say(struct making *making, const struct fileops_reference *reference, const struct range *range)
{
    if (making->said_count == making->said_room) {
        const size_t room = making->said_room ? making->said_room * 2 : 16;
        struct range *larger = realloc(making->said, room * sizeof *larger);
        if (!larger)
            return ENOMEM;
        making->said = larger;
        making->said_room = room;
    }
    making->said[making->said_count++] = *range;
    return put_destination(making, range, reference->extent, reference->extent_offset + (range->from - reference->offset));
}

static int by_offset(const void *one, const void *other)
{
    const struct fileops_overwritten *a = one, *b = other;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* What was not overwritten since of one reference within `all`. `overwritten` is sorted. */
static int say_reference(struct making *making, const struct fileops_reference *reference, const struct range *all,
                         const struct fileops_overwritten *overwritten, size_t overwritten_count)
{
    const uint64_t end = reference->offset + reference->length, to = end < all->to ? end : all->to;
    uint64_t at = reference->offset > all->from ? reference->offset : all->from;
    int error = 0;
    for (size_t i = 0; i < overwritten_count && at < to && overwritten[i].offset < to && !error; i++) {
        const uint64_t next = overwritten[i].offset + overwritten[i].length;
        if (overwritten[i].sequence < reference->sequence || next <= at)
            continue;
        if (overwritten[i].offset > at)
            error = say(making, reference, &(const struct range){at, overwritten[i].offset});
        at = next;
    }
    return error || at >= to ? error : say(making, reference, &(const struct range){at, to});
}

/* A new extent: source and destination refer to it. */
static int put_new(struct making *making, uint64_t source, const struct range *range, uint64_t extent)
{
    struct fileops_reference reference = making->template;
    reference.inode = source;
    reference.offset = range->from;
    reference.length = range->to - range->from;
    reference.extent = extent;
    const int error = put(making, &reference);
    return error ? error : put_destination(making, range, extent, 0);
}

static int by_beginning(const void *one, const void *other)
{
    const struct range *a = one, *b = other;
    return (a->from > b->from) - (a->from < b->from);
}

/* What no reference says anything of becomes new extents. */
static int put_rest(struct making *making, uint64_t source, const struct range *all, uint64_t extent)
{
    uint64_t at = all->from;
    int error = 0;
    if (making->said_count)
        qsort(making->said, making->said_count, sizeof *making->said, by_beginning);
    for (size_t i = 0; i < making->said_count && !error; i++) {
        if (making->said[i].from > at)
            error = put_new(making, source, &(const struct range){at, making->said[i].from}, extent++);
        at = making->said[i].to > at ? making->said[i].to : at;
    }
    return error || at >= all->to ? error : put_new(making, source, &(const struct range){at, all->to}, extent);
}

int fileops_share_map_clone(struct fileops_share_map *map, const struct fileops_clone_range *range, const struct fileops_overwritten *overwritten,
                            size_t overwritten_count, bool uncertain, size_t most, struct fileops_references *added)
{
    const struct range all = {range->source_offset, range->source_offset + range->length};
    struct making making = {.added = added, .most = most, .source_offset = range->source_offset,
                            .template = {.id = map->last_id + 1, .sequence = map->last_sequence + 1, .inode = range->destination,
                                         .offset = range->destination_offset}};
    /* Offsets of other datasets' files say nothing: theirs is always a new extent. */
    const struct share_chain *file = range->source == FILEOPS_OTHER_DATASET ? NULL : share_find(&map->files, range->source);
    struct fileops_overwritten *sorted = NULL;
    const size_t before = added->count;
    int error = 0;

    if (!range->length)
        return 0;
    if (all.to < range->length || range->destination_offset > UINT64_MAX - range->length)
        return EINVAL;
    if (overwritten_count) {
        sorted = malloc(overwritten_count * sizeof *sorted);
        if (!sorted)
            return ENOMEM;
        memcpy(sorted, overwritten, overwritten_count * sizeof *sorted);
        qsort(sorted, overwritten_count, sizeof *sorted, by_offset);
    }
    /* All that may be true of a place: where a clone failed, nobody knows whether old blocks are there or new ones. Whoever shares
     * with the source then shares with the destination by one of them. */
    for (const struct share_node *node = file ? file->first : NULL; node && !error; node = node->next_of_file)
        error = say_reference(&making, &node->reference, &all, sorted, overwritten_count);
    if (uncertain)
        making.said_count = 0;
    if (!error)
        error = put_rest(&making, range->source, &all, map->last_extent + 1);
    size_t made = before;
    while (!error && made < added->count) {
        error = fileops_share_map_add(map, &added->list[made]);
        made += !error;
    }
    if (error) {
        added->count = made;
        fileops_share_map_take_back(map, added, before);
    }
    free(sorted);
    free(making.said);
    return error;
}

void fileops_share_map_take_back(struct fileops_share_map *map, struct fileops_references *added, size_t count)
{
    while (added->count > count) { /* the newest first: it is the first of its chain */
        const struct fileops_reference *reference = &added->list[--added->count];
        struct share_chain *file = share_find(&map->files, reference->inode), *extent = share_find(&map->extents, reference->extent);
        struct share_node *node = file ? file->first : NULL;
        while (node && node->reference.id != reference->id)
            node = node->next_of_file;
        if (!node)
            continue;
        /* To make it less needs no memory where it was made more just now. */
        share_count(map, extent, reference->inode, reference->extent_offset, reference->length, -1);
        share_take_out(file, extent, node);
        share_drop_if_empty(&map->files, file);
        share_drop_if_empty(&map->extents, extent);
    }
}
