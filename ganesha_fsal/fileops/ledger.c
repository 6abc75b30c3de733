#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION 1
#define FEWEST_FREE_PAGES 128       /* of 4 KiB: fewer are used again soon */
#define MOST_PAGES_AT_ONCE "1024" /* who waits for the books waits no longer than for so many */

enum statement {
    BEGIN, COMMIT, ROLLBACK, PUT_FILE, REMOVE_FILE, PUT_REFERENCE, REMOVE_REFERENCE, SET, GET, READ_FILES, READ_REFERENCES, FREE_PAGES,
    STATEMENT_COUNT
};

static const char *const texts[STATEMENT_COUNT] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT_FILE] = "INSERT OR REPLACE INTO file(inode, handle, thick, promised, block_size, unfinished) VALUES(?,?,?,?,?,?)",
    [REMOVE_FILE] = "DELETE FROM file WHERE inode = ?",
    [PUT_REFERENCE] = "INSERT OR REPLACE INTO reference(id, sequence, inode, offset, length, extent, extent_offset) VALUES(?,?,?,?,?,?,?)",
    [REMOVE_REFERENCE] = "DELETE FROM reference WHERE id = ?",
    [SET] = "INSERT OR REPLACE INTO setting(name, value) VALUES(?,?)",
    [GET] = "SELECT value FROM setting WHERE name = ?",
    [READ_FILES] = "SELECT inode, handle, thick, promised, block_size, unfinished FROM file",
    [READ_REFERENCES] = "SELECT id, sequence, inode, offset, length, extent, extent_offset FROM reference",
    [FREE_PAGES] = "PRAGMA freelist_count",
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS file(inode INTEGER PRIMARY KEY, handle BLOB NOT NULL, thick INTEGER NOT NULL, promised INTEGER NOT NULL,"
    " block_size INTEGER NOT NULL, unfinished INTEGER NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS reference(id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, inode INTEGER NOT NULL, offset INTEGER NOT NULL,"
    " length INTEGER NOT NULL, extent INTEGER NOT NULL, extent_offset INTEGER NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;";

struct fileops_ledger {
    char *path;
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    bool writable;  /* false: it was read, and can't be written at present */
    int error;      /* the first since begin */
    int last_error; /* of the last commit */
};

static int error_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return 0;
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_READONLY:
        return EROFS;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return EPROTO;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return EACCES;
    default:
        return EIO;
    }
}

/* What went wrong in the file system is more than SQLite's code says. */
static int error_in(sqlite3 *database, int code)
{
    const int error = error_of(code), system_error = error ? sqlite3_system_errno(database) : 0;
    return (error == EIO || error == EACCES) && (system_error == ENOSPC || system_error == EDQUOT) ? ENOSPC : error;
}

static void close_database(struct fileops_ledger *ledger)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(ledger->statements[i]);
        ledger->statements[i] = NULL;
    }
    sqlite3_close(ledger->database);
    ledger->database = NULL;
}

static int prepare(struct fileops_ledger *ledger)
{
    int code = SQLITE_OK;
    for (int i = 0; i < STATEMENT_COUNT && code == SQLITE_OK; i++)
        code = sqlite3_prepare_v3(ledger->database, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &ledger->statements[i], NULL);
    return code;
}

/* SQLite does not say why it could not make its log; this does. */
static int why_no_log(const struct fileops_ledger *ledger)
{
    char name[4200];
    snprintf(name, sizeof name, "%s-wal", ledger->path);
    const int log = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0)
        return errno == EDQUOT ? ENOSPC : errno;
    close(log);
    return EACCES;
}

static int open_writable(struct fileops_ledger *ledger)
{
    struct stat status;
    const bool empty = stat(ledger->path, &status) || !status.st_size;
    int code = sqlite3_open_v2(ledger->path, &ledger->database,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    /* A file that can become smaller is so from its first page on; to say it later would be a write. */
    if (code == SQLITE_OK && empty)
        code = sqlite3_exec(ledger->database, "PRAGMA auto_vacuum=INCREMENTAL", NULL, NULL, NULL);
    /* One process: WAL needs no shared memory then. FULL: a commit is on disk. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(ledger->database, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(ledger->database, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(ledger->database, schema, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(ledger->database, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = prepare(ledger);
    int error = error_in(ledger->database, code);
    if (!error && fileops_ledger_get(ledger, "version", VERSION) != VERSION)
        error = EPROTO;
    ledger->writable = !error;
    if (error)
        close_database(ledger);
    return error == EACCES ? why_no_log(ledger) : error;
}

/* Without a file to be made beside it: as it was when it was closed. What a crash left in the log can't be had so. */
static int open_to_read(struct fileops_ledger *ledger)
{
    char name[4200];
    struct stat status;
    int code;
    snprintf(name, sizeof name, "%s-wal", ledger->path);
    if (!stat(name, &status) && status.st_size)
        return ENOSPC;
    const bool empty = stat(ledger->path, &status) || !status.st_size;
    snprintf(name, sizeof name, "file:%s?immutable=1", ledger->path);
    code = empty ? sqlite3_open_v2(":memory:", &ledger->database, SQLITE_OPEN_READWRITE, NULL)
                 : sqlite3_open_v2(name, &ledger->database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK && empty)
        code = sqlite3_exec(ledger->database, schema, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = prepare(ledger);
    int error = error_in(ledger->database, code);
    if (!error && fileops_ledger_get(ledger, "version", VERSION) != VERSION)
        error = EPROTO;
    if (error)
        close_database(ledger);
    return error;
}

int fileops_ledger_open(const char *path, struct fileops_ledger **opened)
{
    struct fileops_ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        return ENOMEM;
    ledger->path = strdup(path);
    int error = ledger->path ? open_writable(ledger) : ENOMEM;
    if (!error) {
        fileops_ledger_begin(ledger);
        if (!fileops_ledger_get(ledger, "version", 0))
            fileops_ledger_set(ledger, "version", VERSION);
        fileops_ledger_commit(ledger);
    } else if (error == ENOSPC) {
        error = open_to_read(ledger);
        ledger->last_error = ENOSPC;
    }
    if (error) {
        fileops_ledger_close(ledger);
        return error;
    }
    *opened = ledger;
    return 0;
}

void fileops_ledger_close(struct fileops_ledger *ledger)
{
    if (!ledger)
        return;
    close_database(ledger);
    free(ledger->path);
    free(ledger);
}

int fileops_ledger_error(const struct fileops_ledger *ledger)
{
    return ledger->last_error;
}

/* For writing, in place of for reading: the same, as nobody else writes it. */
static int make_writable(struct fileops_ledger *ledger)
{
    struct fileops_ledger other = {.path = ledger->path};
    const int error = open_writable(&other);
    if (error)
        return error;
    close_database(ledger);
    ledger->database = other.database;
    memcpy(ledger->statements, other.statements, sizeof ledger->statements);
    ledger->writable = true;
    return 0;
}

/* Runs a statement that gives no rows. */
static void step(struct fileops_ledger *ledger, enum statement which)
{
    sqlite3_stmt *statement = ledger->statements[which];
    if (!ledger->error)
        ledger->error = error_in(ledger->database, sqlite3_step(statement));
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

static void bind(struct fileops_ledger *ledger, enum statement which, int place, uint64_t value)
{
    /* Offsets and lengths are of off_t, inode numbers may use all bits: as they are. */
    if (!ledger->error)
        ledger->error = error_of(sqlite3_bind_int64(ledger->statements[which], place, (sqlite3_int64)value));
}

void fileops_ledger_begin(struct fileops_ledger *ledger)
{
    ledger->error = ledger->writable ? 0 : make_writable(ledger);
    step(ledger, BEGIN);
}

int fileops_ledger_commit(struct fileops_ledger *ledger)
{
    step(ledger, COMMIT);
    if (ledger->error && !sqlite3_get_autocommit(ledger->database)) {
        sqlite3_step(ledger->statements[ROLLBACK]);
        sqlite3_reset(ledger->statements[ROLLBACK]);
    }
    ledger->last_error = ledger->error;
    return ledger->error;
}

void fileops_ledger_put_file(struct fileops_ledger *ledger, const struct fileops_ledger_file *file)
{
    bind(ledger, PUT_FILE, 1, file->inode);
    if (!ledger->error)
        ledger->error = error_of(sqlite3_bind_blob(ledger->statements[PUT_FILE], 2, file->handle, (int)file->handle_size, SQLITE_TRANSIENT));
    bind(ledger, PUT_FILE, 3, file->thick);
    bind(ledger, PUT_FILE, 4, file->promised);
    bind(ledger, PUT_FILE, 5, file->block_size);
    bind(ledger, PUT_FILE, 6, file->unfinished);
    step(ledger, PUT_FILE);
}

void fileops_ledger_remove_file(struct fileops_ledger *ledger, uint64_t inode)
{
    bind(ledger, REMOVE_FILE, 1, inode);
    step(ledger, REMOVE_FILE);
}

void fileops_ledger_put_reference(struct fileops_ledger *ledger, const struct fileops_reference *reference)
{
    bind(ledger, PUT_REFERENCE, 1, reference->id);
    bind(ledger, PUT_REFERENCE, 2, reference->sequence);
    bind(ledger, PUT_REFERENCE, 3, reference->inode);
    bind(ledger, PUT_REFERENCE, 4, reference->offset);
    bind(ledger, PUT_REFERENCE, 5, reference->length);
    bind(ledger, PUT_REFERENCE, 6, reference->extent);
    bind(ledger, PUT_REFERENCE, 7, reference->extent_offset);
    step(ledger, PUT_REFERENCE);
}

void fileops_ledger_remove_reference(struct fileops_ledger *ledger, uint64_t id)
{
    bind(ledger, REMOVE_REFERENCE, 1, id);
    step(ledger, REMOVE_REFERENCE);
}

void fileops_ledger_set(struct fileops_ledger *ledger, const char *name, uint64_t value)
{
    if (!ledger->error)
        ledger->error = error_of(sqlite3_bind_text(ledger->statements[SET], 1, name, -1, SQLITE_TRANSIENT));
    bind(ledger, SET, 2, value);
    step(ledger, SET);
}

uint64_t fileops_ledger_get(struct fileops_ledger *ledger, const char *name, uint64_t otherwise)
{
    sqlite3_stmt *statement = ledger->statements[GET];
    if (sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        otherwise = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return otherwise;
}

void fileops_ledger_shrink(struct fileops_ledger *ledger)
{
    sqlite3_stmt *statement = ledger->statements[FREE_PAGES];
    if (!ledger->writable)
        return;
    const int64_t free_pages = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    if (free_pages < FEWEST_FREE_PAGES)
        return;
    /* Should that fail, it is as large as it was. */
    if (sqlite3_exec(ledger->database, "PRAGMA incremental_vacuum(" MOST_PAGES_AT_ONCE ")", NULL, NULL, NULL) == SQLITE_OK)
        sqlite3_wal_checkpoint_v2(ledger->database, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

static int read_file(sqlite3_stmt *row, struct fileops_ledger_file *file)
{
    const void *handle = sqlite3_column_blob(row, 1);
    const int size = sqlite3_column_bytes(row, 1);
    if (!handle || size < 0 || size > FILEOPS_HANDLE_SIZE)
        return EPROTO;
    *file = (struct fileops_ledger_file){
        .inode = (uint64_t)sqlite3_column_int64(row, 0),
        .handle_size = (size_t)size,
        .thick = sqlite3_column_int64(row, 2) != 0,
        .promised = (uint64_t)sqlite3_column_int64(row, 3),
        .block_size = (uint32_t)sqlite3_column_int64(row, 4),
        .unfinished = sqlite3_column_int64(row, 5) != 0,
    };
    memcpy(file->handle, handle, (size_t)size);
    return 0;
}

int fileops_ledger_read(struct fileops_ledger *ledger, int (*visit_file)(void *context, const struct fileops_ledger_file *file),
                        int (*visit_reference)(void *context, const struct fileops_reference *reference), void *context)
{
    int code = SQLITE_DONE, error = 0;
    sqlite3_stmt *rows = ledger->statements[READ_FILES];
    while (!error && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        struct fileops_ledger_file file;
        error = read_file(rows, &file);
        if (!error)
            error = visit_file(context, &file);
    }
    sqlite3_reset(rows);
    if (error || code != SQLITE_DONE)
        return error ? error : error_of(code);
    rows = ledger->statements[READ_REFERENCES];
    while (!error && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        uint64_t column[7];
        for (int i = 0; i < 7; i++)
            column[i] = (uint64_t)sqlite3_column_int64(rows, i);
        error = visit_reference(context, &(const struct fileops_reference){.id = column[0], .sequence = column[1], .inode = column[2],
                                                                           .offset = column[3], .length = column[4],
                                                                           .extent = column[5], .extent_offset = column[6]});
    }
    sqlite3_reset(rows);
    return error ? error : code == SQLITE_DONE ? 0 : error_of(code);
}
