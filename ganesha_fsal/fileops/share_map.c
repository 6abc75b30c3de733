#include "share_map.h"

#include "share_chains.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct fileops_share_map *fileops_share_map_new(void)
{
    struct fileops_share_map *map = calloc(1, sizeof *map);
    if (map && share_table_init(&map->files) && share_table_init(&map->extents) && share_table_init(&map->promised))
        return map;
    if (map) {
        free(map->files.buckets);
        free(map->extents.buckets);
    }
    free(map);
    return NULL;
}

void fileops_share_map_free(struct fileops_share_map *map)
{
    if (!map)
        return;
    for (size_t i = 0; i < map->extents.bucket_count; i++)
        for (const struct share_chain *chain = map->extents.buckets[i]; chain; chain = chain->next)
            for (struct share_node *node = chain->first, *after; node; node = after) {
                after = node->next_of_extent;
                free(node);
            }
    share_table_free(&map->extents);
    share_table_free(&map->files);
    share_table_free(&map->promised);
    free(map);
}

/* Counts the references of a file as promised, or no longer: the first `most` of its chain. Returns how many it came to. */
static size_t promise_references(struct fileops_share_map *map, struct share_chain *file, size_t most, int by)
{
    size_t count = 0;
    for (struct share_node *node = file ? file->first : NULL; node && count < most; node = node->next_of_file, count++) {
        const struct fileops_reference *reference = &node->reference;
        if (share_count_promised(map, share_find(&map->extents, reference->extent), reference->extent_offset, reference->length, by))
            return count;
    }
    return count;
}

int fileops_share_map_promise(struct fileops_share_map *map, uint64_t inode, bool promised)
{
    struct share_chain *file = share_find(&map->files, inode), *mark = share_find(&map->promised, inode);
    const size_t all = file ? file->length : 0;
    if (promised == (mark != NULL))
        return 0;
    if (promised && !share_find_or_make(&map->promised, inode))
        return ENOMEM;
    const size_t done = promise_references(map, file, all, promised ? 1 : -1);
    if (done < all) { /* as before */
        promise_references(map, file, done, promised ? -1 : 1);
        promised = !promised;
    }
    if (!promised)
        share_drop_if_empty(&map->promised, share_find(&map->promised, inode));
    return done < all ? ENOMEM : 0;
}

int fileops_share_map_add(struct fileops_share_map *map, const struct fileops_reference *reference)
{
    if (!reference->length || reference->offset > UINT64_MAX - reference->length ||
        reference->extent_offset > UINT64_MAX - reference->length)
        return EINVAL;
    struct share_node *node = share_insert(map, reference);
    if (!node)
        return ENOMEM;
    struct share_chain *extent = share_find(&map->extents, reference->extent);
    const int error = share_count(map, extent, reference->inode, reference->extent_offset, reference->length, 1);
    if (error) {
        struct share_chain *file = share_find(&map->files, reference->inode);
        share_take_out(file, extent, node);
        share_drop_if_empty(&map->files, file);
        share_drop_if_empty(&map->extents, extent);
    }
    return error;
}

/* What is told of references that change, and which node of the file's chain comes next. */
struct removal {
    struct fileops_share_map *map;
    struct share_chain *file;
    struct share_node *next;
    fileops_reference_changed changed;
    void *context;
};

static void tell(const struct removal *removal, const struct fileops_reference *before, const struct fileops_reference *left, size_t count)
{
    if (removal->changed)
        removal->changed(removal->context, before, left, count);
}

/* References of an extent of which nothing is shared say nothing: all of them go. */
static void drop_unshared(struct removal *removal, struct share_chain *extent)
{
    struct fileops_share_map *map = removal->map;
    for (struct share_node *node; !extent->counts.excess && (node = extent->first);) {
        const struct fileops_reference before = node->reference;
        struct share_chain *file = share_find(&map->files, before.inode);
        if (node == removal->next)
            removal->next = node->next_of_file;
        share_take_out(file, extent, node);
        if (file != removal->file)
            share_drop_if_empty(&map->files, file);
        tell(removal, &before, NULL, 0);
    }
    share_drop_if_empty(&map->extents, extent);
}

/* What is left of a reference when from..to of its file is no longer in it. */
static size_t cut_out(const struct fileops_reference *reference, uint64_t from, uint64_t to, struct fileops_reference left[2])
{
    size_t count = 0;
    if (from > reference->offset) {
        left[count] = *reference;
        left[count++].length = from - reference->offset;
    }
    if (to < reference->offset + reference->length) {
        left[count] = *reference;
        left[count].offset = to;
        left[count].extent_offset += to - reference->offset;
        left[count++].length = reference->offset + reference->length - to;
    }
    return count;
}

/* Takes a range out of one reference. */
static int shorten(struct removal *removal, struct share_node *node, uint64_t from, uint64_t to, size_t most)
{
    struct fileops_share_map *map = removal->map;
    const struct fileops_reference before = node->reference;
    struct share_chain *extent = share_find(&map->extents, before.extent);
    struct fileops_reference left[2];
    struct share_node *second = NULL;
    const size_t count = cut_out(&before, from, to, left);
    if (count == 2) {
        if (removal->file->length >= most)
            return 0;
        left[1].id = map->last_id + 1;
        second = share_insert(map, &left[1]);
        if (!second)
            return ENOMEM;
    }
    const int error = share_count(map, extent, before.inode, before.extent_offset + (from - before.offset), to - from, -1);
    if (error) { /* stays whole */
        if (second)
            share_take_out(removal->file, extent, second);
        return error;
    }
    if (count)
        node->reference = left[0];
    else
        share_take_out(removal->file, extent, node);
    tell(removal, &before, left, count);
    drop_unshared(removal, extent);
    return 0;
}

int fileops_share_map_remove(struct fileops_share_map *map, uint64_t inode, uint64_t offset, uint64_t length,
                             uint64_t sequence, size_t most, fileops_reference_changed changed, void *context)
{
    const uint64_t end = offset > UINT64_MAX - length ? UINT64_MAX : offset + length;
    struct removal removal = {.map = map, .file = share_find(&map->files, inode), .changed = changed, .context = context};
    int error = 0;
    if (!removal.file)
        return 0;
    for (struct share_node *node = removal.file->first; node && !error; node = removal.next) {
        const struct fileops_reference *reference = &node->reference;
        const uint64_t from = greater(reference->offset, offset), to = lesser(reference->offset + reference->length, end);
        removal.next = node->next_of_file;
        if (reference->sequence <= sequence && from < to)
            error = shorten(&removal, node, from, to, most);
    }
    share_drop_if_empty(&map->files, removal.file);
    return error;
}

int fileops_share_map_let_go(struct fileops_share_map *map, uint64_t inode, uint64_t after, uint64_t last, fileops_reference_changed changed,
                             void *context)
{
    struct removal removal = {.map = map, .file = share_find(&map->files, inode), .changed = changed, .context = context};
    int error = 0;
    if (!removal.file)
        return 0;
    for (struct share_node *node = removal.file->first; node && !error; node = removal.next) {
        const struct fileops_reference *reference = &node->reference;
        removal.next = node->next_of_file;
        if (reference->sequence > after && reference->sequence <= last)
            error = shorten(&removal, node, reference->offset, reference->offset + reference->length, SIZE_MAX);
    }
    share_drop_if_empty(&map->files, removal.file);
    return error;
}

uint64_t fileops_share_map_bytes(const struct fileops_share_map *map)
{
    return map->bytes;
}

uint64_t fileops_share_map_needed(const struct fileops_share_map *map)
{
    return map->needed;
}

struct range {
    uint64_t from, to; /* in the file */
};

static int by_beginning(const void *one, const void *other)
{
    const struct range *a = one, *b = other;
    return (a->from > b->from) - (a->from < b->from);
}

/* Parts of a reference that others refer to too, from `from` of its extent on. False: no more. */
static bool next_shared(const struct fileops_reference *reference, const struct share_counts *counts, size_t *part, struct range *found)
{
    const uint64_t end = reference->extent_offset + reference->length;
    for (; *part < counts->count && counts->parts[*part].from < end; ++*part) {
        if (counts->parts[*part].references < 2)
            continue;
        const uint64_t from = greater(counts->parts[*part].from, reference->extent_offset);
        const uint64_t to = lesser(counts->parts[*part + 1].from, end);
        *found = (struct range){reference->offset + (from - reference->extent_offset), reference->offset + (to - reference->extent_offset)};
        ++*part;
        return true;
    }
    return false;
}

uint64_t fileops_share_map_shared_of(const struct fileops_share_map *map, uint64_t inode)
{
    const struct share_chain *file = share_find(&map->files, inode);
    struct range *ranges = NULL, found;
    size_t count = 0, room = 0;
    uint64_t bytes = 0, end = 0;

    for (const struct share_node *node = file ? file->first : NULL; node; node = node->next_of_file) {
        const struct share_counts *counts = &share_find(&map->extents, node->reference.extent)->counts;
        size_t part = share_counts_find(counts, node->reference.extent_offset);
        while (next_shared(&node->reference, counts, &part, &found)) {
            if (count == room) {
                room = room ? room * 2 : 64;
                struct range *larger = realloc(ranges, room * sizeof *ranges);
                if (!larger) {
                    free(ranges);
                    return 0; /* nothing known to be shared: an upper bound of what is unique */
                }
                ranges = larger;
            }
            ranges[count++] = found;
        }
    }
    if (count)
        qsort(ranges, count, sizeof *ranges, by_beginning);
    for (size_t i = 0; i < count; i++) {
        const uint64_t from = greater(ranges[i].from, end);
        if (ranges[i].to > from) {
            bytes += ranges[i].to - from;
            end = ranges[i].to;
        }
    }
    free(ranges);
    return bytes;
}

bool fileops_share_map_has(const struct fileops_share_map *map, uint64_t inode)
{
    return share_find(&map->files, inode) != NULL;
}

uint64_t fileops_share_map_sequence(const struct fileops_share_map *map)
{
    return map->last_sequence;
}

void fileops_share_map_files(const struct fileops_share_map *map, void (*visit)(void *context, uint64_t inode), void *context)
{
    for (size_t i = 0; i < map->files.bucket_count; i++)
        for (const struct share_chain *chain = map->files.buckets[i]; chain; chain = chain->next)
            if (chain->number != FILEOPS_OTHER_DATASET)
                visit(context, chain->number);
}
