/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "interlock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define PLACES 1024u /* 2^10 */

static struct place {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned int freeing, waiting_to_free, steps;
} places[PLACES];

__attribute__((constructor)) static void interlock_make_places(void)
{
    for (unsigned int i = 0; i < PLACES; i++) {
        pthread_mutex_init(&places[i].lock, NULL);
        pthread_cond_init(&places[i].changed, NULL);
    }
}

/* Equal inode numbers in many datasets must not collide more often than others. */
static struct place *interlock_place_of(dev_t device, uint64_t inode)
{
    const uint64_t mixed = (inode ^ (uint64_t)device * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);

    return &places[mixed >> 54];
}

static bool interlock_may_free(const struct place *place)
{
    return place->steps == 0;
}

static bool interlock_may_step(const struct place *place)
{
    return place->freeing == 0 && place->waiting_to_free == 0;
}

/* With the place's lock. False: timeout. */
static bool interlock_wait_until(struct place *place, bool (*may)(const struct place *place))
{
    struct timespec until;

    if (may(place))
        return true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FILEOPS_INTERLOCK_SECONDS;
    while (!may(place))
        if (pthread_cond_clockwait(&place->changed, &place->lock, CLOCK_MONOTONIC, &until) != 0)
            return may(place);
    return true;
}

static void interlock_release(struct place *place, unsigned int *count)
{
    pthread_mutex_lock(&place->lock);
    --*count;
    pthread_cond_broadcast(&place->changed);
    pthread_mutex_unlock(&place->lock);
}

int fileops_freeing_begin(dev_t device, uint64_t inode)
{
    struct place *place = interlock_place_of(device, inode);

    pthread_mutex_lock(&place->lock);
    place->waiting_to_free++;
    const bool entered = interlock_wait_until(place, interlock_may_free);
    place->waiting_to_free--;
    place->freeing += entered;
    if (!entered)
        pthread_cond_broadcast(&place->changed);
    pthread_mutex_unlock(&place->lock);
    return entered ? 0 : EBUSY;
}

void fileops_freeing_end(dev_t device, uint64_t inode)
{
    struct place *place = interlock_place_of(device, inode);

    interlock_release(place, &place->freeing);
}

static bool interlock_enter_step(struct place *place)
{
    pthread_mutex_lock(&place->lock);
    const bool entered = interlock_wait_until(place, interlock_may_step);
    place->steps += entered;
    pthread_mutex_unlock(&place->lock);
    return entered;
}

/* In a fixed order, because two clones could otherwise wait for each other. */
static void interlock_sort(struct place **first, struct place **second)
{
    struct place *lower = *first < *second ? *first : *second, *higher = *first < *second ? *second : *first;

    *first = lower;
    *second = higher;
}

int interlock_step_begin(const struct interlock_file *source, const struct interlock_file *destination)
{
    struct place *first = interlock_place_of(source->device, source->inode),
                 *second = interlock_place_of(destination->device, destination->inode);

    interlock_sort(&first, &second);
    if (!interlock_enter_step(first))
        return EBUSY;
    if (second == first || interlock_enter_step(second))
        return 0;
    interlock_release(first, &first->steps);
    return EBUSY;
}

void interlock_step_end(const struct interlock_file *source, const struct interlock_file *destination)
{
    struct place *first = interlock_place_of(source->device, source->inode),
                 *second = interlock_place_of(destination->device, destination->inode);

    interlock_release(first, &first->steps);
    if (second != first)
        interlock_release(second, &second->steps);
}
