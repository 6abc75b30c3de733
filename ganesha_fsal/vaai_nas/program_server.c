/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "program_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "nfs_core.h"

#include <rpc/rpc.h>
#include <rpc/svc.h>
#include <rpc/svc_auth.h>
#include <rpc/svc_rqst.h>

#include "program.h"

#define MESSAGE_BYTES_MAX (256u * 1024u) /* a list of jobs is the largest */
#define BACKLOG 64

static struct vaai_nas_service *served;
static uint32_t event_channel;

void vaai_nas_caller_of_request(struct svc_req *request, uint32_t nfs_version, struct vaai_nas_caller *caller)
{
    const struct sockaddr *address = (const struct sockaddr *)svc_getrpccaller(request->rq_xprt);
    const struct sockaddr_in6 *version6 = (const struct sockaddr_in6 *)address;
    const void *number = &version6->sin6_addr;
    int family = AF_INET6;

    *caller = (struct vaai_nas_caller){.request = request, .local = false, .nfs_version = nfs_version};
    if (address->sa_family == AF_INET) {
        family = AF_INET;
        number = &((const struct sockaddr_in *)address)->sin_addr;
    } else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&version6->sin6_addr)) {
        family = AF_INET;
        number = &version6->sin6_addr.s6_addr[12];
    }
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        inet_ntop(family, number, caller->host, sizeof(caller->host)) == NULL)
        strcpy(caller->host, "unknown");
}

static enum xprt_stat serve(struct svc_req *request, const struct vaai_nas_program_procedure *procedure)
{
    union vaai_nas_program_arguments arguments;
    union vaai_nas_program_results results;
    struct vaai_nas_caller caller;
    enum xprt_stat state;

    memset(&arguments, 0, sizeof(arguments));
    memset(&results, 0, sizeof(results));
    request->rq_msg.rm_xdr.where = &arguments;
    request->rq_msg.rm_xdr.proc = procedure->decode_arguments;
    if (!SVCAUTH_CHECKSUM(request)) { /* decodes */
        xdr_free(procedure->decode_arguments, &arguments);
        return svcerr_decode(request);
    }
    if (procedure->serve != NULL) {
        vaai_nas_caller_of_request(request, 0, &caller);
        procedure->serve(served, &caller, &arguments, &results);
    }
    request->rq_msg.RPCM_ack.ar_results.where = &results;
    request->rq_msg.RPCM_ack.ar_results.proc = procedure->encode_results;
    state = svc_sendreply(request);
    if (state >= XPRT_DIED)
        SVC_DESTROY(request->rq_xprt);
    xdr_free(procedure->decode_arguments, &arguments);
    xdr_free(procedure->encode_results, &results);
    return SVC_STAT(request->rq_xprt);
}

/* ntirpc takes a PROXY header (HAProxy) of anybody, and the client's address from it. Here no proxy is trusted. */
static bool is_proxied(const struct svc_req *request)
{
    sa_family_t family = request->rq_xprt->xp_proxy.ss.ss_family;

    return family == AF_INET || family == AF_INET6;
}

static enum xprt_stat process(struct svc_req *request)
{
    const struct vaai_nas_program_procedure *procedure;
    bool answered = false;
    enum auth_stat authentication;

    if (is_proxied(request))
        return svcerr_auth(request, AUTH_FAILED);
    if (request->rq_msg.cb_prog != VAAI_NAS_PROGRAM)
        return svcerr_noprog(request);
    if (request->rq_msg.cb_vers != VAAI_NAS_VERSION_1)
        return svcerr_progvers(request, VAAI_NAS_VERSION_1, VAAI_NAS_VERSION_1);
    procedure = vaai_nas_program_procedure(request->rq_msg.cb_proc);
    if (procedure == NULL)
        return svcerr_noproc(request);
    authentication = svc_auth_authenticate(request, &answered);
    if (authentication != AUTH_OK)
        return svcerr_auth(request, authentication);
    if (answered)
        return SVC_STAT(request->rq_xprt);
    return serve(request, procedure);
}

/* A connection was accepted. */
static enum xprt_stat connected(SVCXPRT *transport)
{
    transport->xp_dispatch.process_cb = process;
    return SVC_STAT(transport->xp_parent);
}

/* Where NFS listens: Bind_Addr, of IPv4 inside IPv6 (::ffff:0:0/96) where the machine has both. *address is what it came to. */
static int listen_at(uint16_t port, sockaddr_t *address)
{
    struct sockaddr_in6 *version6 = (struct sockaddr_in6 *)address;
    int on = 1, off = 0, error;
    socklen_t length = sizeof(*address);

    memcpy(address, &nfs_param.core_param.bind_addr, sizeof(*address));
    if (address->ss_family != AF_INET6)
        address->ss_family = AF_INET;
    version6->sin6_port = htons(port); /* at the same place in both families */
    int listening = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0)
        return -1;
    if (address->ss_family == AF_INET6)
        setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listening, (struct sockaddr *)address,
             address->ss_family == AF_INET6 ? sizeof(*version6) : sizeof(struct sockaddr_in)) != 0 ||
        listen(listening, BACKLOG) != 0 || getsockname(listening, (struct sockaddr *)address, &length) != 0) {
        error = errno;
        close(listening);
        errno = error;
        return -1;
    }
    return listening;
}

static void register_address(const char *protocol, void *address, unsigned int length)
{
    struct netbuf buffer = {.maxlen = length, .len = length, .buf = address};
    struct netconfig *configuration = getnetconfigent(protocol);

    if (configuration == NULL)
        return;
    (void)rpcb_unset(VAAI_NAS_PROGRAM, VAAI_NAS_VERSION_1, configuration);
    if (length != 0 && !rpcb_set(VAAI_NAS_PROGRAM, VAAI_NAS_VERSION_1, configuration, &buffer))
        LogWarn(COMPONENT_FSAL, "VAAI-NAS: rpcbind does not take the program's port (%s): clients have to be told", protocol);
    freenetconfigent(configuration);
}

/* Where rpcbind does not run the port has to be told to clients by hand. */
static void register_with_rpcbind(const sockaddr_t *bound)
{
    struct sockaddr_in6 version6 = *(const struct sockaddr_in6 *)bound;
    struct sockaddr_in version4 = {.sin_family = AF_INET, .sin_port = version6.sin6_port};
    bool all = bound->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&version6.sin6_addr);
    bool only4 = bound->ss_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&version6.sin6_addr);

    if (bound->ss_family == AF_INET)
        version4 = *(const struct sockaddr_in *)bound;
    else if (only4)
        memcpy(&version4.sin_addr, &version6.sin6_addr.s6_addr[12], sizeof(version4.sin_addr));
    register_address("tcp", &version4, only4 || all ? sizeof(version4) : 0);
    register_address("tcp6", &version6, only4 ? 0 : sizeof(version6));
}

int vaai_nas_program_start(struct vaai_nas_service *service, uint16_t *port)
{
    sockaddr_t address;
    int listening = listen_at(*port, &address);
    SVCXPRT *transport;

    if (listening < 0)
        return errno;
    served = service;
    if (svc_rqst_new_evchan(&event_channel, NULL, SVC_RQST_FLAG_NONE) != 0) {
        close(listening);
        return EAGAIN;
    }
    transport = svc_vc_ncreatef(listening, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, SVC_CREATE_FLAG_CLOSE | SVC_CREATE_FLAG_LISTEN);
    if (transport == NULL) {
        close(listening);
        return EAGAIN;
    }
    transport->xp_dispatch.rendezvous_cb = connected;
    if (svc_rqst_evchan_reg(event_channel, transport, SVC_RQST_FLAG_XPRT_UREG) != 0)
        return EAGAIN;
    *port = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    register_with_rpcbind(&address);
    return 0;
}
