/*
 * The receiving side of a queue pair: checks key, bounds and rights of each
 * request as hardware would, moves the bytes, and answers in order, once for a
 * run of writes.
 */
#include "softverbs.h"
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

enum { ANSWER_AT_MOST = 16, SOCKET_WAIT_MS = 100 };

struct reply {
    struct sv_qp *qp;
    int fd;
    uint32_t unanswered;            /* writes done, whose answer waits for more of them or for a pause */
};

static bool send_answer(struct reply *r, enum ibv_wc_status status, uint32_t count, uint32_t length)
{
    struct sv_response response = {status, count, length, 0};
    return send(r->fd, &response, sizeof response, MSG_NOSIGNAL) == sizeof response;
}

static bool flush(struct reply *r)
{
    uint32_t count = r->unanswered;
    r->unanswered = 0;
    return !count || send_answer(r, IBV_WC_SUCCESS, count, 0);
}

/* A pause in the stream, or enough writes, is the moment to answer. */
static bool next_request(struct reply *r, struct sv_request *request)
{
    ssize_t ready = recv(r->fd, request, sizeof *request, MSG_PEEK | MSG_DONTWAIT);
    bool pause = ready < (ssize_t)sizeof *request;
    if ((pause || r->unanswered >= ANSWER_AT_MOST) && !flush(r))
        return false;
    return recv(r->fd, request, sizeof *request, MSG_WAITALL) == sizeof *request;
}

/* A port that does not pass traffic neither reads nor answers; the peer runs into its timeout. */
static bool wait_until_passing(struct sv_qp *qp)
{
    enum ibv_qp_state state = sv_qp_state(qp);
    while (!atomic_load(&sv_device_of(qp)->passes) && state != IBV_QPS_RESET && state != IBV_QPS_ERR) {
        sv_sleep_ns(SV_STALL_NS);
        state = sv_qp_state(qp);
    }
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS;
}

/* The socket has nothing to give or no room: what is done can be answered meanwhile. */
static enum ibv_wc_status wait_for_socket(struct reply *r, bool inward)
{
    struct pollfd fd = {r->fd, inward ? POLLIN : POLLOUT, 0};
    return flush(r) && poll(&fd, 1, SOCKET_WAIT_MS) >= 0 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR;
}

/* Move the next piece between socket and memory; the key is checked again, and held only while nothing blocks. */
static enum ibv_wc_status move_piece(struct reply *r, struct sv_request *request, int access)
{
    struct sv_device *device = sv_device_of(r->qp);
    bool inward = access == IBV_ACCESS_REMOTE_WRITE;
    struct sv_shaper *shaper = inward ? &device->rx : &device->tx;
    uint64_t rate = atomic_load(&device->bandwidth);
    size_t most = sv_shaper_piece(rate), piece = request->length < most ? request->length : most;
    ssize_t moved = 0;
    sv_sleep_ns(sv_shaper_delay_ns(shaper, rate));
    if (!wait_until_passing(r->qp))
        return IBV_WC_REM_OP_ERR;
    sv_mr_lock();
    void *memory = sv_mr_find(r->qp->ibv.pd, request->rkey, request->addr, request->length, access);
    if (memory && inward)
        moved = recv(r->fd, memory, piece, MSG_DONTWAIT);
    else if (memory)
        moved = send(r->fd, memory, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
    int err = moved < 0 ? errno : 0;
    sv_mr_unlock();
    if (!memory)
        return IBV_WC_REM_ACCESS_ERR;
    if (err == EAGAIN)
        return wait_for_socket(r, inward);
    if (moved <= 0)
        return err == EINTR ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR;
    sv_shaper_charge(shaper, rate, (uint64_t)moved);
    request->addr += (uint64_t)moved;
    request->length -= (uint32_t)moved;
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status move(struct reply *r, struct sv_request request, int access)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    if (!(r->qp->attr.qp_access_flags & (unsigned)access))
        return IBV_WC_REM_ACCESS_ERR;
    while (request.length && status == IBV_WC_SUCCESS)
        status = move_piece(r, &request, access);
    return status;
}

static enum ibv_wc_status answer_write(struct reply *r, const struct sv_request *request)
{
    enum ibv_wc_status status = move(r, *request, IBV_ACCESS_REMOTE_WRITE);
    r->unanswered += status == IBV_WC_SUCCESS;
    return status;
}

/* The length is announced before the bytes, so the request has to be good at this point already. */
static enum ibv_wc_status answer_read(struct reply *r, const struct sv_request *request)
{
    bool allowed = r->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ;
    sv_mr_lock();
    allowed = allowed && sv_mr_find(r->qp->ibv.pd, request->rkey, request->addr, request->length, IBV_ACCESS_REMOTE_READ);
    sv_mr_unlock();
    if (!allowed)
        return IBV_WC_REM_ACCESS_ERR;
    if (!flush(r) || !send_answer(r, IBV_WC_SUCCESS, 1, request->length))
        return IBV_WC_REM_OP_ERR;
    return move(r, *request, IBV_ACCESS_REMOTE_READ);
}

static bool fail_qp(struct sv_qp *qp)
{
    pthread_mutex_lock(&qp->lock);
    bool first = qp->ibv.state != IBV_QPS_ERR;
    qp->inbound = -1;               /* the error state must not shut this connection before the answer is out */
    sv_qp_enter_error(qp);
    pthread_mutex_unlock(&qp->lock);
    return first;
}

/* A refusal is sent, the queue pair fails, and the rest is read away so that a reset does not overtake the answer. */
static void refuse(struct reply *r, enum ibv_wc_status status)
{
    struct timeval patience = {.tv_sec = 1};
    char sink[4096];
    if (flush(r))
        send_answer(r, status, 1, 0);
    if (fail_qp(r->qp))
        sv_event_post((struct sv_context *)r->qp->ibv.context, IBV_EVENT_QP_ACCESS_ERR, r->qp);
    shutdown(r->fd, SHUT_WR);
    setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (recv(r->fd, sink, sizeof sink, 0) > 0)
        ;
}

/* Serve one inbound connection until it ends or is refused. */
void sv_respond(struct sv_qp *qp, int fd)
{
    struct reply reply = {.qp = qp, .fd = fd};
    struct sv_counters *count = &sv_device_of(qp)->count;
    struct sv_request request;
    while (next_request(&reply, &request) && wait_until_passing(qp)) {
        bool write = request.opcode == IBV_WR_RDMA_WRITE;
        enum ibv_wc_status status = write ? answer_write(&reply, &request) : answer_read(&reply, &request);
        if (status == IBV_WC_REM_ACCESS_ERR)
            refuse(&reply, status);
        if (status != IBV_WC_SUCCESS)
            return;
        count->rx_wrs++;
        *(write ? &count->rx_bytes : &count->tx_bytes) += request.length;
    }
}
