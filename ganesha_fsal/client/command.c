/* SPDX-License-Identifier: Apache-2.0 */
/* The command `vaai-nas`. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vaainas.h"

#define JOBS_SHOWN 256

static const char help[] =
    "usage: vaai-nas [--door program|procedure22] COMMAND SERVER:EXPORT ARGUMENT...\n"
    "\n"
    "Asks the NFS server of a datastore to do itself what would otherwise be read and written over the network.\n"
    "Paths are relative to the export.\n"
    "\n"
    "  caps SERVER:EXPORT                              what the server can do for this export\n"
    "  clone SERVER:EXPORT SOURCE DESTINATION ...      a copy of its own; blocks are shared where that can be\n"
    "  fast-clone SERVER:EXPORT SOURCE DESTINATION ...  blocks are shared, or it is refused\n"
    "  reserve SERVER:EXPORT FILE                      guarantee that all of the file can be written\n"
    "  stat SERVER:EXPORT FILE                         size, allocated, unique and reserved bytes\n"
    "  jobs SERVER:EXPORT                              clones under way, and those that ended lately\n"
    "  cancel SERVER:EXPORT DESTINATION [JOB]          end a clone; DESTINATION is the file it replaces, or the directory\n"
    "                                                  it makes a file in\n"
    "\n"
    "  --door DOOR     program: the RPC program of vaai_nas.x; procedure22: NFSv3 procedure 22, as plug-ins for ESXi use it.\n"
    "                  Unless told: the program, else procedure 22\n"
    "  --nfs-port PORT, --mount-port PORT, --program-port PORT\n"
    "                  where NFS, MOUNT and the program are, for a server whose portmapper can't be reached\n"
    "  --guarded       clone: fail where the destination exists\n"
    "  --dry-run       clone: check, and change nothing\n"
    "  --range SOURCE_OFFSET:DESTINATION_OFFSET:LENGTH\n"
    "                  clone: these bytes only, into a file that is there\n"
    "  --progress      clone: show how far it is, on standard error\n"
    "\n"
    "Several destinations are made one after the other; the first that fails ends it, and those before it stay.\n"
    "Interrupting a clone (Ctrl-C) cancels it on the server; by procedure 22 it is answered when it is done, and can't be.\n"
    "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 not supported, 4 not found, 5 no access or read-only, 6 no space,\n"
    "            7 exists, 8 busy, 9 cancelled or interrupted, 10 server not reached\n"
    "\n"
    "examples:\n"
    "  vaai-nas caps nas1:/datastore1\n"
    "  vaai-nas clone --progress nas1:/datastore1 template/disk.vmdk vm7/disk.vmdk\n"
    "  vaai-nas --door procedure22 fast-clone nas1:/datastore1 template/disk.vmdk vm8/disk.vmdk\n"
    "  vaai-nas fast-clone nas1:/datastore1 template/disk.vmdk vm1/disk.vmdk vm2/disk.vmdk\n"
    "  vaai-nas stat nas1:/datastore1 vm8/disk.vmdk\n";

enum exit_code {
    DONE = 0,
    FAILED = 1,
    USAGE = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 4,
    NO_ACCESS = 5,
    NO_SPACE = 6,
    EXISTS = 7,
    BUSY = 8,
    CANCELLED = 9,
    NOT_REACHED = 10,
};

static volatile sig_atomic_t interrupted;

struct settings {
    struct vaainas_server server;
    struct vaainas_clone clone;
    bool progress;
};

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int exit_code_of(enum vaainas_error error)
{
    switch (error) {
    case VAAINAS_OK:
        return DONE;
    case VAAINAS_NOT_SUPPORTED:
    case VAAINAS_NO_SERVICE:
        return NOT_SUPPORTED;
    case VAAINAS_NOT_FOUND:
        return NOT_FOUND;
    case VAAINAS_ACCESS:
    case VAAINAS_READ_ONLY:
        return NO_ACCESS;
    case VAAINAS_NO_SPACE:
    case VAAINAS_QUOTA:
        return NO_SPACE;
    case VAAINAS_EXISTS:
        return EXISTS;
    case VAAINAS_BUSY:
        return BUSY;
    case VAAINAS_CANCELLED:
    case VAAINAS_INTERRUPTED:
    case VAAINAS_STUCK:
        return CANCELLED;
    case VAAINAS_UNREACHABLE:
        return NOT_REACHED;
    default:
        return FAILED;
    }
}

static int report(const struct vaainas_failure *failure)
{
    fprintf(stderr, "vaai-nas: %s (%s)\n", failure->message, vaainas_error_name(failure->error));
    return exit_code_of(failure->error);
}

static bool show_progress(void *context, uint64_t done, uint64_t total)
{
    const struct settings *settings = context;

    if (settings->progress && total != 0)
        fprintf(stderr, "%" PRIu64 " of %" PRIu64 " bytes\n", done, total);
    else if (settings->progress)
        fprintf(stderr, "%" PRIu64 " bytes\n", done);
    return !interrupted;
}

static const char *yes_or_no(bool yes)
{
    return yes ? "yes" : "no";
}

static int caps(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_capabilities found = {.size = sizeof(found)};
    struct vaainas_failure failure;

    (void)settings;
    (void)arguments;
    if (vaainas_supported(session, &found, &failure) != VAAINAS_OK)
        return report(&failure);
    printf("door: %s\nclone: %s\nfast clone: %s\nreserve: %s\nstatistics: %s\nunique exact: %s\n",
           vaainas_session_door(session) == VAAINAS_PROGRAM ? "program" : "procedure22", yes_or_no(found.clone),
           yes_or_no(found.fast_clone), yes_or_no(found.reserve), yes_or_no(found.statistics), yes_or_no(found.unique_exact));
    return DONE;
}

static int clone_file(struct vaainas_session *session, struct settings *settings)
{
    struct vaainas_clone_result result = {.size = sizeof(result)};
    struct vaainas_failure failure;

    if (vaainas_clone_file(session, &settings->clone, &result, &failure) != VAAINAS_OK)
        return report(&failure);
    if ((settings->clone.flags & VAAINAS_DRY_RUN) != 0)
        printf("it would be begun\n");
    else if (result.ways_known)
        printf("done: %" PRIu64 " bytes, %" PRIu64 " cloned, %" PRIu64 " copied%s%s\n", result.done_bytes, result.cloned_bytes,
               result.copied_bytes, result.reason[0] != 0 ? "; " : "", result.reason);
    else
        printf("done: %" PRIu64 " bytes\n", result.done_bytes);
    return DONE;
}

static int clone_files(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    bool several = arguments[2] != NULL;
    int code = DONE;

    settings->clone.source = arguments[0];
    settings->clone.progress = show_progress;
    settings->clone.context = settings;
    for (char **destination = arguments + 1; *destination != NULL && code == DONE; destination++) {
        settings->clone.destination = *destination;
        if (several) {
            printf("%s: ", *destination);
            fflush(stdout); /* before what standard error says of it */
        }
        code = clone_file(session, settings);
        if (several && code != DONE)
            printf("failed\n");
        fflush(stdout); /* who reads along learns of each when it is there */
    }
    return code;
}

static int fast_clone(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    settings->clone.flags |= VAAINAS_FAST;
    return clone_files(session, settings, arguments);
}

static void print_statistics(const struct vaainas_statistics *found)
{
    printf("total: %" PRIu64 "\nallocated: %" PRIu64 "\nunique: %s%" PRIu64 "\nreserved: %" PRIu64 "\n", found->total_bytes,
           found->allocated_bytes, found->unique_exact ? "" : "at most ", found->unique_bytes, found->reserved_bytes);
}

static int stat_file(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_statistics found = {.size = sizeof(found)};
    struct vaainas_failure failure;

    (void)settings;
    if (vaainas_stat(session, arguments[0], &found, &failure) != VAAINAS_OK)
        return report(&failure);
    print_statistics(&found);
    return DONE;
}

static int reserve(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_statistics found = {.size = sizeof(found)};
    struct vaainas_failure failure;

    (void)settings;
    if (vaainas_reserve(session, arguments[0], &found, &failure) != VAAINAS_OK)
        return report(&failure);
    print_statistics(&found);
    return DONE;
}

static int jobs(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    static const char *const states[] = {"waiting", "running", "complete", "failed"};
    struct vaainas_job *list = calloc(JOBS_SHOWN, sizeof(*list));
    struct vaainas_failure failure = {.error = VAAINAS_NO_MEMORY, .message = "there is no memory for a list"};
    size_t count = JOBS_SHOWN;
    int code = DONE;

    (void)settings;
    (void)arguments;
    if (list == NULL || vaainas_jobs(session, list, sizeof(*list), &count, &failure) != VAAINAS_OK) {
        code = report(&failure);
        count = 0;
    }
    for (size_t i = 0; i < count; i++)
        printf("%" PRIu64 " %s %" PRIu64 "/%" PRIu64 " bytes %.3f s from %s%s%s%s%s\n", list[i].id,
               (unsigned int)list[i].state < 4 ? states[list[i].state] : "unknown", list[i].done_bytes, list[i].total_bytes,
               list[i].elapsed_milliseconds / 1000.0, list[i].host, list[i].name[0] != 0 ? ": " : "", list[i].name,
               list[i].reason[0] != 0 ? "; " : "", list[i].reason);
    free(list);
    return code;
}

static int cancel(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_failure failure;
    char *end = NULL;
    uint64_t job = 0;

    (void)settings;
    if (arguments[1] != NULL) {
        job = strtoull(arguments[1], &end, 10);
        if (*arguments[1] == 0 || *end != 0) {
            fprintf(stderr, "vaai-nas: %s is no number of a job\n", arguments[1]);
            return USAGE;
        }
    }
    return vaainas_cancel(session, arguments[0], job, &failure) == VAAINAS_OK ? DONE : report(&failure);
}

static const struct command {
    const char *name;
    int least, most; /* arguments after SERVER:EXPORT */
    int (*run)(struct vaainas_session *session, struct settings *settings, char **arguments);
} commands[] = {
    {"caps", 0, 0, caps},           {"clone", 2, INT_MAX, clone_files}, {"fast-clone", 2, INT_MAX, fast_clone}, {"reserve", 1, 1, reserve},
    {"stat", 1, 1, stat_file},      {"jobs", 0, 0, jobs},        {"cancel", 1, 2, cancel},
};

static bool parse_range(const char *text, struct vaainas_clone *clone)
{
    int used = 0;

    clone->range = true;
    return sscanf(text, "%" SCNu64 ":%" SCNu64 ":%" SCNu64 "%n", &clone->source_offset, &clone->destination_offset, &clone->length,
                  &used) == 3 &&
           text[used] == 0 && strchr(text, '-') == NULL;
}

static bool parse_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    *port = (uint16_t)number;
    return *text >= '0' && *text <= '9' && *end == 0 && number >= 1 && number <= UINT16_MAX;
}

static bool parse_options(int count, char **words, struct settings *settings)
{
    static const struct option options[] = {
        {"door", required_argument, NULL, 'd'}, {"guarded", no_argument, NULL, 'g'},  {"dry-run", no_argument, NULL, 'n'},
        {"range", required_argument, NULL, 'r'}, {"progress", no_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'},
        {"nfs-port", required_argument, NULL, 'N'}, {"mount-port", required_argument, NULL, 'M'},
        {"program-port", required_argument, NULL, 'P'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(count, words, "h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            if (strcmp(optarg, "program") == 0)
                settings->server.door = VAAINAS_PROGRAM;
            else if (strcmp(optarg, "procedure22") == 0)
                settings->server.door = VAAINAS_PROCEDURE22;
            else
                return false;
            break;
        case 'g':
            settings->clone.flags |= VAAINAS_GUARDED;
            break;
        case 'n':
            settings->clone.flags |= VAAINAS_DRY_RUN;
            break;
        case 'r':
            if (!parse_range(optarg, &settings->clone))
                return false;
            break;
        case 'N':
            if (!parse_port(optarg, &settings->server.nfs_port))
                return false;
            break;
        case 'M':
            if (!parse_port(optarg, &settings->server.mount_port))
                return false;
            break;
        case 'P':
            if (!parse_port(optarg, &settings->server.program_port))
                return false;
            break;
        case 'p':
            settings->progress = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(DONE);
        default:
            return false;
        }
    }
    return true;
}

static int run(const struct command *command, char *server, struct settings *settings, char **arguments)
{
    struct vaainas_failure failure;
    char *path = strstr(server, ":/"); /* an IPv6 address has colons of its own */
    int code;

    if (path == NULL) {
        fprintf(stderr, "vaai-nas: %s is no SERVER:/EXPORT\n", server);
        return USAGE;
    }
    *path++ = 0;
    settings->server.host = server;
    settings->server.export_path = path;
    struct vaainas_session *session = vaainas_open_server(&settings->server, &failure);
    if (session == NULL)
        return report(&failure);
    code = command->run(session, settings, arguments);
    vaainas_close(session);
    return code;
}

int main(int count, char **words)
{
    struct settings settings = {.server = {.size = sizeof(settings.server)}, .clone = {.size = sizeof(settings.clone)}};
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};

    if (!parse_options(count, words, &settings) || count - optind < 2) {
        fputs("vaai-nas: wrong usage; vaai-nas --help shows how\n", stderr);
        return USAGE;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int given = count - optind - 2;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(words[optind], commands[i].name) == 0 && given >= commands[i].least && given <= commands[i].most)
            return run(&commands[i], words[optind + 1], &settings, words + optind + 2);
    fputs("vaai-nas: wrong usage; vaai-nas --help shows how\n", stderr);
    return USAGE;
}
