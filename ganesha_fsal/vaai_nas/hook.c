/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "export_mgr.h"
#include "fsal.h"
#include "nfs_core.h"
#include "nfs_proto_functions.h"

#include "hook.h"

#define INSTALL "install the zvaai-nfs package that was built for it, and restart nfs-ganesha"

/* NFS3_REGISTER_LAYOUT is our patch's: the sizes of the structures that a module shares with the library. */
static const size_t expected[] = NFS3_REGISTER_LAYOUT;

bool vaai_nas_hook_register(uint32_t procedure, const nfs_function_desc_t *description, char *reason, size_t size)
{
    int (*const register_procedure)(uint32_t, const nfs_function_desc_t *) =
        (int (*)(uint32_t, const nfs_function_desc_t *))dlsym(RTLD_DEFAULT, "nfs3_register_procedure");
    const size_t *const layout = dlsym(RTLD_DEFAULT, "nfs3_register_layout");

    if (register_procedure == NULL || layout == NULL) {
        snprintf(reason, size, "this nfs-ganesha can't serve NFSv3 procedure 22: " INSTALL);
        return false;
    }
    if (memcmp(layout, expected, sizeof(expected)) != 0) {
        snprintf(reason, size, "this nfs-ganesha has different structures than FSAL_ZVAAI was built for: " INSTALL);
        return false;
    }
    const int error = register_procedure(procedure, description);
    if (error != 0)
        snprintf(reason, size, "NFSv3 procedure %u can't be served: %s", procedure, strerror(error));
    return error == 0;
}
