/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "dataset_internal.h"
#include "interlock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

void interlock_init(struct fileops_dataset *dataset)
{
    for (unsigned int i = 0; i < INTERLOCK_PLACES; i++) {
        pthread_mutex_init(&dataset->places[i].lock, NULL);
        pthread_cond_init(&dataset->places[i].changed, NULL);
    }
}

void interlock_destroy(struct fileops_dataset *dataset)
{
    for (unsigned int i = 0; i < INTERLOCK_PLACES; i++) {
        pthread_mutex_destroy(&dataset->places[i].lock);
        pthread_cond_destroy(&dataset->places[i].changed);
    }
}

static struct interlock_place *interlock_place_of(struct fileops_dataset *dataset, uint64_t inode)
{
    return &dataset->places[inode * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

static bool interlock_may_free(const struct interlock_place *place)
{
    return place->steps == 0;
}

static bool interlock_may_step(const struct interlock_place *place)
{
    return place->freeing == 0 && place->waiting_to_free == 0;
}

/* With the place's lock. False: timeout. */
static bool interlock_wait_until(struct interlock_place *place, bool (*may)(const struct interlock_place *place))
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

static void interlock_release(struct interlock_place *place, unsigned int *count)
{
    pthread_mutex_lock(&place->lock);
    --*count;
    pthread_cond_broadcast(&place->changed);
    pthread_mutex_unlock(&place->lock);
}

int fileops_freeing_begin(struct fileops_dataset *dataset, uint64_t inode)
{
    struct interlock_place *place = interlock_place_of(dataset, inode);

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

void fileops_freeing_end(struct fileops_dataset *dataset, uint64_t inode)
{
    struct interlock_place *place = interlock_place_of(dataset, inode);

    interlock_release(place, &place->freeing);
}

static bool interlock_enter_step(struct interlock_place *place)
{
    pthread_mutex_lock(&place->lock);
    const bool entered = interlock_wait_until(place, interlock_may_step);
    place->steps += entered;
    pthread_mutex_unlock(&place->lock);
    return entered;
}

/* In a fixed order, because two clones could otherwise wait for each other. */
static void interlock_sort(struct interlock_place **first, struct interlock_place **second)
{
    struct interlock_place *lower = *first < *second ? *first : *second, *higher = *first < *second ? *second : *first;

    *first = lower;
    *second = higher;
}

int interlock_step_begin(const struct interlock_file *source, const struct interlock_file *destination)
{
    struct interlock_place *first = interlock_place_of(source->dataset, source->inode),
                 *second = interlock_place_of(destination->dataset, destination->inode);

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
    struct interlock_place *first = interlock_place_of(source->dataset, source->inode),
                 *second = interlock_place_of(destination->dataset, destination->inode);

    interlock_release(first, &first->steps);
    if (second != first)
        interlock_release(second, &second->steps);
}
