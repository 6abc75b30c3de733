/* What the books of many promised files cost, beside a holder that answers at once: `bench_space_many COUNT`, in $TMPDIR. */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 21
#define ENDINGS 1000

static struct fileops_held figures = {.available = UINT64_C(1) << 50, .overdraft = UINT64_C(1) << 40, .can_promise = true, .overwrites_unshare = true};

static int read_figures(void *context, struct fileops_held *read)
{
    (void)context;
    *read = figures;
    return 0;
}

static int hold(void *context, uint64_t bytes)
{
    (void)context;
    figures.held = figures.unused = bytes;
    return 0;
}

static int settle(void *context)
{
    (void)context;
    return 0;
}

static uint64_t cost(void *context, uint64_t size, uint32_t block_size)
{
    (void)context;
    return size + block_size;
}

static int find(const char *root, struct fileops_space_holder *holder)
{
    (void)root;
    *holder = (struct fileops_space_holder){.read = read_figures, .hold = hold, .settle = settle, .cost = cost};
    return 0;
}

static void must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static struct fileops_space *open_books(const char *root)
{
    struct fileops_space *space;
    must(fileops_space_open(root, &(struct fileops_space_options){.find_holder = find, .no_thread = true}, &space), "open");
    return space;
}

static int make_file(const char *root, unsigned number)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%u", root, number);
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    must(file < 0 || ftruncate(file, 1 << 20) ? errno : 0, path);
    return file;
}

/* Promises as an earlier process would have left them. */
static void make_promises(const char *root, unsigned count)
{
    char path[300];
    struct fileops_ledger *ledger;
    struct fileops_space *space = open_books(root);
    struct fileops_ledger_file *rows = calloc(count, sizeof *rows);
    struct stat status;
    for (unsigned i = 0; i < count; i++) {
        const int file = make_file(root, i);
        must(space_identify(space, file, &rows[i], &status), "identify");
        close(file);
    }
    fileops_space_close(space);
    snprintf(path, sizeof path, "%s/" FILEOPS_FOLDER "/ledger.sqlite", root);
    must(fileops_ledger_open(path, &ledger), path);
    fileops_ledger_begin(ledger);
    for (unsigned i = 0; i < count; i++) {
        rows[i].thick = true;
        rows[i].promised = 1 << 20;
        fileops_ledger_put_file(ledger, &rows[i]);
    }
    must(fileops_ledger_commit(ledger), "commit");
    fileops_ledger_close(ledger);
    free(rows);
}

static int by_value(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void print(const char *what, double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    printf("%s: %.3f [%.3f to %.3f] ms\n", what, values[ROUNDS / 2], values[ROUNDS / 4], values[ROUNDS * 3 / 4]);
}

int main(int count, char **words)
{
    const char *folder = getenv("TMPDIR");
    char root[200];
    double values[ROUNDS];
    const unsigned files = count == 2 ? (unsigned)strtoul(words[1], NULL, 10) : 0;
    if (!files) {
        fprintf(stderr, "usage: bench_space_many COUNT\n");
        return 2;
    }
    snprintf(root, sizeof root, "%s/fileops-XXXXXX", folder && folder[0] ? folder : "/tmp");
    if (!mkdtemp(root))
        must(errno, root);
    make_promises(root, files);
    const double begun = now();
    struct fileops_space *space = open_books(root);
    printf("%u promised files; opening: %.0f ms\n", files, now() - begun);
    fileops_space_maintain(space);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const double from = now();
        must(fileops_space_maintain(space), "look");
        values[i] = now() - from;
    }
    print("a look", values);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const int file = make_file(root, files + i);
        const double from = now();
        must(fileops_reserve(space, file, NULL), "reserve");
        values[i] = now() - from;
        close(file);
    }
    print("a promise", values);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const double from = now();
        for (unsigned ending = 0; ending < ENDINGS; ending++) {
            pthread_mutex_lock(&space->order);
            space_order_end(space);
        }
        values[i] = (now() - from) / ENDINGS;
    }
    print("letting go of the order", values);
    fileops_space_close(space);
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command) ? 1 : 0;
}
