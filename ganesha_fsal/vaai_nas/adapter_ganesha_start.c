/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The second half of the adapter: configuration, start, and procedure 22 as ganesha's dispatch expects it. */
#include "config.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter_ganesha.h"
#include "config_parsing.h"
#include "control_socket.h"
#include "fsal.h"
#include "leaf_call.h"
#include "hook.h"
#include "log.h"
#include "nfs_core.h"
#include "nfs_init.h"
#include "nfs_proto_data.h"
#include "procedure22.h"
#include "procedure22_copy.h"

struct configuration {
    char *control_socket; /* path; NULL: none */
    char *control_user;   /* may connect, like root and the daemon's user; NULL: no other user */
};

static struct configuration configuration;
static struct vaai_nas_service *service;

static struct config_item parameters[] = {
    CONF_ITEM_PATH("Control_Socket", 1, 107, NULL, configuration, control_socket), /* sun_path of unix(7) */
    CONF_ITEM_STR("Control_User", 1, 32, NULL, configuration, control_user),
    CONFIG_EOL,
};

static void *vaai_nas_configuration_init(void *link, void *self)
{
    (void)link;
    return self != NULL ? self : &configuration;
}

static struct config_block block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.vaai_nas",
    .blk_desc.name = "VAAI_NAS",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.flags = CONFIG_UNIQUE,
    .blk_desc.u.blk.init = vaai_nas_configuration_init,
    .blk_desc.u.blk.params = parameters,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

/* Arguments of procedure 22 as the dispatch expects them: the handle that selects the export comes first. */
struct arguments {
    nfs_fh3 destination; /* points into `request` */
    struct procedure22_request *request;
    enum procedure22_fault fault;
};

_Static_assert(sizeof(struct arguments) <= sizeof(nfs_arg_t), "the dispatch has room for them");
_Static_assert(sizeof(struct procedure22_result) <= sizeof(nfs_res_t), "and for the result");

/* Allocates memory only for a valid call. */
static bool vaai_nas_decode(XDR *xdrs, struct arguments *arguments)
{
    uint8_t bytes[PROCEDURE22_COPIED_MAX];
    size_t length;

    if (!procedure22_copy_call(xdrs, bytes, &length))
        return false;
    arguments->request = gsh_calloc(1, sizeof(*arguments->request));
    arguments->fault = procedure22_decode_request(bytes, length, arguments->request);
    arguments->destination.data.data_len = arguments->request->destination.length;
    arguments->destination.data.data_val = (char *)arguments->request->destination.bytes;
    return arguments->fault != PROCEDURE22_NO_XDR;
}

static bool vaai_nas_xdr_arguments(XDR *xdrs, void *where)
{
    struct arguments *arguments = where;

    switch (xdrs->x_op) {
    case XDR_DECODE:
        return vaai_nas_decode(xdrs, arguments);
    case XDR_FREE:
        gsh_free(arguments->request);
        arguments->request = NULL;
        return true;
    default:
        return false;
    }
}

/* Also called for calls that the dispatch refused, which have only a status. */
static bool vaai_nas_xdr_result(XDR *xdrs, void *where)
{
    struct procedure22_result result;
    uint8_t bytes[PROCEDURE22_ENCODED_RESULT_SIZE];

    if (xdrs->x_op != XDR_ENCODE)
        return xdrs->x_op == XDR_FREE;
    memcpy(&result, where, sizeof(result));
    result.version = PROCEDURE22_VERSION;
    procedure22_encode_result(&result, bytes);
    return XDR_PUTBYTES(xdrs, (char *)bytes, sizeof(bytes));
}

/* The address as text: that of IPv4 also for a client that IPv6 maps. */
static void vaai_nas_host_name(const struct sockaddr *address, char host[VAAI_NAS_HOST_SIZE])
{
    const struct sockaddr_in6 *version6 = (const struct sockaddr_in6 *)address;
    const void *number = &version6->sin6_addr;
    int family = AF_INET6;

    if (address->sa_family == AF_INET) {
        family = AF_INET;
        number = &((const struct sockaddr_in *)address)->sin_addr;
    } else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&version6->sin6_addr)) {
        family = AF_INET;
        number = &version6->sin6_addr.s6_addr[12];
    }
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        inet_ntop(family, number, host, VAAI_NAS_HOST_SIZE) == NULL)
        strcpy(host, "unknown");
}

static int vaai_nas_serve(nfs_arg_t *arguments_of_any, struct svc_req *request, nfs_res_t *result)
{
    const struct arguments *arguments = (const struct arguments *)arguments_of_any;
    struct vaai_nas_caller caller = {.request = request};

    vaai_nas_host_name((const struct sockaddr *)svc_getrpccaller(request->rq_xprt), caller.host);
    vaai_nas_procedure22_serve(service, &caller, arguments->request, arguments->fault, (struct procedure22_result *)result);
    return NFS_REQ_OK;
}

static void vaai_nas_free_result(nfs_res_t *result)
{
    (void)result;
}

static const nfs_function_desc_t procedure22 = {
    .service_function = vaai_nas_serve,
    .free_function = vaai_nas_free_result,
    .xdr_decode_func = (xdrproc_t)vaai_nas_xdr_arguments,
    .xdr_encode_func = (xdrproc_t)vaai_nas_xdr_result,
    .funcname = (char *)"VAAI_NAS",
    /* The service refuses read-only exports for commands that write. */
    .dispatch_behaviour = NEEDS_CRED | SUPPORTS_GSS | CAN_BE_DUP,
};

static void vaai_nas_register_procedure22(void)
{
    char reason[VAAI_NAS_REASON_SIZE] = "";
    const bool served = vaai_nas_hook_register(PROCEDURE22_NUMBER, &procedure22, reason, sizeof(reason));

    if (served)
        LogEvent(COMPONENT_FSAL, "VAAI-NAS: serving NFSv3 procedure 22");
    else
        LogCrit(COMPONENT_FSAL, "VAAI-NAS is off, NFS is served: %s", reason);
    vaai_nas_service_set_problem(service, served ? "" : reason);
}

/* Set before the exports are released. */
static bool vaai_nas_daemon_is_ending(void)
{
    return __atomic_load_n(&admin_shutdown, __ATOMIC_SEQ_CST);
}

static void vaai_nas_start_control_socket(void)
{
    struct vaai_nas_control_socket socket = {.path = configuration.control_socket,
                                             .user = geteuid(),
                                             .wait_until_up = nfs_init_wait,
                                             .is_ending = vaai_nas_daemon_is_ending};
    int error = 0;

    if (configuration.control_socket == NULL)
        return;
    if (configuration.control_user != NULL) {
        const struct passwd *user = getpwnam(configuration.control_user);
        if (user != NULL)
            socket.user = user->pw_uid;
        else
            LogCrit(
                COMPONENT_FSAL,
                "VAAI-NAS: user %s of Control_User does not exist: only root and the daemon's user can use the control socket",
                configuration.control_user);
    }
    error = vaai_nas_control_socket_start(service, &socket);
    if (error == EPERM)
        LogCrit(COMPONENT_FSAL,
                "VAAI-NAS: no control socket at %s: others than root and this daemon's user can create files in its folder",
                configuration.control_socket);
    else if (error != 0)
        LogCrit(COMPONENT_FSAL, "VAAI-NAS: no control socket at %s: %s", configuration.control_socket, strerror(error));
}

int vaai_nas_start(config_file_t file, struct config_error_type *errors)
{
    const struct vaai_nas_service_options options = {.adapter = &vaai_nas_adapter_ganesha};

    if (service != NULL)
        return 0;
    (void)load_config_from_parse(file, &block, &configuration, true, errors);
    if (!config_error_is_harmless(errors))
        return -1;
    service = vaai_nas_service_new(&options);
    if (service == NULL) {
        LogCrit(COMPONENT_FSAL, "VAAI-NAS: no memory or threads");
        return -1;
    }
    vaai_nas_register_procedure22();
    vaai_nas_start_control_socket();
    return 0;
}

void vaai_nas_count_client_transfer(bool write, bool succeeded, uint64_t bytes, const struct timespec *began)
{
    char host[VAAI_NAS_HOST_SIZE];

    if (service == NULL || op_ctx == NULL || op_ctx->caller_addr == NULL || op_ctx->ctx_export == NULL)
        return;
    vaai_nas_host_name((const struct sockaddr *)op_ctx->caller_addr, host);
    vaai_nas_count(vaai_nas_service_counters(service), host, op_ctx_export_path(op_ctx),
                   write ? VAAI_NAS_OPERATION_WRITE : VAAI_NAS_OPERATION_READ, succeeded ? VAAI_NAS_OK : VAAI_NAS_FAULT, bytes, began);
}

/* Exports cannot be changed meanwhile. A clone that has not ended keeps the export's files in use, as an NFS operation would. */
#define EXPORT_END_MAX_MILLISECONDS 5000u

void vaai_nas_export_ends(uint16_t export_id)
{
    if (service != NULL && !vaai_nas_cancel_export(service, export_id, EXPORT_END_MAX_MILLISECONDS))
        LogWarn(COMPONENT_FSAL, "VAAI-NAS: clones of export %u were cancelled and have not ended yet, or other calls hang in it",
                export_id);
}
