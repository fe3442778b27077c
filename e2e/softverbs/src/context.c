/*
 * Devices and their contexts: listing, opening, and what they say of
 * themselves. Signatures and error conventions are those of verbs.h.
 */
#include "softverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { VENDOR_MELLANOX = 0x15b3, PART_CONNECTX7 = 0x1021, COMPLETION_VECTORS = 8, PHYS_DISABLED = 3, PHYS_LINK_UP = 5 };

EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
    sv_devices_refresh();
    struct ibv_device **list = calloc((size_t)sv_device_count + 1, sizeof *list);
    for (int i = 0; list && i < sv_device_count; i++)
        list[i] = &sv_devices[i].ibv;
    if (count)
        *count = list ? sv_device_count : 0;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return ((struct sv_device *)device)->index;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *ibv)
{
    struct sv_device *device = (struct sv_device *)ibv;
    struct sv_port port = sv_port_of(device);
    uint8_t guid[8] = {0x02, 0x53, 0x56, (uint8_t)device->index};
    __be64 value;
    memcpy(guid + 4, &port.addr, sizeof port.addr);
    memcpy(&value, guid, sizeof value);
    return value;
}

/* With real device nodes, opening one is what decides, as it does for a pod without the resource. */
static int open_node(const struct ibv_device *device)
{
    char path[128];
    if (sv_virtual_device_nodes)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "/dev/infiniband/%s", device->dev_name);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void link_context(struct sv_device *device, struct sv_context *context)
{
    pthread_mutex_lock(&device->lock);
    context->next = device->contexts;
    device->contexts = context;
    pthread_mutex_unlock(&device->lock);
}

static void unlink_context(struct sv_device *device, const struct sv_context *context)
{
    struct sv_context **link;
    pthread_mutex_lock(&device->lock);
    for (link = &device->contexts; *link != context; link = &(*link)->next)
        ;
    *link = context->next;
    pthread_mutex_unlock(&device->lock);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
    struct sv_context *context;
    int node = open_node(ibv);
    if (node < 0)
        return NULL;
    context = calloc(1, sizeof *context);
    if (!context) {
        close(node);
        return NULL;
    }
    context->device = (struct sv_device *)ibv;
    context->ibv.device = ibv;
    context->ibv.cmd_fd = node;
    context->ibv.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    context->ibv.num_comp_vectors = COMPLETION_VECTORS;
    context->ibv.ops.poll_cq = sv_poll_cq;
    context->ibv.ops.req_notify_cq = sv_req_notify_cq;
    context->ibv.ops.post_send = sv_post_send;
    context->ibv.ops.post_recv = sv_post_recv;
    pthread_mutex_init(&context->ibv.mutex, NULL);
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->acked, NULL);
    link_context(context->device, context);
    sv_control_start();
    return &context->ibv;
}

EXPORT int ibv_close_device(struct ibv_context *ibv)
{
    struct sv_context *context = (struct sv_context *)ibv;
    unlink_context(context->device, context);
    sv_event_drop_all(context);
    close(ibv->async_fd);
    close(ibv->cmd_fd);
    free(context);
    return 0;
}

EXPORT int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
    *attr = (struct ibv_device_attr){
        .fw_ver = "0.0.0-softverbs",
        .node_guid = ibv_get_device_guid(ibv->device),
        .sys_image_guid = ibv_get_device_guid(ibv->device),
        .max_mr_size = UINT64_MAX,
        .page_size_cap = ~0xfffu,
        .vendor_id = VENDOR_MELLANOX,
        .vendor_part_id = PART_CONNECTX7,
        .max_qp = SV_MAX_LISTENERS * SV_QPS_PER_LISTENER,
        .max_qp_wr = SV_MAX_WR,
        .max_sge = SV_MAX_SGE,
        .max_sge_rd = SV_MAX_SGE,
        .max_cq = 1 << 16,
        .max_cqe = SV_MAX_CQE,
        .max_mr = 1 << 24,
        .max_pd = 1 << 16,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 16,
        .max_res_rd_atom = 1 << 16,
        .atomic_cap = IBV_ATOMIC_NONE,
        .max_pkeys = 1,
        .local_ca_ack_delay = 16,
        .phys_port_cnt = 1,
    };
    return 0;
}

static enum ibv_mtu mtu_code(int mtu)
{
    enum ibv_mtu code = IBV_MTU_256;
    while (code < IBV_MTU_4096 && 256 << code <= mtu)
        code++;
    return code;
}

/* Four lanes of SDR, QDR, FDR, EDR, HDR or NDR. */
static uint8_t speed_code(int gbps)
{
    static const struct { int gbps; uint8_t code; } speeds[] = {{400, 128}, {200, 64}, {100, 32}, {56, 16}, {40, 4}};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (gbps >= speeds[i].gbps)
            return speeds[i].code;
    return 1;
}

/* The exported symbol takes the older, shorter structure: nothing past `flags` may be written. */
EXPORT int ibv_query_port(struct ibv_context *ibv, uint8_t number, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr attr;
    struct sv_port port = sv_port_of(((struct sv_context *)ibv)->device);
    if (number != 1)
        return EINVAL;
    attr = (struct ibv_port_attr){
        .state = (enum ibv_port_state)port.state,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = mtu_code(port.mtu),
        .gid_tbl_len = port.gid_count,
        .max_msg_sz = SV_MAX_MESSAGE,
        .pkey_tbl_len = 1,
        .lid = (uint16_t)port.lid,
        .sm_lid = port.lid ? 1 : 0,
        .max_vl_num = 4,
        .subnet_timeout = 18,
        .active_width = 2,
        .active_speed = speed_code(port.rate_gbps),
        .phys_state = port.state == IBV_PORT_DOWN ? PHYS_DISABLED : PHYS_LINK_UP,
        .link_layer = port.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
    };
    memcpy(compat, &attr, offsetof(struct ibv_port_attr, flags) + sizeof attr.flags);
    return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *ibv, uint8_t number, int index, union ibv_gid *gid)
{
    struct sv_port port = sv_port_of(((struct sv_context *)ibv)->device);
    if (number != 1 || index < 0 || index >= port.gid_count) {
        errno = EINVAL;
        return -1;
    }
    *gid = port.gids[index].raw;
    return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t number, uint32_t index, struct ibv_gid_entry *entry,
                             uint32_t flags, size_t size)
{
    struct sv_port port = sv_port_of(((struct sv_context *)ibv)->device);
    if (number != 1 || index >= (uint32_t)port.gid_count || flags || size < sizeof *entry)
        return EINVAL;
    if (!port.gids[index].raw.global.interface_id)
        return ENODATA;
    *entry = (struct ibv_gid_entry){
        .gid = port.gids[index].raw,
        .gid_index = index,
        .port_num = number,
        .gid_type = port.gids[index].type,
        .ndev_ifindex = port.infiniband ? 0 : if_nametoindex(port.ndev),
    };
    return 0;
}

/* Private entry point of ibv_devinfo: 0 is IB or RoCE v1, 1 is RoCE v2. */
EXPORT int ibv_query_gid_type(struct ibv_context *ibv, uint8_t number, unsigned index, unsigned *type);
int ibv_query_gid_type(struct ibv_context *ibv, uint8_t number, unsigned index, unsigned *type)
{
    struct ibv_gid_entry entry;
    errno = _ibv_query_gid_ex(ibv, number, index, &entry, 0, sizeof entry);
    if (errno)
        return -1;
    *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *ibv, uint8_t number, int index, __be16 *pkey)
{
    (void)ibv;
    if (number != 1 || index)
        return -1;
    *pkey = 0xffff;
    return 0;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *out, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *out, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return -1;
    size_t length = fread(out, 1, size - 1, stream);
    fclose(stream);
    while (length && out[length - 1] == '\n')
        length--;
    out[length] = 0;
    return (int)length;
}

EXPORT int ibv_fork_init(void)
{
    return 0;
}
