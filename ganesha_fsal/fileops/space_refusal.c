/* What a thin file is refused with where no more can be held for it. ENOSPC ends what runs there, so it needs more than one moment's figures:
 * the pool's own say now and then that there is less than there is. But where the pool refuses for want of space nobody is told to ask
 * again for ever. */
#include "space_internal.h"

#include <errno.h>

/* Looks, each after a transaction group, and how long since the first. */
#define LOOKS_THAT_AGREE 3
#define MILLISECONDS_THAT_AGREE 10000
#define LOOKS_THAT_CONTRADICT 12
#define MILLISECONDS_THAT_CONTRADICT 60000

bool space_is_plenty(uint64_t room, uint64_t bytes)
{
    return room > SPACE_LITTLE && room - SPACE_LITTLE > bytes;
}

/* What nobody held before the last look held what it could. */
static uint64_t room(struct fileops_space *space)
{
    pthread_mutex_lock(&space->state);
    const struct fileops_held figures = space->figures;
    pthread_mutex_unlock(&space->state);
    return space_free_for_all(&figures);
}

/* The same without what promises need of it for certain. */
static uint64_t room_beyond_promises(struct fileops_space *space)
{
    const uint64_t unheld = room(space), held = space->held;
    const uint64_t missing = space->needed > held ? space->needed - held : 0;
    const uint64_t certain = missing > space->uncertain ? missing - space->uncertain : 0;
    return unheld > certain ? unheld - certain : 0;
}

static void note(struct space_run *run, bool found)
{
    if (!found)
        *run = (struct space_run){0};
    else if (!run->looks++)
        run->since = space_milliseconds();
}

static bool is_lasting(const struct space_run *run, unsigned looks, int64_t milliseconds)
{
    return run->looks >= looks && space_milliseconds() - run->since >= milliseconds;
}

void space_note_refusal(struct fileops_space *space, bool refused)
{
    const bool contradicted = refused && space_is_plenty(room(space), 0);
    note(&space->contradicted, contradicted);
    note(&space->short_of, contradicted && space->seen_all && !space_is_plenty(room_beyond_promises(space), 0));
}

int space_refusal(struct fileops_space *space, int error, uint64_t bytes)
{
    if (error && error != ENOSPC)
        return EAGAIN;
    if (!space_is_plenty(room(space), bytes))
        return ENOSPC;
    return is_lasting(&space->short_of, LOOKS_THAT_AGREE, MILLISECONDS_THAT_AGREE) ||
                   is_lasting(&space->contradicted, LOOKS_THAT_CONTRADICT, MILLISECONDS_THAT_CONTRADICT)
               ? ENOSPC
               : EAGAIN;
}
