/*
 * What the kernel would show of the devices, as files in a folder.
 *
 * Mooncake reads topology and GID facts from /sys/class/infiniband and looks
 * for /dev/infiniband/uverbsN before it opens a device; preflight checks read
 * the same files. One tree is written for each distinct content, in a folder
 * named by its hash, and hooks.c leads the libc calls that take a path there.
 */
#include "softverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BASE_MAX = PATH_MAX / 2 };

static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;
static char root[BASE_MAX];
static _Atomic bool valid;

void sv_tree_invalidate(void)
{
    atomic_store(&valid, false);
}

const char *sv_tree_root(void)
{
    return root;
}

/* ---- rendering: lines of "<path>\t<content>" or "<path>\t-> <link target>" ---- */

static void add_gids(FILE *out, const char *dir, const struct sv_port *port)
{
    for (int i = 0; i < port->gid_count; i++) {
        const struct sv_gid *gid = &port->gids[i];
        fprintf(out, "%s/gids/%d\t", dir, i);
        for (int b = 0; b < 16; b += 2)
            fprintf(out, "%02x%02x%s", gid->raw.raw[b], gid->raw.raw[b + 1], b < 14 ? ":" : "\n");
        if (!gid->raw.global.interface_id)
            continue;               /* the kernel answers EINVAL for the attributes of an empty slot */
        fprintf(out, "%s/gid_attrs/types/%d\t%s\n", dir, i, gid->type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
        if (!port->infiniband)
            fprintf(out, "%s/gid_attrs/ndevs/%d\t%s\n", dir, i, port->ndev);
    }
}

static void add_port(FILE *out, const char *ib_dir, const struct sv_port *port)
{
    static const char *const states[] = {"0: NOP", "1: DOWN", "2: INIT", "3: ARMED", "4: ACTIVE"};
    char dir[512];
    snprintf(dir, sizeof dir, "%s/ports/1", ib_dir);
    fprintf(out, "%s/state\t%s\n", dir, states[port->state]);
    fprintf(out, "%s/phys_state\t%s\n", dir, port->state == IBV_PORT_DOWN ? "3: Disabled" : "5: LinkUp");
    fprintf(out, "%s/link_layer\t%s\n", dir, port->infiniband ? "InfiniBand" : "Ethernet");
    fprintf(out, "%s/rate\t%d Gb/sec (4X)\n", dir, port->rate_gbps);
    fprintf(out, "%s/lid\t0x%x\n", dir, (unsigned)port->lid);
    fprintf(out, "%s/sm_lid\t0x%x\n", dir, port->lid ? 1u : 0u);
    fprintf(out, "%s/pkeys/0\t0xffff\n", dir);
    add_gids(out, dir, port);
}

static void add_device(FILE *out, struct sv_device *device)
{
    struct sv_port port = sv_port_of(device);
    const char *name = device->ibv.name, *node = device->ibv.dev_name;
    char pci[128], ib[256];
    snprintf(pci, sizeof pci, "/devices/pci%.7s/%s", device->pci, device->pci);
    snprintf(ib, sizeof ib, "/sys%s/infiniband/%s", pci, name);
    fprintf(out, "/sys/class/infiniband/%s\t-> ../..%s/infiniband/%s\n", name, pci, name);
    fprintf(out, "/sys/class/infiniband_verbs/%s\t-> ../..%s/infiniband_verbs/%s\n", node, pci, node);
    fprintf(out, "/sys/bus/pci/devices/%s\t-> ../../..%s\n", device->pci, pci);
    fprintf(out, "/sys%s/numa_node\t%d\n", pci, port.numa_node);
    fprintf(out, "/sys%s/vendor\t0x15b3\n/sys%s/device\t0x1021\n/sys%s/class\t0x020000\n", pci, pci, pci);
    fprintf(out, "/sys%s/infiniband_verbs/%s/ibdev\t%s\n", pci, node, name);
    fprintf(out, "/sys%s/infiniband_verbs/%s/abi_version\t1\n", pci, node);
    fprintf(out, "%s/device\t-> ../../../%s\n", ib, device->pci);
    fprintf(out, "%s/node_type\t1: CA\n%s/fw_ver\t0.0.0-softverbs\n", ib, ib);
    fprintf(out, "%s/hca_type\tsoftverbs\n%s/board_id\tSOFTVERBS\n", ib, ib);
    add_port(out, ib, &port);
    if (sv_virtual_device_nodes)
        fprintf(out, "/dev/infiniband/%s\t-> /dev/null\n", node);
}

static char *render(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    fprintf(out, "/sys/class/infiniband_verbs/abi_version\t6\n");
    for (int i = 0; i < sv_device_count; i++)
        add_device(out, &sv_devices[i]);
    fclose(out);
    return text;
}

/* ---- writing ---- */

static uint64_t fnv1a(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
}

static bool write_entry(const char *folder, const char *path, const char *content)
{
    char full[PATH_MAX];
    if ((size_t)snprintf(full, sizeof full, "%s%s", folder, path) >= sizeof full)
        return false;
    make_parents(full);
    if (!strncmp(content, "-> ", 3))
        return symlink(content + 3, full) == 0;
    FILE *file = fopen(full, "we");
    if (!file)
        return false;
    fprintf(file, "%s\n", content);
    return fclose(file) == 0;
}

static void name_root(const char *text)
{
    const char *base = getenv("SOFTVERBS_TREE");
    if (base)
        snprintf(root, sizeof root, "%s/%016" PRIx64, base, fnv1a(text));
    else
        snprintf(root, sizeof root, "/tmp/softverbs-%u/%016" PRIx64, geteuid(), fnv1a(text));
}

/* Build beside, then rename: two processes may do this at once, and either result is right. */
static void materialise(char *text)
{
    char fresh[BASE_MAX + 32], *rest = NULL;
    bool written = true;
    name_root(text);
    if (!access(root, F_OK))
        return;
    snprintf(fresh, sizeof fresh, "%s.%d", root, getpid());
    for (char *line = strtok_r(text, "\n", &rest); line && written; line = strtok_r(NULL, "\n", &rest)) {
        char *tab = strchr(line, '\t');
        *tab = 0;
        written = write_entry(fresh, line, tab + 1);
    }
    if ((!written || rename(fresh, root)) && access(root, F_OK))
        fprintf(stderr, "softverbs: cannot write %s: %s; set SOFTVERBS_TREE to a writable folder\n", root, strerror(errno));
}

/* ---- redirection ---- */

static bool starts(const char *path, const char *prefix)
{
    return !strncmp(path, prefix, strlen(prefix));
}

/* Nothing but the tree answers here, also where it has no such file. */
static bool owned(const char *path)
{
    return starts(path, "/sys/class/infiniband") || (sv_virtual_device_nodes && starts(path, "/dev/infiniband"));
}

/* Kept narrow: a malloc that reads /sys must not come back to itself through here. */
static bool candidate(const char *path)
{
    return path && (starts(path, "/sys/class/infiniband") || starts(path, "/sys/devices/pci") ||
                    starts(path, "/sys/bus/pci/devices/") || starts(path, "/dev/infiniband"));
}

static void refresh(void)
{
    sv_devices_refresh();
    pthread_mutex_lock(&tree_lock);
    if (!atomic_exchange(&valid, true)) {
        char *text = render();
        if (text)
            materialise(text);
        free(text);
    }
    pthread_mutex_unlock(&tree_lock);
}

/* The path to use instead of `path`: itself, or its twin in the tree, built in `buffer` of PATH_MAX bytes. */
const char *sv_tree_redirect(const char *path, char *buffer)
{
    static _Thread_local bool inside;
    struct stat st;
    if (inside || !candidate(path) || !getenv("SOFTVERBS_CONFIG"))
        return path;
    int saved = errno;
    inside = true;
    refresh();
    inside = false;
    pthread_mutex_lock(&tree_lock);
    bool fits = snprintf(buffer, PATH_MAX, "%s%s", root, path) < PATH_MAX;
    pthread_mutex_unlock(&tree_lock);
    bool found = fits && !syscall(SYS_newfstatat, AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW);
    errno = saved;
    return found || (fits && owned(path)) ? buffer : path;
}
