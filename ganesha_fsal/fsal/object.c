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

__attribute__((constructor)) static void object_buckets_init(void)
{
    for (int number = 0; number < BUCKETS; number++) {
        pthread_mutex_init(&buckets[number].lock, NULL);
        glist_init(&buckets[number].objects);
    }
}

static struct bucket *object_bucket_of(uint64_t inode)
{
    return &buckets[(inode ^ inode >> 8) & (BUCKETS - 1)];
}

/* With the bucket's lock. */
static struct zvaai_object *object_find(const struct bucket *bucket, const struct fileops_dataset *dataset, uint64_t inode)
{
    const struct glist_head *node;

    for (node = bucket->objects.next; node != &bucket->objects; node = node->next) {
        struct zvaai_object *object = container_of(node, struct zvaai_object, living);

        if (object->dataset == dataset && object->vfs.obj_handle.fileid == inode)
            return object;
    }
    return NULL;
}

void object_begin(struct zvaai_object *object)
{
    struct bucket *bucket = object_bucket_of(object->vfs.obj_handle.fileid);

    pthread_mutex_lock(&bucket->lock);
    glist_add(&bucket->objects, &object->living);
    pthread_mutex_unlock(&bucket->lock);
}

bool object_end(struct zvaai_object *object)
{
    struct bucket *bucket = object_bucket_of(object->vfs.obj_handle.fileid);
    struct zvaai_object *other;

    pthread_mutex_lock(&bucket->lock);
    glist_del(&object->living);
    other = object_find(bucket, object->dataset, object->vfs.obj_handle.fileid);
    if (other != NULL)
        other->nameless = other->nameless || object->nameless;
    pthread_mutex_unlock(&bucket->lock);
    return other == NULL && object->nameless;
}

bool object_mark_nameless(const struct fileops_dataset *dataset, uint64_t inode)
{
    struct bucket *bucket = object_bucket_of(inode);
    struct zvaai_object *object;

    pthread_mutex_lock(&bucket->lock);
    object = object_find(bucket, dataset, inode);
    if (object != NULL)
        object->nameless = true;
    pthread_mutex_unlock(&bucket->lock);
    return object != NULL;
}

struct fileops_dataset *fsal_zvaai_dataset(struct fsal_obj_handle *leaf)
{
    return zvaai_object(leaf)->dataset;
}
