/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VAAINAS_STRUCTURES_H
#define VAAINAS_STRUCTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Structures that begin with their size as the caller knows it, and grow at their end: of a caller that was built with an earlier
 * libvaainas the fields that came later are zero, and are not written; of one that was built with a later libvaainas what this one
 * does not know has to be zero, and becomes so.
 */

#define STRUCTURE_MOST 4096u /* no libvaainas will have larger ones: a size that was not set is none */

/* false where the structure is shorter than `first`, what the first libvaainas had, or says more than this one knows. */
static inline bool structure_take(void *own, size_t own_size, const void *given, size_t first)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    if (size < first || size > STRUCTURE_MOST)
        return false;
    for (size_t i = own_size; i < size; i++)
        if (((const char *)given)[i] != 0)
            return false;
    memset(own, 0, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof(own_size));
    return true;
}

/* What is answered into: nothing of it is looked at but its size. */
static inline bool structure_begin(void *own, size_t own_size, const void *given, size_t first)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    memset(own, 0, own_size);
    memcpy(own, &own_size, sizeof(own_size));
    return size >= first && size <= STRUCTURE_MOST;
}

/* After structure_begin() was true. */
static inline void structure_give(const void *own, size_t own_size, void *given)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    size_t known = size < own_size ? size : own_size;
    memcpy((char *)given + sizeof(size), (const char *)own + sizeof(size), known - sizeof(size));
    memset((char *)given + known, 0, size - known);
}

/* With the name of the last field that the first libvaainas had. */
#define STRUCTURE_FIRST(structure, last) (offsetof(__typeof__(*(structure)), last) + sizeof((structure)->last))
#define STRUCTURE_TAKE(own, given, last) structure_take(own, sizeof(*(own)), given, STRUCTURE_FIRST(own, last))
#define STRUCTURE_BEGIN(own, given, last) structure_begin(own, sizeof(*(own)), given, STRUCTURE_FIRST(own, last))
#define STRUCTURE_GIVE(own, given) structure_give(own, sizeof(*(own)), given)

#endif
