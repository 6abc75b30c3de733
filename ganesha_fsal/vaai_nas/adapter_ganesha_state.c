/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* ganesha's errors, its grace period and its credentials. */
#include "config.h"

#include <dlfcn.h>

#include "adapter_ganesha.h"

enum vaai_nas_status vaai_nas_status_of_fsal(fsal_status_t status)
{
    switch (status.major) {
    case ERR_FSAL_NO_ERROR:
        return VAAI_NAS_OK;
    case ERR_FSAL_BADHANDLE:
        return VAAI_NAS_BAD_HANDLE;
    case ERR_FSAL_STALE:
    case ERR_FSAL_NOENT: /* of a handle: its object was removed */
        return VAAI_NAS_STALE;
    case ERR_FSAL_ACCESS:
    case ERR_FSAL_PERM:
        return VAAI_NAS_ACCESS;
    case ERR_FSAL_ROFS:
        return VAAI_NAS_READ_ONLY;
    case ERR_FSAL_DELAY:
    case ERR_FSAL_SHARE_DENIED:
    case ERR_FSAL_LOCKED:
        return VAAI_NAS_BUSY;
    case ERR_FSAL_INVAL:
        return VAAI_NAS_BAD_HANDLE;
    case ERR_FSAL_NOTDIR:
        return VAAI_NAS_NOT_DIRECTORY;
    case ERR_FSAL_NAMETOOLONG:
        return VAAI_NAS_NAME_TOO_LONG;
    case ERR_FSAL_NOTSUPP:
    case ERR_FSAL_XDEV: /* a file system that is not the export's */
        return VAAI_NAS_NOT_SUPPORTED;
    case ERR_FSAL_IO:
        return VAAI_NAS_INPUT_OUTPUT;
    default:
        return VAAI_NAS_FAULT;
    }
}

/* Only a library with our patch exports the functions below. */
bool vaai_nas_in_grace(void)
{
    static bool (*get)(bool want_grace);
    static void (*put)(void);
    static bool resolved;

    if (!__atomic_load_n(&resolved, __ATOMIC_ACQUIRE)) {
        get = (bool (*)(bool))dlsym(RTLD_DEFAULT, "nfs_get_grace_status");
        put = (void (*)(void))dlsym(RTLD_DEFAULT, "nfs_put_grace_status");
        __atomic_store_n(&resolved, true, __ATOMIC_RELEASE);
    }
    if (get == NULL || put == NULL)
        return false;
    if (!get(false))
        return true;
    put();
    return false;
}

void vaai_nas_clean_credentials(void)
{
    void (*const clean)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "clean_credentials");

    if (clean != NULL)
        clean();
}
