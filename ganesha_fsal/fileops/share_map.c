#include "share_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A reference in two chains: of its file and of its extent. */
struct node {
    struct fileops_reference reference;
    struct node *next_of_file, *previous_of_file;
    struct node *next_of_extent, *previous_of_extent;
};

/* A file or an extent: a chain of nodes under a number. */
struct chain {
    uint64_t number;
    struct node *first;
    size_t length;
    uint64_t excess; /* of an extent: the sum of (n - 1) x size */
    struct chain *next; /* in its bucket */
};

struct table {
    struct chain **buckets;
    size_t bucket_count; /* a power of two */
    size_t chain_count;
};

struct fileops_share_map {
    struct table files, extents;
    uint64_t last_id, last_sequence, last_extent;
    uint64_t bytes;
};

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static size_t bucket_of(const struct table *table, uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (table->bucket_count - 1);
}

static bool table_init(struct table *table)
{
    table->bucket_count = 64;
    table->buckets = calloc(table->bucket_count, sizeof *table->buckets);
    return table->buckets != NULL;
}

static struct chain *find(const struct table *table, uint64_t number)
{
    struct chain *chain = table->buckets[bucket_of(table, number)];
    while (chain && chain->number != number)
        chain = chain->next;
    return chain;
}

static void grow(struct table *table)
{
    struct table larger = {.bucket_count = table->bucket_count * 4, .chain_count = table->chain_count};
    larger.buckets = calloc(larger.bucket_count, sizeof *larger.buckets);
    if (!larger.buckets)
        return; /* slower, and right */
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct chain *chain = table->buckets[i], *next; chain; chain = next) {
            const size_t bucket = bucket_of(&larger, chain->number);
            next = chain->next;
            chain->next = larger.buckets[bucket];
            larger.buckets[bucket] = chain;
        }
    free(table->buckets);
    *table = larger;
}

static struct chain *find_or_make(struct table *table, uint64_t number)
{
    struct chain *chain = find(table, number);
    if (chain)
        return chain;
    chain = calloc(1, sizeof *chain);
    if (!chain)
        return NULL;
    if (table->chain_count > table->bucket_count * 2)
        grow(table);
    const size_t bucket = bucket_of(table, number);
    chain->number = number;
    chain->next = table->buckets[bucket];
    table->buckets[bucket] = chain;
    table->chain_count++;
    return chain;
}

static void drop_if_empty(struct table *table, struct chain *chain)
{
    if (chain->first)
        return;
    struct chain **place = &table->buckets[bucket_of(table, chain->number)];
    while (*place != chain)
        place = &(*place)->next;
    *place = chain->next;
    table->chain_count--;
    free(chain);
}

struct fileops_share_map *fileops_share_map_new(void)
{
    struct fileops_share_map *map = calloc(1, sizeof *map);
    if (map && table_init(&map->files) && table_init(&map->extents))
        return map;
    if (map)
        free(map->files.buckets);
    free(map);
    return NULL;
}

void fileops_share_map_free(struct fileops_share_map *map)
{
    if (!map)
        return;
    for (size_t i = 0; i < map->extents.bucket_count; i++)
        for (struct chain *chain = map->extents.buckets[i], *next; chain; chain = next) {
            next = chain->next;
            for (struct node *node = chain->first, *after; node; node = after) {
                after = node->next_of_extent;
                free(node);
            }
            free(chain);
        }
    for (size_t i = 0; i < map->files.bucket_count; i++)
        for (struct chain *chain = map->files.buckets[i], *next; chain; chain = next) {
            next = chain->next;
            free(chain);
        }
    free(map->files.buckets);
    free(map->extents.buckets);
    free(map);
}

/* Where the number of references to an extent changes, by how much. */
struct step {
    uint64_t at;
    int change;
};

static int by_place(const void *one, const void *other)
{
    const struct step *a = one, *b = other;
    return (a->at > b->at) - (a->at < b->at);
}

static uint64_t sum_of_excess(const struct chain *extent)
{
    struct step few[64], *steps = few;
    size_t count = 0;
    uint64_t excess = 0, previous = 0;
    int64_t references = 0;

    if (extent->length < 2)
        return 0;
    if (extent->length * 2 > sizeof few / sizeof *few) {
        steps = malloc(extent->length * 2 * sizeof *steps);
        if (!steps) { /* more than it can be */
            for (const struct node *node = extent->first; node; node = node->next_of_extent)
                excess += node->reference.length;
            return excess;
        }
    }
    for (const struct node *node = extent->first; node; node = node->next_of_extent) {
        steps[count++] = (struct step){node->reference.extent_offset, 1};
        steps[count++] = (struct step){node->reference.extent_offset + node->reference.length, -1};
    }
    qsort(steps, count, sizeof *steps, by_place);
    for (size_t i = 0; i < count; i++) {
        if (references > 1)
            excess += (uint64_t)(references - 1) * (steps[i].at - previous);
        references += steps[i].change;
        previous = steps[i].at;
    }
    if (steps != few)
        free(steps);
    return excess;
}

static void recount(struct fileops_share_map *map, struct chain *extent)
{
    map->bytes -= extent->excess;
    extent->excess = sum_of_excess(extent);
    map->bytes += extent->excess;
}

static struct node *insert(struct fileops_share_map *map, const struct fileops_reference *reference)
{
    struct node *node = calloc(1, sizeof *node);
    struct chain *file = node ? find_or_make(&map->files, reference->inode) : NULL;
    struct chain *extent = file ? find_or_make(&map->extents, reference->extent) : NULL;
    if (!extent) {
        if (file)
            drop_if_empty(&map->files, file);
        free(node);
        return NULL;
    }
    node->reference = *reference;
    node->next_of_file = file->first;
    if (file->first)
        file->first->previous_of_file = node;
    file->first = node;
    file->length++;
    node->next_of_extent = extent->first;
    if (extent->first)
        extent->first->previous_of_extent = node;
    extent->first = node;
    extent->length++;
    map->last_id = greater(map->last_id, reference->id);
    map->last_sequence = greater(map->last_sequence, reference->sequence);
    map->last_extent = greater(map->last_extent, reference->extent);
    return node;
}

/* Takes a node out of both chains; the extent is to be recounted by the caller, and both chains dropped if empty. */
static void take_out(struct chain *file, struct chain *extent, struct node *node)
{
    if (node->previous_of_file)
        node->previous_of_file->next_of_file = node->next_of_file;
    else
        file->first = node->next_of_file;
    if (node->next_of_file)
        node->next_of_file->previous_of_file = node->previous_of_file;
    file->length--;
    if (node->previous_of_extent)
        node->previous_of_extent->next_of_extent = node->next_of_extent;
    else
        extent->first = node->next_of_extent;
    if (node->next_of_extent)
        node->next_of_extent->previous_of_extent = node->previous_of_extent;
    extent->length--;
    free(node);
}

int fileops_share_map_add(struct fileops_share_map *map, const struct fileops_reference *reference)
{
    if (!reference->length || reference->offset > UINT64_MAX - reference->length ||
        reference->extent_offset > UINT64_MAX - reference->length)
        return EINVAL;
    const struct node *node = insert(map, reference);
    if (!node)
        return ENOMEM;
    recount(map, find(&map->extents, reference->extent));
    return 0;
}

static int by_number(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Adds where a range begins and ends to `cuts`, as far as that is inside of `from`..`to`. */
static size_t cut(uint64_t *cuts, size_t count, uint64_t from, uint64_t to, uint64_t offset, uint64_t length)
{
    if (offset > from && offset < to)
        cuts[count++] = offset;
    if (offset + length > from && offset + length < to)
        cuts[count++] = offset + length;
    return count;
}

/* Whether a reference says what is at a place of its file. */
static bool says(const struct fileops_reference *reference, const struct fileops_overwritten *overwritten, size_t overwritten_count,
                 uint64_t at)
{
    if (at < reference->offset || at - reference->offset >= reference->length)
        return false;
    for (size_t i = 0; i < overwritten_count; i++)
        if (overwritten[i].sequence >= reference->sequence && at >= overwritten[i].offset &&
            at - overwritten[i].offset < overwritten[i].length)
            return false;
    return true;
}

/* Makes a reference of a clone longer by its continuation, if there is one that it continues. */
static bool goes_on(struct fileops_reference *added, size_t count, const struct fileops_reference *more)
{
    for (size_t i = count; i-- > 0;)
        if (added[i].inode == more->inode && added[i].extent == more->extent && added[i].offset + added[i].length == more->offset &&
            added[i].extent_offset + added[i].length == more->extent_offset) {
            added[i].length += more->length;
            return true;
        }
    return false;
}

int fileops_share_map_clone(struct fileops_share_map *map, uint64_t source, uint64_t source_offset, uint64_t destination,
                            uint64_t destination_offset, uint64_t length, const struct fileops_overwritten *overwritten,
                            size_t overwritten_count, bool uncertain, struct fileops_reference *added, size_t capacity,
                            size_t *count)
{
    const uint64_t end = source_offset + length, sequence = map->last_sequence + 1;
    /* Offsets of other datasets' files say nothing: theirs is always a new extent. */
    const struct chain *file = source == FILEOPS_OTHER_DATASET ? NULL : find(&map->files, source);
    uint64_t next_extent = map->last_extent + 1, next_id = map->last_id + 1;
    size_t cut_count = 0, known = 0;
    int error = 0;

    *count = 0;
    if (!length)
        return 0;
    if (end < length || destination_offset > UINT64_MAX - length)
        return EINVAL;
    uint64_t *cuts = calloc(2 * (file ? file->length : 0) + 2 * overwritten_count + 2, sizeof *cuts);
    if (!cuts)
        return ENOMEM;
    cuts[cut_count++] = source_offset;
    for (const struct node *node = file ? file->first : NULL; node; node = node->next_of_file)
        cut_count = cut(cuts, cut_count, source_offset, end, node->reference.offset, node->reference.length);
    for (size_t i = 0; i < overwritten_count; i++)
        cut_count = cut(cuts, cut_count, source_offset, end, overwritten[i].offset, overwritten[i].length);
    qsort(cuts, cut_count, sizeof *cuts, by_number);
    cuts[cut_count++] = end;

    uint64_t fresh = 0, fresh_from = 0, fresh_end = 0; /* the new extent that may go on */
    for (size_t i = 0; i + 1 < cut_count; i++) {
        const uint64_t at = cuts[i], size = cuts[i + 1] - at;
        bool said = false;
        if (!size)
            continue;
        /* All that may be true of a place: where a clone failed, nobody knows whether old blocks are there or new ones. Whoever
         * shares with the source then shares with the destination by one of them. */
        for (const struct node *node = file ? file->first : NULL; node; node = node->next_of_file) {
            const struct fileops_reference *known_one = &node->reference;
            if (!says(known_one, overwritten, overwritten_count, at))
                continue;
            const struct fileops_reference to = {.id = next_id, .sequence = sequence, .inode = destination,
                                                 .offset = destination_offset + (at - source_offset), .length = size,
                                                 .extent = known_one->extent,
                                                 .extent_offset = known_one->extent_offset + (at - known_one->offset)};
            said = true;
            if (goes_on(added, known, &to))
                continue;
            if (known == capacity) {
                error = E2BIG;
                goto exit;
            }
            added[known++] = to;
            next_id++;
        }
        if (said && !uncertain)
            continue;
        if (!fresh || fresh_end != at) {
            fresh = next_extent++;
            fresh_from = at;
        }
        fresh_end = at + size;
        const struct fileops_reference pair[2] = {
            {.sequence = sequence, .inode = source, .offset = at, .length = size, .extent = fresh, .extent_offset = at - fresh_from},
            {.sequence = sequence, .inode = destination, .offset = destination_offset + (at - source_offset), .length = size,
             .extent = fresh, .extent_offset = at - fresh_from},
        };
        for (int j = 0; j < 2; j++) {
            if (goes_on(added, known, &pair[j]))
                continue;
            if (known == capacity) {
                error = E2BIG;
                goto exit;
            }
            added[known] = pair[j];
            added[known++].id = next_id++;
        }
    }
    for (size_t i = 0; i < known; i++) {
        error = fileops_share_map_add(map, &added[i]);
        if (error) {
            fileops_share_map_take_back(map, added, i);
            goto exit;
        }
    }
    *count = known;
exit:
    free(cuts);
    return error;
}

void fileops_share_map_take_back(struct fileops_share_map *map, const struct fileops_reference *added, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct chain *file = find(&map->files, added[i].inode), *extent = find(&map->extents, added[i].extent);
        struct node *node = file->first;
        while (node->reference.id != added[i].id)
            node = node->next_of_file;
        take_out(file, extent, node);
        recount(map, extent);
        drop_if_empty(&map->files, file);
        drop_if_empty(&map->extents, extent);
    }
}

bool fileops_share_map_covers(const struct fileops_share_map *map, uint64_t inode, uint64_t offset, uint64_t length)
{
    const struct chain *file = find(&map->files, inode);
    const uint64_t end = offset + length;
    for (const struct node *node = file ? file->first : NULL; node; node = node->next_of_file)
        if (offset >= node->reference.offset && end <= node->reference.offset + node->reference.length)
            return true;
    return false;
}

/* A reference that alone is left in its extent shares nothing: it goes too. */
static void drop_single(struct fileops_share_map *map, struct chain *extent, fileops_reference_changed changed, void *context)
{
    if (extent->length != 1)
        return;
    struct node *node = extent->first;
    const struct fileops_reference before = node->reference;
    struct chain *file = find(&map->files, before.inode);
    take_out(file, extent, node);
    drop_if_empty(&map->files, file);
    if (changed)
        changed(context, &before, NULL, 0);
}

int fileops_share_map_remove(struct fileops_share_map *map, uint64_t inode, uint64_t offset, uint64_t length,
                             uint64_t sequence, size_t most, fileops_reference_changed changed, void *context)
{
    const uint64_t end = offset > UINT64_MAX - length ? UINT64_MAX : offset + length;
    bool again = true;
    while (again) { /* from the beginning after each removal: dropping singles may change the chain */
        again = false;
        struct chain *file = find(&map->files, inode);
        for (struct node *node = file ? file->first : NULL; node; node = node->next_of_file) {
            const struct fileops_reference before = node->reference;
            const uint64_t from = greater(before.offset, offset), to = lesser(before.offset + before.length, end);
            if (before.sequence > sequence || from >= to)
                continue;
            struct fileops_reference left[2];
            size_t count = 0;
            if (from > before.offset) {
                left[count] = before;
                left[count++].length = from - before.offset;
            }
            if (to < before.offset + before.length) {
                left[count] = before;
                left[count].offset = to;
                left[count].extent_offset += to - before.offset;
                left[count].length = before.offset + before.length - to;
                count++;
            }
            if (count == 2 && file->length >= most)
                continue;
            struct chain *extent = find(&map->extents, before.extent);
            if (count == 2) {
                left[1].id = map->last_id + 1;
                if (!insert(map, &left[1]))
                    return ENOMEM;
            }
            if (count) {
                node->reference = left[0];
                node->reference.id = left[0].id = before.id;
            } else {
                take_out(file, extent, node);
                drop_if_empty(&map->files, file);
            }
            if (changed)
                changed(context, &before, left, count);
            drop_single(map, extent, changed, context);
            recount(map, extent);
            drop_if_empty(&map->extents, extent);
            again = true;
            break;
        }
    }
    return 0;
}

uint64_t fileops_share_map_bytes(struct fileops_share_map *map)
{
    return map->bytes;
}

static int by_offset(const void *one, const void *other)
{
    const struct fileops_overwritten *a = one, *b = other;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

uint64_t fileops_share_map_shared_of(struct fileops_share_map *map, uint64_t inode)
{
    const struct chain *file = find(&map->files, inode);
    struct fileops_overwritten *ranges = NULL;
    size_t count = 0, room = 0;
    uint64_t bytes = 0, end = 0;

    for (const struct node *node = file ? file->first : NULL; node; node = node->next_of_file) {
        const struct fileops_reference *mine = &node->reference;
        const struct chain *extent = find(&map->extents, mine->extent);
        for (const struct node *other = extent->first; other; other = other->next_of_extent) {
            const uint64_t from = greater(mine->extent_offset, other->reference.extent_offset);
            const uint64_t to = lesser(mine->extent_offset + mine->length, other->reference.extent_offset + other->reference.length);
            if (other == node || from >= to)
                continue;
            if (count == room) {
                room = room ? room * 2 : 64;
                struct fileops_overwritten *larger = realloc(ranges, room * sizeof *ranges);
                if (!larger) {
                    free(ranges);
                    return 0; /* nothing known to be shared: an upper bound of what is unique */
                }
                ranges = larger;
            }
            ranges[count++] = (struct fileops_overwritten){.offset = mine->offset + (from - mine->extent_offset), .length = to - from};
        }
    }
    if (count)
        qsort(ranges, count, sizeof *ranges, by_offset);
    for (size_t i = 0; i < count; i++) {
        const uint64_t to = ranges[i].offset + ranges[i].length, from = greater(ranges[i].offset, end);
        if (to > from) {
            bytes += to - from;
            end = to;
        }
    }
    free(ranges);
    return bytes;
}

bool fileops_share_map_has(const struct fileops_share_map *map, uint64_t inode)
{
    return find(&map->files, inode) != NULL;
}

uint64_t fileops_share_map_sequence(const struct fileops_share_map *map)
{
    return map->last_sequence;
}

void fileops_share_map_files(const struct fileops_share_map *map, void (*visit)(void *context, uint64_t inode), void *context)
{
    for (size_t i = 0; i < map->files.bucket_count; i++)
        for (const struct chain *chain = map->files.buckets[i]; chain; chain = chain->next)
            if (chain->number != FILEOPS_OTHER_DATASET)
                visit(context, chain->number);
}
