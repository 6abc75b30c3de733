/* Where a clone is written before it is whole: a file in the dataset's own folder, renamed at the end. */
#ifndef FILEOPS_CLONE_PLACE_H
#define FILEOPS_CLONE_PLACE_H

#include "clone.h"

#include <sys/stat.h>

struct clone_place {
    int file;      /* -1: none */
    char name[40]; /* in the folder `clones`; empty: none */
};

/* Makes the file. */
int clone_place_make(const struct fileops_clone_request *request, struct clone_place *place);
/* Makes it stable and gives it its name, unless cancelled meanwhile; what had the name is gone then. */
int clone_place_put(const struct fileops_clone_request *request, struct clone_place *place, const struct stat *source);
/* Removes what was not put, and closes. True: there was something, and it is gone. */
bool clone_place_end(const struct fileops_clone_request *request, struct clone_place *place);

#endif
