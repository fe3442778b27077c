/*
 * The types that the parts of softverbs share. Every object that libibverbs
 * hands out is the first member of ours, so a cast leads from one to the other.
 *
 * Lock order: configuration, device, listener, queue pair, completion queue,
 * channel, context, port. The lock of the memory regions is taken under a queue
 * pair's at most, and held only around one copy that cannot block.
 */
#ifndef SOFTVERBS_H
#define SOFTVERBS_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* verbs.h routes these names through inline functions; here they are the exported symbols themselves. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

enum {
    SV_MAX_DEVICES = 16,
    SV_MAX_GIDS = 16,
    SV_MAX_SGE = 4,
    SV_MAX_INLINE = 256,
    SV_MAX_WR = 1 << 14,
    SV_MAX_CQE = 1 << 22,
    SV_MAX_MESSAGE = 1 << 30,
    SV_MAX_LISTENERS = 64,
    SV_QPS_PER_LISTENER = 256,
};

/* ---- the port: what the configuration says of a device ---- */

struct sv_gid {
    union ibv_gid raw;              /* all zero: an empty slot */
    uint32_t type;                  /* enum ibv_gid_type */
};

struct sv_port {
    int state;                      /* enum ibv_port_state */
    int infiniband;                 /* otherwise Ethernet */
    int rate_gbps, mtu, numa_node, lid;
    int ack_timeout_ms;
    int memlock_ignored, reg_mr_fails, blackhole;
    double bandwidth_mb;            /* per second and direction; 0: unlimited */
    char inject[64];
    struct in_addr addr;            /* carries the traffic; 0: unresolved */
    char ndev[IFNAMSIZ];
    int gid_count;
    struct sv_gid gids[SV_MAX_GIDS];
};

/* ---- devices ---- */

struct sv_shaper {
    _Atomic uint64_t free_at_ns;    /* when the next byte may pass */
};

struct sv_counters {
    _Atomic uint64_t tx_bytes, rx_bytes, tx_wrs, rx_wrs, wc_errors, mr_bytes, mrs, qps;
};

struct sv_device {
    struct ibv_device ibv;
    int index;
    char pci[16];
    pthread_mutex_t lock;           /* guards contexts and listeners */
    struct sv_context *contexts;
    struct sv_listener *listeners[SV_MAX_LISTENERS];
    pthread_mutex_t port_lock;      /* guards port */
    struct sv_port port;
    struct sv_shaper tx, rx;
    struct sv_counters count;
    /* What the data path reads of the port, without its lock. */
    _Atomic bool passes;            /* ACTIVE and no black hole */
    _Atomic uint64_t bandwidth;     /* bytes per second */
    _Atomic uint64_t ack_timeout_ns;
    _Atomic int inject_wc;          /* status of the next work request to begin; 0: none */
};

extern struct sv_device sv_devices[SV_MAX_DEVICES];
extern int sv_device_count;
extern bool sv_virtual_device_nodes;

bool sv_devices_refresh(void);
struct sv_port sv_port_of(struct sv_device *device);
void sv_control_start(void);
void sv_stats_write(void);
void sv_tree_invalidate(void);
const char *sv_tree_redirect(const char *path, char *buffer);
const char *sv_tree_root(void);

/* ---- contexts and events ---- */

struct sv_event;

struct sv_context {
    struct ibv_context ibv;
    struct sv_device *device;
    struct sv_context *next;
    pthread_mutex_t lock;           /* guards events and every unacknowledged count */
    pthread_cond_t acked;
    struct sv_event *events;
};

void sv_event_post(struct sv_context *context, enum ibv_event_type type, void *element);
void sv_event_broadcast(struct sv_device *device, enum ibv_event_type type);
void sv_event_forget(struct sv_context *context, const void *element, const unsigned *unacked);
void sv_event_drop_all(struct sv_context *context);
void sv_signal(int eventfd);

/* ---- memory regions ---- */

void sv_mr_lock(void);
void sv_mr_unlock(void);
void *sv_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t length, int access);

/* ---- completion queues ---- */

struct sv_cq {
    struct ibv_cq ibv;
    pthread_mutex_t lock;           /* guards the ring */
    struct ibv_wc *ring;
    unsigned size, head;
    _Atomic unsigned count;
    bool armed;
    unsigned notified;              /* channel events that wait; guarded by the channel */
    unsigned unacked;               /* taken, not acknowledged; guarded by ibv.mutex */
    unsigned async_unacked;
    struct sv_cq *next;
};

void sv_cq_push(struct sv_cq *cq, const struct ibv_wc *wc);
void sv_cq_purge(struct sv_cq *cq, uint32_t qp_num);
int sv_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
int sv_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- queue pairs ---- */

struct sv_wqe {
    uint64_t wr_id, remote_addr;
    uint32_t rkey, length;
    enum ibv_wr_opcode opcode;
    bool signaled, is_inline;       /* inline data has no local key */
    int sge_count;
    struct ibv_sge sge[SV_MAX_SGE];
    char inlined[SV_MAX_INLINE];
};

enum sv_halt { SV_RUN, SV_FLUSH, SV_DISCARD };

struct sv_qp {
    struct ibv_qp ibv;
    struct sv_listener *listener;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned async_unacked;

    /* Send queue: head <= sent <= tail, free-running; only the requester moves head and sent while it runs. */
    struct sv_wqe *ring;
    unsigned size;
    _Atomic uint32_t head, sent, tail;

    /* Requester: one thread from the first post until the error state, a reset, or an idle loss of its connection. */
    pthread_t thread;
    bool joinable, running;
    _Atomic int halt;               /* enum sv_halt */
    _Atomic bool idle;
    int wake_fd, sock;

    /* Responder: threads of inbound connections that hold this queue pair. */
    int responders, inbound;
};

static inline struct sv_device *sv_device_of(const struct sv_qp *qp)
{
    return ((struct sv_context *)qp->ibv.context)->device;
}

int sv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int sv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void sv_qp_enter_error(struct sv_qp *qp);
enum ibv_qp_state sv_qp_state(struct sv_qp *qp);
void sv_inject_qp(struct sv_device *device, bool fatal);
void *sv_requester(void *qp);
void sv_respond(struct sv_qp *qp, int fd);

/* ---- listeners: where inbound connections find their queue pair ---- */

struct sv_listener {
    struct sv_device *device;
    int fd;
    uint16_t port;
    pthread_mutex_t lock;           /* guards slots; a queue pair is pinned under it */
    struct sv_qp *slots[SV_QPS_PER_LISTENER];
    unsigned next;
};

int sv_listener_assign(struct sv_device *device, struct sv_qp *qp);
void sv_listener_release(struct sv_qp *qp);

/* ---- bandwidth ---- */

uint64_t sv_shaper_delay_ns(struct sv_shaper *shaper, uint64_t rate);
void sv_shaper_charge(struct sv_shaper *shaper, uint64_t rate, uint64_t bytes);
size_t sv_shaper_piece(uint64_t rate);

/* ---- base ---- */

uint64_t sv_now_ns(void);
void sv_sleep_ns(uint64_t ns);
int sv_thread(pthread_t *thread, void *(*body)(void *), void *arg);
void sv_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
