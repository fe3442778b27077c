/* The send queue from the application's side, and failures on request. */
#include "softverbs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static bool representable(const struct sv_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
    bool known = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ;
    bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    return known && length <= SV_MAX_MESSAGE && !(is_inline && length > qp->init.cap.max_inline_data);
}

/* Inline data is taken now: the application may reuse its buffer as soon as the post returns. */
static void take_inline(struct sv_wqe *wqe, const struct ibv_send_wr *wr)
{
    char *out = wqe->inlined;
    for (int i = 0; i < wr->num_sge; i++) {
        memcpy(out, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        out += wr->sg_list[i].length;
    }
    wqe->sge[0] = (struct ibv_sge){(uintptr_t)wqe->inlined, wqe->length, 0};
    wqe->sge_count = 1;
}

static int fill(const struct sv_qp *qp, struct sv_wqe *wqe, const struct ibv_send_wr *wr)
{
    uint64_t length = 0;
    if (wr->num_sge < 0 || wr->num_sge > SV_MAX_SGE)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++) {
        wqe->sge[i] = wr->sg_list[i];
        length += wr->sg_list[i].length;
    }
    if (!representable(qp, wr, length))
        return EINVAL;
    wqe->wr_id = wr->wr_id;
    wqe->opcode = wr->opcode;
    wqe->signaled = qp->init.sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
    wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
    wqe->remote_addr = wr->wr.rdma.remote_addr;
    wqe->rkey = wr->wr.rdma.rkey;
    wqe->length = (uint32_t)length;
    wqe->sge_count = wr->num_sge;
    if (wqe->is_inline)
        take_inline(wqe, wr);
    return 0;
}

static int enqueue(struct sv_qp *qp, const struct ibv_send_wr *wr)
{
    if (qp->ibv.state != IBV_QPS_RTS && qp->ibv.state != IBV_QPS_ERR)
        return EINVAL;
    if (qp->tail - qp->head == qp->size)
        return ENOMEM;
    int err = fill(qp, &qp->ring[qp->tail % qp->size], wr);
    if (!err)
        atomic_fetch_add(&qp->tail, 1);
    return err;
}

static int start_requester(struct sv_qp *qp)
{
    if (qp->joinable)
        pthread_join(qp->thread, NULL);     /* it lost an idle connection and is past its last use of the lock */
    qp->running = true;
    int err = sv_thread(&qp->thread, sv_requester, qp);
    qp->running = qp->joinable = !err;
    return err;
}

static void set_off(struct sv_qp *qp)
{
    if (qp->running) {
        if (atomic_exchange(&qp->idle, false))
            sv_signal(qp->wake_fd);
    } else if (qp->ibv.state == IBV_QPS_ERR || (qp->head != qp->tail && start_requester(qp))) {
        sv_qp_enter_error(qp);
    }
}

int sv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct sv_qp *qp = (struct sv_qp *)ibv;
    int err = 0;
    pthread_mutex_lock(&qp->lock);
    for (; wr && !err; wr = err ? wr : wr->next)
        err = enqueue(qp, wr);
    if (err)
        *bad = wr;
    set_off(qp);
    pthread_mutex_unlock(&qp->lock);
    return err;
}

/* Two-sided operations are not part of this double. */
int sv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    *bad = wr;
    return EOPNOTSUPP;
}

/* ---- failures on request ---- */

static bool inject_into(struct sv_qp *qp, bool fatal, bool busy_only)
{
    pthread_mutex_lock(&qp->lock);
    bool hit = qp->ibv.state == IBV_QPS_RTS && !(busy_only && qp->head == qp->tail);
    if (hit && fatal)
        sv_qp_enter_error(qp);
    else if (hit && qp->sock >= 0)
        shutdown(qp->sock, SHUT_RDWR);
    pthread_mutex_unlock(&qp->lock);
    if (hit && fatal)
        sv_event_post((struct sv_context *)qp->ibv.context, IBV_EVENT_QP_FATAL, qp);
    return hit;
}

/* True as soon as one fatal failure was placed; breaking connections goes through all of them. */
static bool inject_listener(struct sv_listener *listener, bool fatal, bool busy_only)
{
    bool placed = false;
    pthread_mutex_lock(&listener->lock);
    for (int i = 0; i < SV_QPS_PER_LISTENER && !placed; i++)
        if (listener->slots[i])
            placed = inject_into(listener->slots[i], fatal, busy_only) && fatal;
    pthread_mutex_unlock(&listener->lock);
    return placed;
}

/* fatal: one connected queue pair fails, a busy one if there is any. Otherwise every connection breaks. */
void sv_inject_qp(struct sv_device *device, bool fatal)
{
    bool placed = false;
    for (int busy_only = fatal; busy_only >= 0 && !placed; busy_only--)
        for (int i = 0; i < SV_MAX_LISTENERS && device->listeners[i] && !placed; i++)
            placed = inject_listener(device->listeners[i], fatal, busy_only);
}
