/* Blocks about to be shared: into the books first. */
#include "space_internal.h"

#include <errno.h>
#include <stdlib.h>

#define SECONDS_FOR_FREEING 2
#define MOST_ADDED 65536u /* references by one clone; with more it is counted coarsely */

struct side {
    struct fileops_space *space;
    const struct fileops_ledger_file *source, *destination; /* NULL: in another dataset */
    bool filler;
};

static struct known_file *begin_clone(struct fileops_space *space, const struct fileops_ledger_file *row)
{
    struct known_file *file = space_find_or_make(space, row);
    if (file) {
        file->clones++;
        file->row.block_size = row->block_size;
        space_touch(space, file);
    }
    return file;
}

static void end_clone(struct fileops_space *space, uint64_t inode)
{
    struct known_file *file = space_find(space, inode);
    if (!file)
        return;
    file->clones -= file->clones != 0;
    space_touch(space, file);
    pthread_cond_broadcast(&space->calm);
    space_forget_if_nothing(space, file);
}

static bool is_freeing(struct fileops_space *space, uint64_t inode)
{
    const struct fileops_change *change = space->freeing;
    while (change && change->inode != inode)
        change = change->next_freeing;
    return change != NULL;
}

/* What is about to be shared, in the map. With `state` held. */
static int add_to_map(struct fileops_space *space, const struct known_file *source, const struct known_file *destination, uint64_t source_offset,
                      uint64_t destination_offset, const struct space_segment *segments, size_t count, struct fileops_references *added)
{
    struct fileops_clone_range range = {.source = source ? source->row.inode : FILEOPS_OTHER_DATASET,
                                        .destination = destination ? destination->row.inode : FILEOPS_OTHER_DATASET};
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        range.source_offset = segments[i].offset;
        range.destination_offset = destination_offset + (segments[i].offset - source_offset);
        range.length = segments[i].length;
        error = fileops_share_map_clone(space->map, &range, source ? source->overwritten : NULL, source ? source->overwritten_count : 0,
                                        false, MOST_ADDED, added);
    }
    if (error != E2BIG)
        return error;
    /* More pieces than are worth it: as if nothing had been overwritten, and all were new besides. That is never too little. */
    fileops_share_map_take_back(space->map, added, 0);
    range.source_offset = segments[0].offset;
    range.destination_offset = destination_offset + (segments[0].offset - source_offset);
    range.length = segments[count - 1].offset + segments[count - 1].length - segments[0].offset;
    error = fileops_share_map_clone(space->map, &range, NULL, 0, true, MOST_ADDED, added);
    return error == E2BIG ? EBUSY : error;
}

/* In the books of one dataset. `counted` gets what was added, the list to be freed by the caller. */
static int count_side(const struct side *side, uint64_t source_offset, uint64_t destination_offset, const struct space_segment *segments,
                      size_t segment_count, struct space_cloned *cloned, struct fileops_references *counted)
{
    struct fileops_space *space = side->space;
    struct fileops_references added = {0};
    struct known_file *source = NULL, *destination = NULL;
    uint64_t data = 0;
    int error = 0;

    pthread_mutex_lock(&space->state);
    const uint64_t before = fileops_share_map_bytes(space->map), needed_before = fileops_share_map_needed(space->map);
    if (side->source && !(source = begin_clone(space, side->source)))
        error = ENOMEM;
    if (!error && side->destination && !(destination = begin_clone(space, side->destination)))
        error = ENOMEM;
    if (!error && ((source && source->row.unfinished) || (destination && destination->row.unfinished && !side->filler)))
        error = ETXTBSY;
    /* From here on none begins for these files. */
    if (!error && source && !space_wait_calm(space, is_freeing, source->row.inode, SECONDS_FOR_FREEING))
        error = EBUSY;
    if (!error && destination && !space_wait_calm(space, is_freeing, destination->row.inode, SECONDS_FOR_FREEING))
        error = EBUSY;
    /* Changes of the source that go on may come before the clone or after: what they replace stays counted for both files. */
    if (source)
        source->clonings++;
    if (!error && segment_count)
        error = add_to_map(space, source, destination, source_offset, destination_offset, segments, segment_count, &added);
    for (size_t i = 0; i < segment_count; i++)
        data += segments[i].length;
    const bool thick = space->thick_count != 0;
    *cloned = (struct space_cloned){.shared = fileops_share_map_bytes(space->map) - before};
    const uint64_t needed = fileops_share_map_needed(space->map) - needed_before;
    /* What a clone takes is charged in full, and a thick file has it already. */
    if (destination && !destination->row.thick)
        cloned->taken = data;
    /* Looks count it as under way until they know that the pool's figures have it. */
    space->begun.shared += cloned->shared;
    space->begun.taken += cloned->taken;
    struct fileops_ledger_file rows[2];
    size_t row_count = 0;
    if (source)
        rows[row_count++] = source->row;
    if (destination && destination != source)
        rows[row_count++] = destination->row;
    pthread_mutex_unlock(&space->state);

    if (!error && thick)
        error = atomic_load(&space->has_holder) ? space_hold_more(space, needed + cloned->taken) : ENOSPC;
    if (!error && added.count) {
        fileops_ledger_begin(space->ledger);
        for (size_t i = 0; i < row_count; i++)
            fileops_ledger_put_file(space->ledger, &rows[i]);
        for (size_t i = 0; i < added.count; i++)
            fileops_ledger_put_reference(space->ledger, &added.list[i]);
        error = fileops_ledger_commit(space->ledger);
    }
    if (error) {
        pthread_mutex_lock(&space->state);
        fileops_share_map_take_back(space->map, &added, 0);
        space->begun.shared -= cloned->shared;
        space->begun.taken -= cloned->taken;
        if (source)
            end_clone(space, side->source->inode);
        if (destination)
            end_clone(space, side->destination->inode);
        pthread_mutex_unlock(&space->state);
    }
    if (error)
        added.count = 0;
    *counted = added;
    return error;
}

static void end_side(struct fileops_space *space, const struct space_share *share, bool source, bool destination, bool done)
{
    struct stat status;
    const bool known = destination && !fstat(share->destination, &status);
    const struct space_cloned *cloned = destination ? &share->destination_cloned : &share->source_cloned;
    pthread_mutex_lock(&space->state);
    space->over.shared += cloned->shared;
    space->over.taken += cloned->taken;
    space->figures_old = true;
    if (destination) {
        struct known_file *file = space_find(space, share->destination_inode);
        if (file && known)
            file->row.block_size = (uint32_t)status.st_blksize;
        /* What was there before; or, when nothing was shared, nothing of what was counted just now either way is certain: a
         * failed call may have shared a part. That stays until the range is overwritten, or the file is gone. */
        if (file && done && share->replaces)
            space_overwritten(space, file, share->destination_offset, share->length, share->sequence);
        end_clone(space, share->destination_inode);
    }
    if (source)
        end_clone(space, share->source_inode);
    pthread_mutex_unlock(&space->state);
}

/* The destination's block size when the clone is there: zfs_clone_range() grows that of a file of one block, and no other. */
static uint32_t block_size_after(const struct stat *source, const struct stat *destination)
{
    const bool grows = destination->st_size <= destination->st_blksize && source->st_blksize > destination->st_blksize;
    return (uint32_t)(grows || !destination->st_size ? source->st_blksize : destination->st_blksize);
}

/* As if it had never been counted: nothing was shared. */
static void uncount_side(struct fileops_space *space, struct space_share *share, struct fileops_references *counted)
{
    pthread_mutex_lock(&space->order);
    fileops_ledger_begin(space->ledger);
    for (size_t i = 0; i < counted->count; i++)
        fileops_ledger_remove_reference(space->ledger, counted->list[i].id);
    fileops_ledger_commit(space->ledger); /* should that fail, the ledger has more than there is */
    pthread_mutex_lock(&space->state);
    fileops_share_map_take_back(space->map, counted, 0);
    pthread_mutex_unlock(&space->state);
    end_side(space, share, false, true, false);
    space_order_end(space);
}

/* With `order` held: none is added meanwhile. */
static void note_what_was_there(struct space_share *share)
{
    struct fileops_space *space = share->destination_space;
    pthread_mutex_lock(&space->state);
    share->sequence = fileops_share_map_sequence(space->map);
    share->replaces = fileops_share_map_has(space->map, share->destination_inode);
    pthread_mutex_unlock(&space->state);
}

int space_share_begin(struct space_share *share, int source, int destination, uint64_t source_offset, const struct space_segment *segments,
                      size_t count)
{
    struct fileops_space *from = share->source_space, *to = share->destination_space;
    struct fileops_ledger_file source_row, destination_row;
    struct stat source_status, destination_status;
    struct fileops_references counted = {0}, other = {0};
    int error = 0;

    share->counted = share->is_in_books = false;
    share->destination = destination;
    share->source_offset = source_offset;
    error = from ? space_identify(from, source, &source_row, &source_status) : fstat(source, &source_status) ? errno : 0;
    if (!error && to) {
        error = space_identify(to, destination, &destination_row, &destination_status);
        if (!error)
            destination_row.block_size = block_size_after(&source_status, &destination_status);
    }
    if (error)
        return error;
    share->source_inode = from ? source_row.inode : 0;
    share->destination_inode = to ? destination_row.inode : 0;
    if (from == to) {
        if (!to)
            return 0;
        const struct side side = {to, &source_row, &destination_row, share->filler};
        pthread_mutex_lock(&to->order);
        note_what_was_there(share);
        error = count_side(&side, source_offset, share->destination_offset, segments, count, &share->destination_cloned, &counted);
        share->source_last = share->destination_last = fileops_share_map_sequence(to->map);
        space_order_end(to);
        goto exit;
    }
    if (to) {
        const struct side side = {to, NULL, &destination_row, share->filler};
        pthread_mutex_lock(&to->order);
        note_what_was_there(share);
        error = count_side(&side, source_offset, share->destination_offset, segments, count, &share->destination_cloned, &counted);
        share->destination_last = fileops_share_map_sequence(to->map);
        space_order_end(to);
        if (error)
            goto exit;
    }
    if (from) {
        const struct side side = {from, &source_row, NULL, share->filler};
        pthread_mutex_lock(&from->order);
        share->source_first = fileops_share_map_sequence(from->map);
        error = count_side(&side, source_offset, share->destination_offset, segments, count, &share->source_cloned, &other);
        share->source_last = fileops_share_map_sequence(from->map);
        space_order_end(from);
        if (error && to)
            uncount_side(to, share, &counted);
    }
exit:
    free(counted.list);
    free(other.list);
    share->counted = share->is_in_books = !error;
    return error;
}

void space_share_end(struct space_share *share, bool done)
{
    if (!share->counted)
        return;
    share->counted = false;
    if (share->source_space == share->destination_space) {
        if (share->destination_space)
            end_side(share->destination_space, share, true, true, done);
        return;
    }
    if (share->destination_space)
        end_side(share->destination_space, share, false, true, done);
    if (share->source_space)
        end_side(share->source_space, share, true, false, done);
}

static void forget_range(struct fileops_space *space, uint64_t inode, uint64_t offset, uint64_t length, uint64_t sequence)
{
    if (!space)
        return;
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    if (file)
        space_overwritten(space, file, offset, length, sequence);
    pthread_mutex_unlock(&space->state);
}

static void let_go(struct fileops_space *space, uint64_t after, uint64_t last)
{
    pthread_mutex_lock(&space->state);
    if (space->let_go_count == space->let_go_room && space->let_go_room < MOST_LET_GO) {
        const size_t room = space->let_go_room ? space->let_go_room * 2 : 16;
        struct space_let_go *larger = realloc(space->let_go, room * sizeof *larger);
        if (larger) {
            space->let_go = larger;
            space->let_go_room = room;
        }
    }
    if (space->let_go_count < space->let_go_room)
        space->let_go[space->let_go_count++] = (struct space_let_go){after, last};
    pthread_mutex_unlock(&space->state);
}

void space_share_undo(struct space_share *share)
{
    if (!share->is_in_books)
        return;
    share->is_in_books = false;
    forget_range(share->destination_space, share->destination_inode, share->destination_offset, share->length, share->destination_last);
    /* Within a dataset what the destination lets go of is nobody else's in the source. */
    if (share->source_space && share->source_space != share->destination_space)
        let_go(share->source_space, share->source_first, share->source_last);
}

void space_share_holes(const struct space_share *share, const struct space_segment *data, size_t count)
{
    const uint64_t end = share->source_offset + share->length;
    uint64_t at = share->source_offset;
    for (size_t i = 0; i <= count; i++) {
        const uint64_t next = i < count ? data[i].offset : end;
        if (next > at) {
            forget_range(share->destination_space, share->destination_inode, share->destination_offset + (at - share->source_offset),
                         next - at, share->destination_last);
            forget_range(share->source_space, share->source_inode, at, next - at, share->source_last);
        }
        at = i < count ? data[i].offset + data[i].length : end;
    }
}
