/* The ledger on disk: an SQLite file. What is in it when a function returned 0 is there after a crash. */
#ifndef FILEOPS_LEDGER_H
#define FILEOPS_LEDGER_H

#include "share_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of name_to_handle_at(2), its type first: inode and generation, and the way back to the file. */
#define FILEOPS_HANDLE_SIZE 132

struct fileops_ledger_file {
    uint64_t inode;
    uint8_t handle[FILEOPS_HANDLE_SIZE];
    size_t handle_size;
    bool thick;
    uint64_t promised; /* of a thick file: so many bytes of it */
    uint32_t block_size;
    bool unfinished; /* the destination of a clone that is under way: to be emptied after a crash */
};

struct fileops_ledger;

/* Opens or makes it. EBUSY: another process has it open. EPROTO: of a later version, or damaged. On a full file system it is read only:
 * commits fail with ENOSPC until one finds room. */
int fileops_ledger_open(const char *path, struct fileops_ledger **ledger);
void fileops_ledger_close(struct fileops_ledger *ledger);

/* Visits all there is; a visit that returns no 0 ends it with that. */
int fileops_ledger_read(struct fileops_ledger *ledger, int (*file)(void *context, const struct fileops_ledger_file *file),
                        int (*reference)(void *context, const struct fileops_reference *reference), void *context);

/* Changes come between begin and commit: all of them are made, or none. An error in between is given by commit, which makes none then. */
void fileops_ledger_begin(struct fileops_ledger *ledger);
void fileops_ledger_put_file(struct fileops_ledger *ledger, const struct fileops_ledger_file *file);
void fileops_ledger_remove_file(struct fileops_ledger *ledger, uint64_t inode);
void fileops_ledger_put_reference(struct fileops_ledger *ledger, const struct fileops_reference *reference);
void fileops_ledger_remove_reference(struct fileops_ledger *ledger, uint64_t id);
void fileops_ledger_set(struct fileops_ledger *ledger, const char *name, uint64_t value);
int fileops_ledger_commit(struct fileops_ledger *ledger);
/* Gives back to the file system what the file has no use for, a part at a time. Not between begin and commit. */
void fileops_ledger_shrink(struct fileops_ledger *ledger);
int fileops_ledger_error(const struct fileops_ledger *ledger); /* of the last commit, or 0 */

/* A number kept by fileops_ledger_set(); `otherwise` where there is none. */
uint64_t fileops_ledger_get(struct fileops_ledger *ledger, const char *name, uint64_t otherwise);

#endif
