/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_XDR_OF_NTIRPC_H
#define VAAI_NAS_XDR_OF_NTIRPC_H

/* Included before what rpcgen makes: it calls libtirpc's functions, which ntirpc has as inline functions, some by another name. */
#include <rpc/rpc.h>
#include <rpc/xdr_inline.h>

#define xdr_u_int xdr_uint32_t
#define xdr_u_quad_t xdr_uint64_t

#endif
