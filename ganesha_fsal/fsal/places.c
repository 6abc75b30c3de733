/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "places.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fsal.h"
#include "log.h"

static struct configuration {
    char *below; /* a folder; NULL: exports may be anywhere */
} configuration;

static struct config_item parameters[] = {
    CONF_ITEM_PATH("Below", 1, PATH_MAX, NULL, configuration, below),
    CONFIG_EOL,
};

static void *places_configuration_init(void *link, void *self)
{
    (void)link;
    return self != NULL ? self : &configuration;
}

static struct config_block block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.zvaai_exports",
    .blk_desc.name = "ZVAAI_EXPORTS",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.flags = CONFIG_UNIQUE,
    .blk_desc.u.blk.init = places_configuration_init,
    .blk_desc.u.blk.params = parameters,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

int places_init(config_file_t file, struct config_error_type *errors)
{
    (void)load_config_from_parse(file, &block, &configuration, true, errors);
    return config_error_is_harmless(errors) ? 0 : -1;
}

bool places_have(const char *path)
{
    char folder[PATH_MAX], real_path[PATH_MAX];
    struct stat of_folder, of_export;

    if (configuration.below == NULL)
        return true;
    bool resolved =
        realpath(configuration.below, folder) != NULL && realpath(path, real_path) != NULL && strcmp(path, real_path) == 0;
    size_t length = resolved ? strlen(folder) : 0;
    /* Requires a mounted file system: the empty mount point of a pool that is not imported belongs to the parent's. */
    bool good = resolved && strncmp(real_path, folder, length) == 0 && real_path[length] == '/' &&
                strchr(real_path + length + 1, '/') == NULL && stat(folder, &of_folder) == 0 &&
                stat(real_path, &of_export) == 0 && of_folder.st_dev != of_export.st_dev;
    if (!good)
        LogCrit(COMPONENT_FSAL, "%s is not exported: ZVAAI_EXPORTS allows only file systems that are mounted by one name in %s",
                path, configuration.below);
    return good;
}
