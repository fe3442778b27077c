/*
 * Reliable-connected queue pairs: their life and their states.
 *
 * The requester thread alone completes work requests, so completions come in
 * order and no buffer is reported done while it is still being read. A queue
 * pair in the error state flushes what it holds; reset and destroy discard it.
 */
#include "softverbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static bool acceptable(const struct ibv_qp_init_attr *init)
{
    const struct ibv_qp_cap *cap = &init->cap;
    return init->qp_type == IBV_QPT_RC && init->send_cq && init->recv_cq && !init->srq && cap->max_send_wr >= 1 &&
           cap->max_send_wr <= SV_MAX_WR && cap->max_send_sge <= SV_MAX_SGE && cap->max_inline_data <= SV_MAX_INLINE;
}

static struct sv_qp *new_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
    struct sv_qp *qp = calloc(1, sizeof *qp);
    struct sv_wqe *ring = calloc(init->cap.max_send_wr, sizeof *ring);
    if (!qp || !ring) {
        free(qp);
        free(ring);
        return NULL;
    }
    qp->ibv.context = pd->context;
    qp->ibv.qp_context = init->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.send_cq = init->send_cq;
    qp->ibv.recv_cq = init->recv_cq;
    qp->ibv.qp_type = init->qp_type;
    qp->ibv.state = IBV_QPS_RESET;
    qp->init = *init;
    qp->ring = ring;
    qp->size = init->cap.max_send_wr;
    qp->sock = qp->inbound = -1;
    qp->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&qp->lock, NULL);
    pthread_cond_init(&qp->changed, NULL);
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    return qp;
}

static void free_qp(struct sv_qp *qp)
{
    close(qp->wake_fd);
    free(qp->ring);
    free(qp);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct sv_qp *qp = NULL;
    errno = EINVAL;
    if (!acceptable(init) || !(qp = new_qp(pd, init)))
        return NULL;
    int err = sv_listener_assign(sv_device_of(qp), qp);
    if (err) {
        free_qp(qp);
        errno = err;
        return NULL;
    }
    sv_device_of(qp)->count.qps++;
    return &qp->ibv;
}

enum ibv_qp_state sv_qp_state(struct sv_qp *qp)
{
    pthread_mutex_lock(&qp->lock);
    enum ibv_qp_state state = qp->ibv.state;
    pthread_mutex_unlock(&qp->lock);
    return state;
}

/* ---- leaving the working states; the queue pair's lock is held ---- */

static void interrupt(struct sv_qp *qp, enum sv_halt halt)
{
    atomic_store(&qp->halt, halt);
    if (qp->sock >= 0)
        shutdown(qp->sock, SHUT_RDWR);
    if (qp->inbound >= 0)
        shutdown(qp->inbound, SHUT_RDWR);
    sv_signal(qp->wake_fd);
}

/* After this returns no thread touches the queue pair, or memory through it. Lets go of the lock meanwhile. */
static void quiesce(struct sv_qp *qp)
{
    eventfd_t ignored;
    interrupt(qp, SV_DISCARD);
    if (qp->joinable) {
        pthread_mutex_unlock(&qp->lock);
        pthread_join(qp->thread, NULL);
        pthread_mutex_lock(&qp->lock);
        qp->joinable = false;
    }
    while (qp->responders)
        pthread_cond_wait(&qp->changed, &qp->lock);
    qp->head = qp->sent = qp->tail = 0;
    sv_cq_purge((struct sv_cq *)qp->ibv.send_cq, qp->ibv.qp_num);
    (void)!eventfd_read(qp->wake_fd, &ignored);
    atomic_store(&qp->halt, SV_RUN);
}

static void flush(struct sv_qp *qp)
{
    for (; qp->head != qp->tail; qp->head++) {
        struct ibv_wc wc = {.wr_id = qp->ring[qp->head % qp->size].wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->ibv.qp_num};
        sv_cq_push((struct sv_cq *)qp->ibv.send_cq, &wc);
    }
    qp->sent = atomic_load(&qp->tail);
}

/* A running requester flushes by itself, when it has let go of the buffers. Caller holds the lock. */
void sv_qp_enter_error(struct sv_qp *qp)
{
    qp->ibv.state = IBV_QPS_ERR;
    if (qp->running)
        interrupt(qp, SV_FLUSH);
    else
        flush(qp);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct sv_qp *qp = (struct sv_qp *)ibv;
    sv_listener_release(qp);
    pthread_mutex_lock(&qp->lock);
    ibv->state = IBV_QPS_RESET;
    quiesce(qp);
    pthread_mutex_unlock(&qp->lock);
    sv_event_forget((struct sv_context *)ibv->context, qp, &qp->async_unacked);
    sv_device_of(qp)->count.qps--;
    free_qp(qp);
    return 0;
}

/* ---- state changes ---- */

static bool empty_gid(const union ibv_gid *gid)
{
    static const union ibv_gid none;
    return !memcmp(gid, &none, sizeof none);
}

/* What hardware refuses on the way to RTR: a GID index that has none, no address, a path MTU that the port lacks. */
static bool valid_path(struct sv_qp *qp, const struct ibv_qp_attr *attr)
{
    struct sv_port port = sv_port_of(sv_device_of(qp));
    const struct ibv_global_route *route = &attr->ah_attr.grh;
    return attr->ah_attr.is_global && route->sgid_index < port.gid_count && !empty_gid(&port.gids[route->sgid_index].raw) &&
           !empty_gid(&route->dgid) && attr->path_mtu >= IBV_MTU_256 && 128 << attr->path_mtu <= port.mtu;
}

static int to_init(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const int needed = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
    bool from_here = qp->ibv.state == IBV_QPS_RESET || qp->ibv.state == IBV_QPS_INIT;
    if (!from_here || (mask & needed) != needed || attr->port_num != 1 || attr->pkey_index)
        return EINVAL;
    qp->attr.port_num = attr->port_num;
    qp->attr.qp_access_flags = attr->qp_access_flags;
    return 0;
}

static int to_rtr(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const int needed = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->ibv.state != IBV_QPS_INIT || (mask & needed) != needed || !valid_path(qp, attr))
        return EINVAL;
    qp->attr.ah_attr = attr->ah_attr;
    qp->attr.path_mtu = attr->path_mtu;
    qp->attr.dest_qp_num = attr->dest_qp_num;
    qp->attr.rq_psn = attr->rq_psn;
    qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    qp->attr.min_rnr_timer = attr->min_rnr_timer;
    return 0;
}

static int to_rts(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const int needed = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_SQ_PSN;
    if (qp->ibv.state == IBV_QPS_RTS)
        return 0;
    if (qp->ibv.state != IBV_QPS_RTR || (mask & needed) != needed)
        return EINVAL;
    qp->attr.timeout = attr->timeout;
    qp->attr.retry_cnt = attr->retry_cnt;
    qp->attr.rnr_retry = attr->rnr_retry;
    qp->attr.sq_psn = attr->sq_psn;
    qp->attr.max_rd_atomic = attr->max_rd_atomic;
    return 0;
}

/* Caller holds the lock; an error changes nothing. */
static int change_state(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    switch (attr->qp_state) {
    case IBV_QPS_RESET:
        qp->ibv.state = IBV_QPS_RESET;
        quiesce(qp);
        return 0;
    case IBV_QPS_INIT:
        return to_init(qp, attr, mask);
    case IBV_QPS_RTR:
        return to_rtr(qp, attr, mask);
    case IBV_QPS_RTS:
        return to_rts(qp, attr, mask);
    case IBV_QPS_ERR:
        sv_qp_enter_error(qp);
        return 0;
    default:
        return EINVAL;
    }
}

EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct sv_qp *qp = (struct sv_qp *)ibv;
    if (!(mask & IBV_QP_STATE))
        return 0;
    pthread_mutex_lock(&qp->lock);
    int err = change_state(qp, attr, mask);
    if (!err)
        ibv->state = attr->qp_state;
    pthread_mutex_unlock(&qp->lock);
    return err;
}

EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct sv_qp *qp = (struct sv_qp *)ibv;
    (void)mask;
    pthread_mutex_lock(&qp->lock);
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = ibv->state;
    attr->cap = qp->init.cap;
    *init = qp->init;
    pthread_mutex_unlock(&qp->lock);
    return 0;
}
