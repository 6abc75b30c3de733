/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "adapter_ganesha.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export_mgr.h"
#include "fsal.h"
#include "FSAL/fsal_commonlib.h"
#include "FSAL/fsal_localfs.h"
#include "fsal_convert.h"
#include "fsal_up.h"
#include "leaf_call.h"
#include "nfs_core.h"
#include "nfs_creds.h"
#include "nfs_exports.h"
#include "nfs_fh.h"
#include "nfs_file_handle.h"

/* Reference to an open file, and its names in ganesha's caches. */
struct held {
    struct gsh_export *export;
    struct fsal_obj_handle *object;
    struct fsal_obj_handle *leaf;
    fsal_openflags_t share; /* its share reservation (FSAL_VFS grants no delegations) */
};

typedef fsal_status_t leaf_function(struct fsal_obj_handle *leaf, void *context);

/* Of adapter_with_leaf(), for vaai_nas_leaf_called(). */
static _Thread_local struct {
    leaf_function *function; /* NULL: none */
    void *context;
} leaf_call;

/*
 * Calls `function` with FSAL_ZVAAI's object below MDCACHE. MDCACHE does not show that object, but it passes operations on to it. So this calls
 * MDCACHE's fallocate: it sets op_ctx to the FSAL's export, calls the fallocate of FSAL_ZVAAI, which calls `function` instead, and
 * then drops its cached attributes of the object. A function in our patch of the library would be plainer, but the control socket also works with
 * Debian's library. op_ctx is at the object's export.
 */
static fsal_status_t adapter_with_leaf(struct fsal_obj_handle *object, leaf_function *function, void *context)
{
    leaf_call.function = function;
    leaf_call.context = context;
    const fsal_status_t status = object->obj_ops->fallocate(object, NULL, 0, 0, true);
    leaf_call.function = NULL;
    return status;
}

bool vaai_nas_leaf_called(struct fsal_obj_handle *leaf, fsal_status_t *status)
{
    leaf_function *const function = leaf_call.function;

    leaf_call.function = NULL; /* for one call only */
    if (function != NULL)
        *status = function(leaf, leaf_call.context);
    return function != NULL;
}

static bool adapter_is_ours(struct gsh_export *export)
{
    struct fsal_export *leaf = export->fsal_export->sub_export;

    return leaf != NULL && strcmp(leaf->fsal->name, "ZVAAI") == 0;
}

/* The part of the wire handle that the FSAL made; its export's id is checked to be that of op_ctx. */
static enum vaai_nas_status adapter_find_object(const struct vaai_nas_handle *handle, struct fsal_obj_handle **object)
{
    const struct file_handle_v3 *wire = (const struct file_handle_v3 *)handle->bytes;
    struct fsal_export *export = op_ctx->fsal_export;
    char host_handle[NFS4_FHSIZE];
    struct gsh_buffdesc descriptor = {.addr = host_handle, .len = wire->fs_len};

    memcpy(host_handle, wire->fsopaque, wire->fs_len);
    fsal_status_t status = export->exp_ops.wire_to_host(export, FSAL_DIGEST_NFSV3, &descriptor, wire->fhflags1);
    if (!FSAL_IS_ERROR(status))
        status = export->exp_ops.create_handle(export, &descriptor, object, NULL);
    return vaai_nas_status_of_fsal(status);
}

/* A well-formed handle's export id; both versions of NFS have it at the same place (nfs_fh.h). `padded`: as NFSv3 handles are. */
static enum vaai_nas_status adapter_parse_handle(const struct vaai_nas_handle *handle, bool padded, uint16_t *export_id)
{
    const struct file_handle_v3 *wire = (const struct file_handle_v3 *)handle->bytes;
    size_t header = offsetof(struct file_handle_v3, fsopaque);

    if (handle->length < header || handle->length > NFS4_FHSIZE || wire->fhversion != GANESHA_FH_VERSION || wire->fs_len == 0)
        return VAAI_NAS_BAD_HANDLE;
    const size_t used = header + wire->fs_len, rounded = (used + 3) & ~(size_t)3;
    if (handle->length != rounded && (padded || handle->length != used))
        return VAAI_NAS_BAD_HANDLE;
    *export_id = ntohs(wire->exportid);
    return VAAI_NAS_OK;
}

static enum vaai_nas_status adapter_check_type(const struct fsal_obj_handle *object, enum vaai_nas_access access)
{
    bool file = object->type == REGULAR_FILE, directory = object->type == DIRECTORY;

    switch (access) {
    case VAAI_NAS_INSPECT:
        return file || directory ? VAAI_NAS_OK : VAAI_NAS_INVALID;
    case VAAI_NAS_READ:
    case VAAI_NAS_WRITE:
    case VAAI_NAS_MAY_WRITE:
        return file ? VAAI_NAS_OK : directory ? VAAI_NAS_IS_DIRECTORY : VAAI_NAS_INVALID;
    case VAAI_NAS_CREATE:
        return directory ? VAAI_NAS_OK : VAAI_NAS_NOT_DIRECTORY;
    case VAAI_NAS_WRITE_OR_CREATE:
        break;
    }
    return VAAI_NAS_FAULT;
}

/* The checks of NFS before GETATTR, READ, WRITE and CREATE, with the credentials that op_ctx has after squashing. */
static enum vaai_nas_status adapter_check_permissions(struct fsal_obj_handle *object, enum vaai_nas_access access)
{
    uint32_t options = op_ctx->export_perms.options;
    fsal_status_t status = {0};

    switch (access) {
    case VAAI_NAS_INSPECT:
        if ((options & (EXPORT_OPTION_READ_ACCESS | EXPORT_OPTION_MD_READ_ACCESS)) == 0)
            return VAAI_NAS_ACCESS;
        break;
    case VAAI_NAS_READ:
        if ((options & EXPORT_OPTION_READ_ACCESS) == 0)
            return VAAI_NAS_ACCESS;
        status = object->obj_ops->test_access(object, FSAL_READ_ACCESS, NULL, NULL, true);
        if (status.major == ERR_FSAL_ACCESS) /* as NFS READ: execute permission allows reading */
            status = object->obj_ops->test_access(object, FSAL_EXECUTE_ACCESS, NULL, NULL, true);
        break;
    case VAAI_NAS_WRITE:
    case VAAI_NAS_MAY_WRITE:
        if ((options & EXPORT_OPTION_WRITE_ACCESS) == 0)
            return VAAI_NAS_READ_ONLY;
        status = object->obj_ops->test_access(object, FSAL_WRITE_ACCESS, NULL, NULL, true);
        break;
    case VAAI_NAS_CREATE:
        if ((options & EXPORT_OPTION_WRITE_ACCESS) == 0)
            return VAAI_NAS_READ_ONLY;
        status = object->obj_ops->test_access(object,
                                              FSAL_MODE_MASK_SET(FSAL_W_OK | FSAL_X_OK) |
                                                  FSAL_ACE4_MASK_SET(FSAL_ACE_PERM_ADD_FILE | FSAL_ACE_PERM_EXECUTE),
                                              NULL, NULL, false);
        break;
    case VAAI_NAS_WRITE_OR_CREATE:
        return VAAI_NAS_FAULT;
    }
    return vaai_nas_status_of_fsal(status);
}

struct opening {
    struct vaai_nas_file *file;
    struct held *held;
    int flags;
};

static fsal_status_t adapter_open_leaf(struct fsal_obj_handle *leaf, void *context)
{
    const struct opening *opening = context;
    struct vaai_nas_file *file = opening->file;
    struct stat attributes;

    file->fd = fsal_zvaai_open_leaf(leaf, opening->flags | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &attributes) != 0) {
        int error = errno;
        if (file->fd >= 0)
            close(file->fd);
        file->fd = -1;
        return fsalstat(posix2fsal_error(error), error);
    }
    file->device = attributes.st_dev;
    file->inode = attributes.st_ino;
    file->group = (attributes.st_mode & S_ISGID) != 0 ? attributes.st_gid : op_ctx->creds.caller_gid;
    opening->held->leaf = leaf;
    return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static fsal_status_t adapter_share_and_open_leaf(struct fsal_obj_handle *leaf, void *context)
{
    const struct opening *opening = context;
    fsal_status_t status = fsal_zvaai_share_begin(leaf, opening->held->share);

    if (FSAL_IS_ERROR(status))
        return status;
    status = adapter_open_leaf(leaf, context);
    if (FSAL_IS_ERROR(status))
        fsal_zvaai_share_end(leaf, opening->held->share);
    return status;
}

/* Of "tank/datastore" the pool "tank"; of another file system its device. */
static void adapter_copy_pool(const struct fsal_obj_handle *object, char pool[VAAI_NAS_POOL_SIZE])
{
    const struct fsal_filesystem *file_system = object->fs;
    const char *device = file_system == NULL || file_system->device == NULL ? "" : file_system->device;
    const size_t length = device[0] == '/' ? strlen(device) : strcspn(device, "/");

    snprintf(pool, VAAI_NAS_POOL_SIZE, "%.*s", (int)length, device);
}

/* With op_ctx at the handle's export, the caller checked and its credentials resolved. */
static enum vaai_nas_status adapter_open_in_context(const struct vaai_nas_handle *handle, enum vaai_nas_access access,
                                                    struct vaai_nas_file *file)
{
    struct gsh_export *export = op_ctx->ctx_export;
    struct fsal_obj_handle *object;
    struct held *held = NULL;

    snprintf(file->export_path, sizeof(file->export_path), "%s", op_ctx_export_path(op_ctx));
    snprintf(file->export_directory, sizeof(file->export_directory), "%s", CTX_FULLPATH(op_ctx));
    file->export_id = export->export_id;
    if (!adapter_is_ours(export))
        return VAAI_NAS_NOT_SUPPORTED;
    enum vaai_nas_status status = adapter_find_object(handle, &object);
    if (status != VAAI_NAS_OK)
        return status;
    if (access == VAAI_NAS_WRITE_OR_CREATE)
        access = object->type == DIRECTORY ? VAAI_NAS_CREATE : VAAI_NAS_WRITE; /* the functions below get no other */
    status = adapter_check_type(object, access);
    if (status == VAAI_NAS_OK)
        status = adapter_check_permissions(object, access);
    if (status != VAAI_NAS_OK)
        goto exit;
    held = calloc(1, sizeof(*held));
    if (held == NULL) {
        status = VAAI_NAS_FAULT;
        goto exit;
    }
    struct opening opening = {.file = file, .held = held, .flags = access == VAAI_NAS_WRITE ? O_RDWR : O_RDONLY};
    file->is_directory = object->type == DIRECTORY;
    if (file->is_directory)
        opening.flags |= O_DIRECTORY;
    file->read_only = (op_ctx->export_perms.options & EXPORT_OPTION_WRITE_ACCESS) == 0;
    file->owner = op_ctx->creds.caller_uid;
    held->export = export;
    held->object = object;
    held->share = access == VAAI_NAS_READ ? FSAL_O_READ : access == VAAI_NAS_WRITE ? FSAL_O_RDWR : FSAL_O_CLOSED;
    status = vaai_nas_status_of_fsal(adapter_with_leaf(object, adapter_share_and_open_leaf, &opening));
    if (status != VAAI_NAS_OK)
        goto exit;
    adapter_copy_pool(held->leaf, file->pool);
    file->dataset = fsal_zvaai_dataset(held->leaf);
    if (file->dataset == NULL) {
        fsal_zvaai_share_end(held->leaf, held->share);
        close(file->fd);
        file->fd = -1;
        status = VAAI_NAS_NOT_SUPPORTED;
        goto exit;
    }
    get_gsh_export_ref(export);
    file->of_adapter = held;
    return VAAI_NAS_OK;
exit:
    free(held);
    object->obj_ops->put_ref(object);
    return status;
}

static enum vaai_nas_status adapter_open(const struct vaai_nas_caller *caller, const struct vaai_nas_handle *handle,
                                         enum vaai_nas_access access, struct vaai_nas_file *file)
{
    struct svc_req *request = caller->request;
    struct req_op_context context;
    uint16_t export_id = 0;
    enum vaai_nas_status status = adapter_parse_handle(handle, !caller->local, &export_id);

    file->fd = -1;
    if (status != VAAI_NAS_OK)
        return status;
    if ((access == VAAI_NAS_WRITE || access == VAAI_NAS_CREATE || access == VAAI_NAS_WRITE_OR_CREATE) && vaai_nas_in_grace())
        return VAAI_NAS_BUSY;
    /* ganesha has done all checks below for the first handle of a procedure of NFSv3. */
    if (!caller->local && op_ctx != NULL && op_ctx->ctx_export != NULL && op_ctx->ctx_export->export_id == export_id)
        return adapter_open_in_context(handle, access, file);

    struct gsh_export *export = get_gsh_export(export_id);
    if (export == NULL)
        return VAAI_NAS_STALE;
    if (caller->local) {
        init_op_context_simple(&context, export, export->fsal_export); /* root, whatever the export's options */
        status = adapter_open_in_context(handle, access, file);
        release_op_context();
        return status;
    }
    init_op_context(&context, export, export->fsal_export, NULL, (sockaddr_t *)svc_getrpccaller(request->rq_xprt), NFS_V4, 0,
                    NFS_REQUEST);
    /* Client, transport, port, flavour; squashes the credentials. The export must serve protocol 4. */
    if (nfs4_export_check_access(request) != NFS4_OK)
        status = VAAI_NAS_ACCESS;
    else
        status = adapter_open_in_context(handle, access, file);
    vaai_nas_clean_credentials();
    release_op_context(); /* and the export's reference */
    return status;
}

static fsal_status_t adapter_do_nothing(struct fsal_obj_handle *leaf, void *context)
{
    (void)leaf;
    (void)context;
    return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static void adapter_invalidate_attributes(const struct held *held)
{
    adapter_with_leaf(held->object, adapter_do_nothing, NULL);
}

/* Of a directory. */
static void adapter_invalidate_names(const struct held *held)
{
    const struct fsal_up_vector *upcalls = held->export->fsal_export->sub_export->up_ops;
    struct gsh_buffdesc key;

    held->leaf->obj_ops->handle_to_key(held->leaf, &key);
    upcalls->invalidate(upcalls, &key, FSAL_UP_INVALIDATE_CACHE);
}

/* op_ctx at the file's export, without a caller. */
static void adapter_enter_export(struct req_op_context *context, const struct held *held)
{
    get_gsh_export_ref(held->export);
    init_op_context_simple(context, held->export, held->export->fsal_export);
}

static void adapter_changed(const struct vaai_nas_file *file)
{
    const struct held *held = file->of_adapter;
    struct req_op_context context;

    adapter_enter_export(&context, held);
    adapter_invalidate_attributes(held);
    if (file->is_directory)
        adapter_invalidate_names(held);
    release_op_context();
}

static void adapter_close(struct vaai_nas_file *file)
{
    struct held *held = file->of_adapter;
    struct req_op_context context;

    if (file->fd < 0)
        return;
    fsal_zvaai_share_end(held->leaf, held->share);
    close(file->fd);
    file->fd = -1;
    adapter_enter_export(&context, held);
    held->object->obj_ops->put_ref(held->object);
    release_op_context();
    put_gsh_export(held->export);
    free(held);
    file->of_adapter = NULL;
}

static bool adapter_is_ending(const struct vaai_nas_file *file)
{
    const struct held *held = file->of_adapter;

    return fsal_zvaai_export_is_ending(held->export->fsal_export->sub_export);
}

static bool adapter_is_same_file_system(const struct fsal_obj_handle *object, const struct fsal_obj_handle *other)
{
    return object->fsid.major == other->fsid.major && object->fsid.minor == other->fsid.minor;
}

/* With op_ctx at the export, as root. fsal_lookup() does not follow a symbolic link. */
static enum vaai_nas_status adapter_find_in_context(const char *path, struct vaai_nas_handle *handle)
{
    struct fsal_obj_handle *object = NULL, *next;
    nfs_fh4 wire = {.nfs_fh4_val = (char *)handle->bytes, .nfs_fh4_len = sizeof(handle->bytes)};
    char name[VAAI_NAS_NAME_SIZE + 1];
    fsal_status_t status = nfs_export_get_root_entry(op_ctx->ctx_export, &object);

    if (FSAL_IS_ERROR(status))
        return VAAI_NAS_STALE; /* the export is being removed */
    while (!FSAL_IS_ERROR(status) && *path != 0) {
        size_t length = strcspn(path, "/");
        if (length > VAAI_NAS_NAME_SIZE)
            status = fsalstat(ERR_FSAL_NOENT, ENOENT);
        else {
            memcpy(name, path, length);
            name[length] = 0;
            next = NULL;
            status = fsal_lookup(object, name, &next, NULL);
            if (!FSAL_IS_ERROR(status) && !adapter_is_same_file_system(object, next)) {
                next->obj_ops->put_ref(next);
                status = fsalstat(ERR_FSAL_XDEV, EXDEV);
            }
        }
        object->obj_ops->put_ref(object);
        object = FSAL_IS_ERROR(status) ? NULL : next;
        path += length + (path[length] == '/');
    }
    if (FSAL_IS_ERROR(status))
        return status.major == ERR_FSAL_NOENT ? VAAI_NAS_NOT_FOUND : vaai_nas_status_of_fsal(status);
    bool made = nfs4_FSALToFhandle(false, &wire, object, op_ctx->ctx_export);
    handle->length = made ? wire.nfs_fh4_len : 0;
    object->obj_ops->put_ref(object);
    return made ? VAAI_NAS_OK : VAAI_NAS_FAULT;
}

static enum vaai_nas_status adapter_find(uint16_t export_id, const char *path, struct vaai_nas_handle *handle)
{
    struct gsh_export *export = get_gsh_export(export_id);
    struct req_op_context context;

    if (export == NULL)
        return VAAI_NAS_STALE;
    init_op_context_simple(&context, export, export->fsal_export);
    enum vaai_nas_status status = adapter_is_ours(export) ? adapter_find_in_context(path, handle) : VAAI_NAS_NOT_SUPPORTED;
    release_op_context(); /* and the export's reference */
    return status;
}

const struct vaai_nas_adapter vaai_nas_adapter_ganesha = {
    .open = adapter_open,
    .changed = adapter_changed,
    .close = adapter_close,
    .is_ending = adapter_is_ending,
    .find = adapter_find,
};
