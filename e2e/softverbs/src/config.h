/* The configuration file, parsed: one section a device. */
#ifndef SOFTVERBS_CONFIG_H
#define SOFTVERBS_CONFIG_H

#include "softverbs.h"

struct sv_section {
    char name[IBV_SYSFS_NAME_MAX], pci[16], addr[64], gids[512];
    struct sv_port port;
};

struct sv_config {
    int virtual_device_nodes;
    int count;
    struct sv_section sections[SV_MAX_DEVICES];
};

bool sv_config_read(const char *path, struct sv_config *config);
void sv_address_resolve(const char *text, struct sv_port *port);
void sv_gids_parse(char *text, struct sv_port *port, int device_index);

#endif
