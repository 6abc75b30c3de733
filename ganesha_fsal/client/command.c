/* SPDX-License-Identifier: Apache-2.0 */
/* The command `vaai-nas`. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vaainas.h"

static const char help[] =
    "usage: vaai-nas [OPTIONS] COMMAND SERVER:EXPORT [ARGUMENT...]\n"
    "\n"
    "Clone files, reserve space and show statistics on the NFS server of a datastore. No data crosses the network.\n"
    "Paths are relative to the export.\n"
    "\n"
    "  caps SERVER:EXPORT                               Show what the server supports for the export.\n"
    "  clone SERVER:EXPORT SOURCE DESTINATION ...       Clone a file. The server shares blocks where it can, and copies the rest.\n"
    "  fast-clone SERVER:EXPORT SOURCE DESTINATION ...  Clone a file by sharing blocks. Never copies.\n"
    "  reserve SERVER:EXPORT FILE                       Guarantee that the whole file can be written.\n"
    "  stat SERVER:EXPORT FILE                          Show a file's size, allocated, unique and reserved bytes.\n"
    "\n"
    "  --progress            Show the progress of a full clone on standard error.\n"
    "  --nfs-port PORT       Use this port for NFS, without the server's portmapper.\n"
    "  --mount-port PORT     Use this port for MOUNT, without the server's portmapper.\n"
    "  --help                Show this help.\n"
    "\n"
    "A destination that exists is refused. Several are cloned one after the other, until one fails. Ctrl-C\n"
    "aborts a full clone, and ends after the current fast clone.\n"
    "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 not supported, 4 not found, 5 no access or read-only, 6 no space,\n"
    "            7 exists, 8 busy, 9 cancelled, 10 server not reached\n"
    "\n"
    "examples:\n"
    "  vaai-nas fast-clone nas1:/datastore1 template/disk.vmdk vm1/disk.vmdk vm2/disk.vmdk\n";

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

static void command_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int command_exit_code_of(enum vaainas_error error)
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
    case VAAINAS_STUCK:
        return CANCELLED;
    case VAAINAS_UNREACHABLE:
        return NOT_REACHED;
    default:
        return FAILED;
    }
}

static int command_report(const struct vaainas_failure *failure)
{
    fprintf(stderr, "vaai-nas: %s (%s)\n", failure->message, vaainas_error_name(failure->error));
    return command_exit_code_of(failure->error);
}

static bool command_show_progress(void *context, uint64_t done)
{
    const struct settings *settings = context;

    if (settings->progress)
        fprintf(stderr, "%" PRIu64 " bytes\n", done);
    return !interrupted;
}

static const char *command_yes_or_no(bool yes)
{
    return yes ? "yes" : "no";
}

static int command_caps(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_capabilities capabilities;
    struct vaainas_failure failure;

    (void)settings;
    (void)arguments;
    if (vaainas_supported(session, &capabilities, &failure) != VAAINAS_OK)
        return command_report(&failure);
    printf("clone: %s\nreserve: %s\nstatistics: %s\n", command_yes_or_no(capabilities.clone),
           command_yes_or_no(capabilities.reserve), command_yes_or_no(capabilities.statistics));
    return DONE;
}

static int command_clone_file(struct vaainas_session *session, struct settings *settings)
{
    struct vaainas_failure failure;
    uint64_t done;

    if (vaainas_clone_file(session, &settings->clone, &done, &failure) != VAAINAS_OK)
        return command_report(&failure);
    printf("done: %" PRIu64 " bytes\n", done);
    return DONE;
}

static int command_clone_files(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    bool several = arguments[2] != NULL;
    struct vaainas_failure failure = {.error = VAAINAS_CANCELLED};
    char **destination = arguments + 1;
    int code = DONE;

    settings->clone.source = arguments[0];
    settings->clone.progress = command_show_progress;
    settings->clone.context = settings;
    for (; *destination != NULL && code == DONE && !interrupted; destination++) {
        settings->clone.destination = *destination;
        if (several) {
            printf("%s: ", *destination);
            fflush(stdout); /* before standard error */
        }
        code = command_clone_file(session, settings);
        if (several && code != DONE)
            printf("failed\n");
        fflush(stdout); /* for a reader at the other end of a pipe */
    }
    if (*destination == NULL || code != DONE)
        return code;
    snprintf(failure.message, sizeof(failure.message), "%s and later destinations were not cloned", *destination);
    return command_report(&failure);
}

static int command_fast_clone(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    settings->clone.fast = true;
    return command_clone_files(session, settings, arguments);
}

static int command_stat_file(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_statistics statistics;
    struct vaainas_failure failure;
    char moment[32] = "unknown";

    (void)settings;
    if (vaainas_stat(session, arguments[0], &statistics, &failure) != VAAINAS_OK)
        return command_report(&failure);
    const time_t as_of = (time_t)statistics.as_of;
    struct tm utc;
    if (as_of != 0 && gmtime_r(&as_of, &utc) != NULL)
        strftime(moment, sizeof(moment), "%Y-%m-%dT%H:%M:%SZ", &utc);
    printf("total: %" PRIu64 "\nallocated: %" PRIu64 "\nunique: %s%" PRIu64 "\nreserved: %" PRIu64 "\nas of: %s\n",
           statistics.total_bytes, statistics.allocated_bytes, statistics.unique_exact ? "" : "at most ", statistics.unique_bytes,
           statistics.reserved_bytes, moment);
    return DONE;
}

static int command_reserve(struct vaainas_session *session, struct settings *settings, char **arguments)
{
    struct vaainas_failure failure;

    (void)settings;
    if (vaainas_reserve(session, arguments[0], &failure) != VAAINAS_OK)
        return command_report(&failure);
    printf("reserved\n");
    return DONE;
}

static const struct command {
    const char *name;
    int least, most; /* arguments after SERVER:EXPORT */
    int (*run)(struct vaainas_session *session, struct settings *settings, char **arguments);
} commands[] = {
    {"caps", 0, 0, command_caps},
    {"clone", 2, INT_MAX, command_clone_files},
    {"fast-clone", 2, INT_MAX, command_fast_clone},
    {"reserve", 1, 1, command_reserve},
    {"stat", 1, 1, command_stat_file},
};

static bool command_parse_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    *port = (uint16_t)number;
    return *text >= '0' && *text <= '9' && *end == 0 && number >= 1 && number <= UINT16_MAX;
}

static bool command_parse_options(int count, char **words, struct settings *settings)
{
    static const struct option options[] = {
        {"progress", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {"nfs-port", required_argument, NULL, 'N'},
        {"mount-port", required_argument, NULL, 'M'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(count, words, "h", options, NULL)) != -1) {
        switch (option) {
        case 'N':
            if (!command_parse_port(optarg, &settings->server.nfs_port))
                return false;
            break;
        case 'M':
            if (!command_parse_port(optarg, &settings->server.mount_port))
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

static int command_run(const struct command *command, char *server, struct settings *settings, char **arguments)
{
    struct vaainas_failure failure;
    char *path = strstr(server, ":/"); /* an IPv6 address contains colons */
    int code;

    if (path == NULL) {
        fprintf(stderr, "vaai-nas: %s is not SERVER:/EXPORT\n", server);
        return USAGE;
    }
    *path++ = 0;
    settings->server.host = server;
    settings->server.export_path = path;
    struct vaainas_session *session = vaainas_open(&settings->server, &failure);
    if (session == NULL)
        return command_report(&failure);
    code = command->run(session, settings, arguments);
    vaainas_close(session);
    return code;
}

int main(int count, char **words)
{
    struct settings settings = {0};
    struct sigaction action = {.sa_handler = command_interrupt, .sa_flags = SA_RESTART};

    if (!command_parse_options(count, words, &settings) || count - optind < 2) {
        fputs("vaai-nas: wrong usage; see vaai-nas --help\n", stderr);
        return USAGE;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* libtirpc uses write(2): a server that has gone fails one call only */
    int given = count - optind - 2;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(words[optind], commands[i].name) == 0 && given >= commands[i].least && given <= commands[i].most)
            return command_run(&commands[i], words[optind + 1], &settings, words + optind + 2);
    fputs("vaai-nas: wrong usage; see vaai-nas --help\n", stderr);
    return USAGE;
}
