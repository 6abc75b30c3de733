#include "growth.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PLACES 1024u
#define SLICES_FOR_OTHERS 80
#define SLICE_NANOSECONDS (100 * 1000 * 1000)
#define PAUSE_NANOSECONDS (25 * 1000 * 1000)

static pthread_rwlock_t places[PLACES];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_places(void)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    /* Else a file that is written all the time could never be extended. */
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    for (unsigned i = 0; i < PLACES; i++)
        pthread_rwlock_init(&places[i], &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

/* Files of one number in many datasets do not meet more often than others. */
static pthread_rwlock_t *place_of(dev_t device, uint64_t inode)
{
    pthread_once(&made, make_places);
    const uint64_t mixed = (inode ^ (uint64_t)device * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);
    return &places[mixed >> 54];
}

int fileops_growth_begin(dev_t device, uint64_t inode, bool alone)
{
    pthread_rwlock_t *place = place_of(device, inode);
    struct timespec until;
    if (!alone) {
        while (pthread_rwlock_rdlock(place) == EAGAIN) /* too many for its counter */
            nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        return 0;
    }
    for (int slice = 0; slice < SLICES_FOR_OTHERS; slice++) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SLICE_NANOSECONDS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!pthread_rwlock_clockwrlock(place, CLOCK_MONOTONIC, &until))
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
    }
    return EBUSY;
}

void fileops_growth_end(dev_t device, uint64_t inode)
{
    pthread_rwlock_unlock(place_of(device, inode));
}

static int extend_alone(int file, const struct stat *found, uint64_t size)
{
    struct stat status;
    int error = fileops_growth_begin(found->st_dev, found->st_ino, true);
    if (error)
        return error;
    if (fstat(file, &status) || ((uint64_t)status.st_size < size && ftruncate(file, (off_t)size)))
        error = errno;
    fileops_growth_end(found->st_dev, found->st_ino);
    return error;
}

int fileops_extend(struct fileops_space *space, int file, uint64_t size)
{
    struct fileops_change change;
    struct stat status;
    if (fstat(file, &status))
        return errno;
    if ((uint64_t)status.st_size >= size)
        return 0;
    /* No truncation to the books: what lies beyond, should others have appended, stays counted. */
    int error = space ? fileops_change_begin(space, status.st_ino, FILEOPS_ALLOCATE, size, 0, &change) : 0;
    if (error)
        return error;
    for (unsigned attempt = 0;; attempt++) {
        error = extend_alone(file, &status, size);
        if (error != ENOSPC || !space || fileops_change_retry(space, &change, attempt))
            break;
    }
    if (space)
        fileops_change_end(space, &change, error);
    return error;
}
