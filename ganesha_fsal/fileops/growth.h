/* Making a file larger without cutting off what somebody else appended meanwhile.
 *
 * The kernel has no call for that: ftruncate(2) sets a size found earlier, and so does fallocate(2) on OpenZFS 2.3 (it compares without the
 * range lock that writers hold). So who may make a file larger, by whatever call, says so before and after; and who sets it to a
 * larger size is alone with the file between looking and setting. What local programs append meanwhile is not seen.
 *
 * Locks by device (st_dev) and inode number, shared by files at random: hold one at a time, and only around the call. Who wants to be alone waits in slices, so
 * that a long call of one keeps writers away for a moment only. */
#ifndef FILEOPS_GROWTH_H
#define FILEOPS_GROWTH_H

#include "space.h"

#include <sys/types.h>

/* `alone`: to look at the size and set it. EBUSY: others did not end within 10 s. Else 0, and fileops_growth_end() must follow
 * in the same thread. Not `alone` it waits as long as it takes, and always gives 0. */
int fileops_growth_begin(dev_t device, uint64_t inode, bool alone);
void fileops_growth_end(dev_t device, uint64_t inode);

/* Makes an open file at least `size` bytes large, by a hole. `space`: its books, or NULL. */
int fileops_extend(struct fileops_space *space, int file, uint64_t size);

#endif
