/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "object.h"

#include <pthread.h>

#include "../vaai_nas/leaf_call.h"

#define BUCKETS 256 /* a power of two */

static struct bucket {
    pthread_mutex_t lock;
    struct glist_head objects;
} buckets[BUCKETS];

__attribute__((constructor)) static void buckets_init(void)
{
    for (int number = 0; number < BUCKETS; number++) {
        pthread_mutex_init(&buckets[number].lock, NULL);
        glist_init(&buckets[number].objects);
    }
}

static struct bucket *bucket_of(uint64_t inode)
{
    return &buckets[(inode ^ inode >> 8) & (BUCKETS - 1)];
}

static bool found(const struct bucket *bucket, const struct fileops_space *space, uint64_t inode)
{
    const struct glist_head *node;

    for (node = bucket->objects.next; node != &bucket->objects; node = node->next) {
        const struct zvaai_object *object = container_of(node, struct zvaai_object, living);

        if (object->space == space && object->vfs.obj_handle.fileid == inode)
            return true;
    }
    return false;
}

void object_begin(struct zvaai_object *object)
{
    struct bucket *bucket = bucket_of(object->vfs.obj_handle.fileid);

    pthread_mutex_lock(&bucket->lock);
    glist_add(&bucket->objects, &object->living);
    pthread_mutex_unlock(&bucket->lock);
}

bool object_end(struct zvaai_object *object)
{
    struct bucket *bucket = bucket_of(object->vfs.obj_handle.fileid);
    bool last;

    pthread_mutex_lock(&bucket->lock);
    glist_del(&object->living);
    last = !found(bucket, object->space, object->vfs.obj_handle.fileid);
    pthread_mutex_unlock(&bucket->lock);
    return last;
}

struct fileops_space *fsal_zvaai_space(struct fsal_obj_handle *leaf)
{
    return zvaai_object(leaf)->space;
}

bool object_in_use(const struct fileops_space *space, uint64_t inode)
{
    struct bucket *bucket = bucket_of(inode);
    bool result;

    pthread_mutex_lock(&bucket->lock);
    result = found(bucket, space, inode);
    pthread_mutex_unlock(&bucket->lock);
    return result;
}
