#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What the program wrote to one of its outputs so far. */
struct text {
    int fd; /* -1: at its end */
    char *buffer;
    size_t size;
    size_t used;
};

static void take(struct text *text)
{
    char rest[4096];
    const size_t room = text->size - 1 - text->used;
    const ssize_t got = read(text->fd, room ? text->buffer + text->used : rest, room ? room : sizeof rest);
    if (got > 0 && room)
        text->used += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close(text->fd);
        text->fd = -1;
    }
}

/* Reads both outputs to their ends. False: time is over. */
static bool read_all(struct text texts[2], double until)
{
    while (texts[0].fd >= 0 || texts[1].fd >= 0) {
        struct pollfd polled[2] = {{.fd = texts[0].fd, .events = POLLIN}, {.fd = texts[1].fd, .events = POLLIN}};
        const double left = until - now();
        if (left <= 0)
            return false;
        if (poll(polled, 2, (int)(left * 1000) + 1) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++)
            if (texts[i].fd >= 0 && polled[i].revents)
                take(&texts[i]);
    }
    return true;
}

static int spawn(const char *const words[], int output, int errors, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", language[] = "LC_ALL=C";
    char *const environment[] = {path, language, NULL};
    const char *const folders[] = {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/sbin/"};

    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (!error) /* a server's sockets and clients' files are not a program's, least of all of one that hangs */
        error = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    if (!error && words[0][0] == '/') {
        error = posix_spawn(process, words[0], &actions, &attributes, (char *const *)(uintptr_t)words, environment);
    } else if (!error) {
        /* Not the caller's PATH: a daemon's may lack sbin. */
        error = ENOENT;
        for (size_t i = 0; i < sizeof folders / sizeof *folders && error == ENOENT; i++) {
            char file[64];
            size_t used = 0;
            for (const char *from = folders[i]; *from; from++)
                file[used++] = *from;
            for (const char *from = words[0]; *from && used < sizeof file - 1; from++)
                file[used++] = *from;
            file[used] = 0;
            error = posix_spawn(process, file, &actions, &attributes, (char *const *)(uintptr_t)words, environment);
        }
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* A program that did not end when it was killed. */
struct left_behind {
    struct left_behind *next;
    pid_t process;
    char subject[];
};

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct left_behind *left; /* one for each subject at most */

/* Whether one is left behind for the subject; those that have ended since are forgotten. */
static bool hangs(const char *subject)
{
    bool found = false;
    pthread_mutex_lock(&left_lock);
    for (struct left_behind **place = &left, *one; (one = *place);) {
        if (waitpid(one->process, NULL, WNOHANG) == 0) {
            found = found || !strcmp(one->subject, subject);
            place = &one->next;
        } else {
            *place = one->next;
            free(one);
        }
    }
    pthread_mutex_unlock(&left_lock);
    return found;
}

/* Kills it, and gives it a second to end. */
static void end(const char *subject, pid_t process)
{
    kill(process, SIGKILL);
    for (int i = 0; i < 100; i++) {
        if (waitpid(process, NULL, WNOHANG) != 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    struct left_behind *one = malloc(sizeof *one + strlen(subject) + 1);
    if (!one)
        return;
    one->process = process;
    strcpy(one->subject, subject);
    pthread_mutex_lock(&left_lock);
    one->next = left;
    left = one;
    pthread_mutex_unlock(&left_lock);
}

int fileops_program_run(const char *subject, const char *const words[], double seconds, char *output, size_t output_size, char *errors,
                        size_t errors_size)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t process = -1;
    int status = 0, error = 0;
    struct text texts[2] = {{.fd = -1, .buffer = output, .size = output_size}, {.fd = -1, .buffer = errors, .size = errors_size}};

    const double until = now() + seconds;
    output[0] = errors[0] = 0;
    if (hangs(subject))
        return ETIMEDOUT;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
        error = errno;
        goto exit;
    }
    error = spawn(words, out[1], err[1], &process);
    if (error)
        goto exit;
    close(out[1]);
    close(err[1]);
    texts[0].fd = out[0];
    texts[1].fd = err[0];
    out[0] = out[1] = err[0] = err[1] = -1;
    const bool in_time = read_all(texts, until);
    output[texts[0].used] = 0;
    errors[texts[1].used] = 0;
    if (!in_time) {
        error = ETIMEDOUT;
        end(subject, process);
        goto exit;
    }
    while (waitpid(process, &status, WNOHANG) == 0) { /* its outputs end with it, but for a moment */
        if (now() >= until) {
            error = ETIMEDOUT;
            end(subject, process);
            goto exit;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        error = EREMOTEIO;
exit:
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            close(out[i]);
        if (err[i] >= 0)
            close(err[i]);
        if (texts[i].fd >= 0)
            close(texts[i].fd);
    }
    return error;
}
