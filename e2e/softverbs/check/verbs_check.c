/*
 * The promises of the double, checked through the public verbs interface: two
 * queue pairs of one process, connected to each other. One line a promise; ends
 * at the first broken one. Rewrites the file $SOFTVERBS_CONFIG to make faults.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64 << 20, QUEUE = 256, INLINE = 64 };

struct end {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct end a, b;
static union ibv_gid gid;
static int gid_index;

static void require(int kept, const char *promise)
{
    printf("%-6s %s\n", kept ? "ok" : "BROKEN", promise);
    fflush(stdout);
    if (!kept)
        _exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- two ends ---- */

static void open_end(struct end *e)
{
    e->memory = calloc(1, SIZE);
    e->channel = ibv_create_comp_channel(context);
    e->cq = ibv_create_cq(context, 1024, NULL, e->channel, 0);
    e->mr = ibv_reg_mr(pd, e->memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_qp_init_attr init = {.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = QUEUE, .max_recv_wr = 1, .max_send_sge = 2,
                                            .max_recv_sge = 1, .max_inline_data = INLINE}};
    e->qp = ibv_create_qp(pd, &init);
}

static void close_end(struct end *e)
{
    require(!ibv_destroy_qp(e->qp) && !ibv_dereg_mr(e->mr) && !ibv_destroy_cq(e->cq) &&
            !ibv_destroy_comp_channel(e->channel), "everything can be destroyed");
    free(e->memory);
}

static int connect_with(struct ibv_qp *qp, uint32_t peer, unsigned rights)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
                              .ah_attr = {.is_global = 1, .port_num = 1,
                                          .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index}}};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7};
    return ibv_modify_qp(qp, &reset, IBV_QP_STATE) ||
           ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ||
           ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
           ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_to(struct ibv_qp *qp, uint32_t peer)
{
    return connect_with(qp, peer, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static void connect_both(void)
{
    if (connect_to(a.qp, b.qp->qp_num) || connect_to(b.qp, a.qp->qp_num))
        require(0, "queue pairs connect");
}

static int post(enum ibv_wr_opcode op, uint64_t id, uint64_t local, uint64_t remote, uint32_t length, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)a.memory + local, length, a.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)b.memory + remote, rkey}}, *bad;
    return ibv_post_send(a.qp, &wr, &bad);
}

static int post_write(uint64_t id, uint32_t length)
{
    return post(IBV_WR_RDMA_WRITE, id, 0, 0, length, b.mr->rkey);
}

static struct ibv_wc wait_one(void)
{
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR, .wr_id = ~0ull};
    for (double end = now() + 20; now() < end && !ibv_poll_cq(a.cq, 1, &wc);)
        ;
    return wc;
}

static enum ibv_wc_status try_write(uint64_t remote, uint32_t length, uint32_t rkey)
{
    connect_both();
    if (post(IBV_WR_RDMA_WRITE, 1, 0, remote, length, rkey))
        return IBV_WC_GENERAL_ERR;
    return wait_one().status;
}

/* ---- bytes ---- */

static void check_large_write(void)
{
    for (int i = 0; i < SIZE; i += 997)
        a.memory[i] = (char)i;
    require(try_write(0, SIZE, b.mr->rkey) == IBV_WC_SUCCESS && !memcmp(a.memory, b.memory, SIZE),
            "64 MiB in one write arrive whole");
}

static void check_order(void)
{
    int ordered = 1;
    for (int i = 0; i < 200; i++)
        post_write((uint64_t)i, 100);
    for (int i = 0; i < 200; i++)
        ordered &= wait_one().wr_id == (uint64_t)i;
    require(ordered, "completions come in the order of posting");
}

static void check_read(void)
{
    memset(a.memory, 0, 1 << 20);
    post(IBV_WR_RDMA_READ, 7, 0, 1 << 20, 1 << 20, b.mr->rkey);
    require(wait_one().status == IBV_WC_SUCCESS && !memcmp(a.memory, b.memory + (1 << 20), 1 << 20),
            "a read brings the peer's bytes");
}

static void check_gather(void)
{
    struct ibv_sge sges[] = {{(uintptr_t)a.memory, 3, a.mr->lkey}, {(uintptr_t)a.memory + 100, 5, a.mr->lkey}};
    struct ibv_send_wr wr = {.sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)b.memory, b.mr->rkey}}, *bad;
    memcpy(a.memory, "abc", 3);
    memcpy(a.memory + 100, "defgh", 5);
    ibv_post_send(a.qp, &wr, &bad);
    require(wait_one().status == IBV_WC_SUCCESS && !memcmp(b.memory, "abcdefgh", 8), "two pieces are gathered into one write");
}

static void check_inline(void)
{
    char text[] = "taken at the post";
    struct ibv_sge sge = {(uintptr_t)text, sizeof text, 0};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                             .wr.rdma = {(uintptr_t)b.memory, b.mr->rkey}}, *bad;
    ibv_post_send(a.qp, &wr, &bad);
    memset(text, 'x', sizeof text);
    require(wait_one().status == IBV_WC_SUCCESS && !strcmp(b.memory, "taken at the post"), "inline data needs no key and no buffer");
}

static void check_notification(void)
{
    struct ibv_cq *cq;
    void *ignored;
    ibv_req_notify_cq(a.cq, 0);
    post_write(1, 8);
    require(!ibv_get_cq_event(a.channel, &cq, &ignored) && cq == a.cq, "an armed completion queue wakes its channel");
    ibv_ack_cq_events(cq, 1);
    wait_one();
}

static void check_full_queue(void)
{
    int posted = 0, drained = 0;
    while (posted < 10 * QUEUE && !post_write(1, 64 << 10))
        posted++;
    for (; drained < posted && wait_one().status == IBV_WC_SUCCESS; drained++)
        ;
    require(posted >= QUEUE && posted < 10 * QUEUE && drained == posted, "a full send queue refuses, and loses nothing");
}

/* ---- refusals ---- */

static void check_keys(void)
{
    struct ibv_async_event event;
    struct ibv_mr *unshared = ibv_reg_mr(pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    uint32_t stale = unshared->rkey;
    require(try_write(0, 64, b.mr->rkey + 1) == IBV_WC_REM_ACCESS_ERR, "unknown rkey: remote access error");
    require(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == b.qp,
            "  and the responder's queue pair raises an access error event");
    ibv_ack_async_event(&event);
    require(try_write(SIZE - 10, 64, b.mr->rkey) == IBV_WC_REM_ACCESS_ERR, "past the end of the region: remote access error");
    require(try_write(0, 64, stale) == IBV_WC_REM_ACCESS_ERR, "no remote write right: remote access error");
    ibv_dereg_mr(unshared);
    require(try_write(0, 64, stale) == IBV_WC_REM_ACCESS_ERR, "key of a deregistered region: remote access error");
    struct ibv_mr *successor = ibv_reg_mr(pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    require(try_write(0, 64, stale) == IBV_WC_REM_ACCESS_ERR, "  also when another region has taken its place");
    ibv_dereg_mr(successor);
}

static void check_rights_of_queue_pair(void)
{
    if (connect_to(a.qp, b.qp->qp_num) || connect_with(b.qp, a.qp->qp_num, IBV_ACCESS_REMOTE_WRITE))
        require(0, "queue pairs connect");
    post(IBV_WR_RDMA_READ, 1, 0, 0, 64, b.mr->rkey);
    require(wait_one().status == IBV_WC_REM_ACCESS_ERR, "queue pair without the right to be read: remote access error");
}

static void check_local_bounds(void)
{
    connect_both();
    post(IBV_WR_RDMA_WRITE, 1, SIZE - 8, 0, 64, b.mr->rkey);
    post_write(2, 64);
    struct ibv_wc first = wait_one(), second = wait_one();
    require(first.wr_id == 1 && first.status == IBV_WC_LOC_PROT_ERR, "local buffer past its region: local protection error");
    require(second.wr_id == 2 && second.status == IBV_WC_WR_FLUSH_ERR, "  and the next request is flushed");
    require(!post_write(3, 64) && wait_one().status == IBV_WC_WR_FLUSH_ERR, "  as is one posted afterwards");
}

/* Drop or take back CAP_IPC_LOCK, which stays permitted. */
static void set_ipc_lock(int effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {{0}};
    const uint32_t bit = 1u << CAP_IPC_LOCK;
    syscall(SYS_capget, &header, caps);
    caps[0].effective = effective ? caps[0].permitted : caps[0].effective & ~bit;
    syscall(SYS_capset, &header, caps);
}

static void check_memlock(void)
{
    struct rlimit before;
    getrlimit(RLIMIT_MEMLOCK, &before);
    struct rlimit small = {1 << 20, before.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &small);
    set_ipc_lock(0);
    require(!ibv_reg_mr(pd, a.memory, 2 << 20, 0), "memory beyond RLIMIT_MEMLOCK without CAP_IPC_LOCK: refused");
    set_ipc_lock(1);
    setrlimit(RLIMIT_MEMLOCK, &before);
}

/* ---- paths ---- */

static void check_paths(void)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    int keep = gid_index;
    double began = now();
    connect_both();
    if (connect_to(a.qp, b.qp->qp_num ^ 0x80))
        require(0, "connect to nobody");
    post_write(1, 64);
    require(wait_one().status == IBV_WC_RETRY_EXC_ERR && now() - began < 5, "no such peer queue pair: retries exceeded, in time");
    connect_both();
    connect_to(b.qp, a.qp->qp_num ^ 1);
    post_write(1, 64);
    require(wait_one().status == IBV_WC_RETRY_EXC_ERR, "peer connected to another queue pair: retries exceeded");
    gid_index = 99;
    require(connect_to(a.qp, b.qp->qp_num) != 0, "GID index outside the table: refused on the way to RTR");
    gid_index = keep;
    connect_both();
    ibv_modify_qp(b.qp, &error, IBV_QP_STATE);
    post_write(1, 64);
    require(wait_one().status == IBV_WC_RETRY_EXC_ERR, "peer queue pair in error: retries exceeded");
}

/* ---- faults ---- */

/* Replace the configuration, and give the process the time to notice. */
static void configure(const char *setting)
{
    const char *path = getenv("SOFTVERBS_CONFIG");
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    fprintf(file, "[%s]\naddr = 127.0.0.1\n%s\n", ibv_get_device_name(context->device), setting);
    fclose(file);
    rename(fresh, path);
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
}

/* The refusals above left their access errors behind; they are passed over. */
static int next_event(enum ibv_event_type type)
{
    struct ibv_async_event event;
    do {
        struct pollfd fd = {context->async_fd, POLLIN, 0};
        if (poll(&fd, 1, 2000) != 1 || ibv_get_async_event(context, &event))
            return 0;
        ibv_ack_async_event(&event);
    } while (event.event_type == IBV_EVENT_QP_ACCESS_ERR);
    return event.event_type == type;
}

static int file_says(const char *path, const char *expected)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 && !strncmp(text, expected, strlen(expected));
}

static void check_link_faults(void)
{
    struct ibv_port_attr port;
    configure("bandwidth = 20");
    double began = now();
    require(try_write(0, 20000000, b.mr->rkey) == IBV_WC_SUCCESS && now() - began > 0.9 && now() - began < 3, "20 MB at 20 MB/s take a second");
    configure("state = DOWN");
    require(next_event(IBV_EVENT_PORT_ERR) && !ibv_query_port(context, 1, &port) && port.state == IBV_PORT_DOWN, "port down: event and state");
    require(file_says("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN"), "  and sysfs says so");
    require(try_write(0, 64, b.mr->rkey) == IBV_WC_RETRY_EXC_ERR, "  and a write exceeds its retries");
    configure("");
    require(next_event(IBV_EVENT_PORT_ACTIVE) && try_write(0, 64, b.mr->rkey) == IBV_WC_SUCCESS, "port active again: event, and writes pass");
    configure("blackhole = yes");
    post_write(1, 64);
    configure("");
    require(wait_one().status == IBV_WC_SUCCESS, "an outage shorter than the retry budget is survived");
}

static void check_injected_faults(void)
{
    configure("inject = 1 wc 10");
    require(try_write(0, 64, b.mr->rkey) == IBV_WC_REM_ACCESS_ERR && try_write(0, 64, b.mr->rkey) == IBV_WC_SUCCESS,
            "an injected completion error strikes once");
    configure("inject = 2 qp_fatal");
    require(next_event(IBV_EVENT_QP_FATAL), "an injected queue pair failure raises its event");
    configure("reg_mr = fail");
    require(!ibv_reg_mr(pd, a.memory, 4096, 0), "registration fails on request");
    configure("gids = v2:addr");
    require(next_event(IBV_EVENT_GID_CHANGE), "a changed GID table raises its event");
    configure("");
    require(next_event(IBV_EVENT_GID_CHANGE), "  and so does changing it back");
}

static void measure(uint32_t piece)
{
    connect_both();
    int total = (int)((256ll << 20) / piece), posted = 0, done = 0;
    double began = now();
    struct ibv_wc wc[16];
    while (done < total) {
        for (; posted < total && posted - done < QUEUE / 2; posted++)
            post_write(1, piece);
        int n = ibv_poll_cq(a.cq, 16, wc);
        for (int i = 0; i < n; i++)
            if (wc[i].status != IBV_WC_SUCCESS)
                require(0, ibv_wc_status_str(wc[i].status));
        done += n;
    }
    printf("       writes of %u KiB: %.0f MB/s\n", piece >> 10, total * (double)piece / 1e6 / (now() - began));
}

static void open_device(void)
{
    int count = 0;
    struct ibv_port_attr port;
    struct ibv_device **list = ibv_get_device_list(&count);
    context = count ? ibv_open_device(list[0]) : NULL;
    ibv_free_device_list(list);
    require(context != NULL, "the device opens");
    require(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_ACTIVE, "its port is active");
    gid_index = port.gid_tbl_len - 1;
    require(!ibv_query_gid(context, 1, gid_index, &gid), "it has a GID");
    require(file_says("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3", "RoCE v2"), "sysfs shows the same");
}

int main(void)
{
    open_device();
    pd = ibv_alloc_pd(context);
    open_end(&a);
    open_end(&b);
    require(a.mr && a.qp && b.mr && b.qp, "memory registers and queue pairs are created");
    check_large_write();
    check_order();
    check_read();
    check_gather();
    check_inline();
    check_notification();
    check_full_queue();
    check_keys();
    check_rights_of_queue_pair();
    check_local_bounds();
    check_memlock();
    check_paths();
    check_link_faults();
    check_injected_faults();
    measure(64 << 10);
    measure(1 << 20);
    close_end(&a);
    close_end(&b);
    require(!ibv_dealloc_pd(pd) && !ibv_close_device(context), "the device closes");
    return 0;
}
