/*
 * The devices of this process, as the configuration has them now.
 *
 * The set of devices is fixed by the first read. Everything else may change
 * while processes run: the file is looked at ten times a second once a device
 * is open, and a change of state, LID or GID becomes the asynchronous event
 * that a real driver would raise. No file means no RDMA devices.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 100 * 1000 * 1000, STATS_EVERY_LOOKS = 10 };

struct sv_device sv_devices[SV_MAX_DEVICES];
int sv_device_count;
bool sv_virtual_device_nodes = true;

static pthread_mutex_t config_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat config_seen;
static bool loaded;
static pid_t control_pid;

struct sv_port sv_port_of(struct sv_device *device)
{
    pthread_mutex_lock(&device->port_lock);
    struct sv_port port = device->port;
    pthread_mutex_unlock(&device->port_lock);
    return port;
}

static void set_port(struct sv_device *device, const struct sv_port *port)
{
    pthread_mutex_lock(&device->port_lock);
    device->port = *port;
    pthread_mutex_unlock(&device->port_lock);
    atomic_store(&device->passes, port->state == IBV_PORT_ACTIVE && !port->blackhole);
    atomic_store(&device->bandwidth, (uint64_t)(port->bandwidth_mb * 1e6));
    atomic_store(&device->ack_timeout_ns, (uint64_t)port->ack_timeout_ms * 1000000u);
}

static void create_device(struct sv_device *device, const struct sv_section *s, int index)
{
    struct ibv_device *ibv = &device->ibv;
    device->index = index;
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->port_lock, NULL);
    memcpy(device->pci, s->pci, sizeof device->pci);
    ibv->node_type = IBV_NODE_CA;
    ibv->transport_type = IBV_TRANSPORT_IB;
    snprintf(ibv->name, sizeof ibv->name, "%s", s->name);
    snprintf(ibv->dev_name, sizeof ibv->dev_name, "uverbs%d", index);
    snprintf(ibv->dev_path, sizeof ibv->dev_path, "/sys/class/infiniband_verbs/uverbs%d", index);
    snprintf(ibv->ibdev_path, sizeof ibv->ibdev_path, "/sys/class/infiniband/%s", s->name);
    set_port(device, &s->port);
}

/* "<serial> <fault>": a new serial fires the fault once, in every process that has the device open. */
static void inject(struct sv_device *device, const char *fault)
{
    char kind[32] = "";
    int status = 0;
    sscanf(fault, "%*s %31s %d", kind, &status);
    sv_log("%s inject=\"%s\"", device->ibv.name, fault);
    if (!strcmp(kind, "wc"))
        atomic_store(&device->inject_wc, status);
    else if (!strcmp(kind, "qp_fatal"))
        sv_inject_qp(device, true);
    else if (!strcmp(kind, "disconnect"))
        sv_inject_qp(device, false);
    else if (!strcmp(kind, "device_fatal"))
        sv_event_broadcast(device, IBV_EVENT_DEVICE_FATAL);
    else
        fprintf(stderr, "softverbs: [%s] inject = %s: no such fault\n", device->ibv.name, fault);
}

static void tell_state(struct sv_device *device, int before, int after)
{
    if (before == after)
        return;
    sv_log("%s state %s -> %s", device->ibv.name, ibv_port_state_str((enum ibv_port_state)before),
           ibv_port_state_str((enum ibv_port_state)after));
    if (after == IBV_PORT_ACTIVE)
        sv_event_broadcast(device, IBV_EVENT_PORT_ACTIVE);
    else if (before == IBV_PORT_ACTIVE)
        sv_event_broadcast(device, IBV_EVENT_PORT_ERR);
}

static bool same_gids(const struct sv_port *a, const struct sv_port *b)
{
    bool same = a->gid_count == b->gid_count;
    for (int i = 0; i < a->gid_count && same; i++)
        same = a->gids[i].type == b->gids[i].type && !memcmp(&a->gids[i].raw, &b->gids[i].raw, sizeof a->gids[i].raw);
    return same;
}

static void update_device(struct sv_device *device, const struct sv_port *after)
{
    struct sv_port before = sv_port_of(device);
    set_port(device, after);
    tell_state(device, before.state, after->state);
    if (before.lid != after->lid)
        sv_event_broadcast(device, IBV_EVENT_LID_CHANGE);
    if (!same_gids(&before, after))
        sv_event_broadcast(device, IBV_EVENT_GID_CHANGE);
    if (after->inject[0] && strcmp(before.inject, after->inject))
        inject(device, after->inject);
}

static void apply(const struct sv_config *config)
{
    if (!loaded) {
        sv_virtual_device_nodes = config->virtual_device_nodes;
        for (int i = 0; i < config->count; i++)
            create_device(&sv_devices[i], &config->sections[i], i);
        sv_device_count = config->count;
        loaded = true;
        return;
    }
    for (int i = 0; i < config->count; i++)
        for (int d = 0; d < sv_device_count; d++)
            if (!strcmp(sv_devices[d].ibv.name, config->sections[i].name))
                update_device(&sv_devices[d], &config->sections[i].port);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Read the file if it is not the one seen last; true if anything was applied. */
bool sv_devices_refresh(void)
{
    const char *path = getenv("SOFTVERBS_CONFIG");
    struct stat now;
    bool applied = false;
    if (!path || stat(path, &now))
        return false;
    pthread_mutex_lock(&config_lock);
    if (!loaded || !same_file(&now, &config_seen)) {
        struct sv_config *config = malloc(sizeof *config);
        applied = config && sv_config_read(path, config);
        if (applied)
            apply(config);
        config_seen = now;
        free(config);
        sv_tree_invalidate();
    }
    pthread_mutex_unlock(&config_lock);
    return applied;
}

static void *control(void *unused)
{
    (void)unused;
    for (unsigned looks = 0;; looks++) {
        sv_devices_refresh();
        if (looks % STATS_EVERY_LOOKS == 0)
            sv_stats_write();
        sv_sleep_ns(LOOK_EVERY_NS);
    }
    return NULL;
}

/* Started with the first open device, and again in a forked child that opens one. */
void sv_control_start(void)
{
    pthread_t thread;
    pthread_mutex_lock(&config_lock);
    if (control_pid != getpid() && !sv_thread(&thread, control, NULL)) {
        control_pid = getpid();
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&config_lock);
}

__attribute__((destructor)) static void write_last_stats(void)
{
    if (control_pid == getpid())
        sv_stats_write();
}
