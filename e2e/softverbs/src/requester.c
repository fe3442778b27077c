/*
 * The sending side of a queue pair: one thread, one TCP connection.
 *
 * Requests are pipelined. Answers come back in order, one for a run of writes;
 * a request is complete, and its buffer free, only when its answer is there.
 */
#include "softverbs.h"
#include "wire.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DIAL_PATIENCE_US = 500 * 1000, LONGEST_NAP_NS = 50 * 1000 * 1000, RECEIVE_AT_MOST = 1 << 20, VENDOR_RETRY_EXC = 0x81 };

enum progress { NOTHING, MOVED, BROKEN };

struct stream {
    struct sv_qp *qp;
    struct sv_device *device;
    struct sv_request request;      /* of the work request at qp->sent */
    uint64_t out;                   /* bytes of it sent, header included; 0: not begun */
    struct sv_response response;
    uint64_t in;                    /* bytes of the answer received */
    enum ibv_wc_status pending;     /* local failure of the request at qp->sent, reported when its turn comes */
    enum ibv_wc_status answered;    /* why BROKEN, if not by the loss of the connection */
    bool lost;                      /* the connection was lost, not refused or timed out */
    uint64_t progress_ns;
};

static bool running(const struct sv_qp *qp)
{
    return atomic_load(&qp->halt) == SV_RUN;
}

static bool passes(const struct stream *s)
{
    return atomic_load(&s->device->passes);
}

/* The time a lossy path is given: four times the local ACK timeout for each try. */
static uint64_t retry_budget_ns(const struct sv_qp *qp)
{
    return (4096ull << (qp->attr.timeout & 31)) * 4 * (qp->attr.retry_cnt + 1u);
}

/* ---- connecting ---- */

static int dial(struct sv_qp *qp)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(qp->attr.dest_qp_num >> 8))};
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr = sv_port_of(sv_device_of(qp)).addr};
    struct timeval patience = {.tv_usec = DIAL_PATIENCE_US};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    memcpy(&peer.sin_addr, qp->attr.ah_attr.grh.dgid.raw + 12, sizeof peer.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&local, sizeof local) || connect(fd, (struct sockaddr *)&peer, sizeof peer)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A peer on another GID type is on another network, as far as hardware is concerned. */
static bool greet(struct sv_qp *qp, int fd)
{
    struct sv_port port = sv_port_of(sv_device_of(qp));
    uint32_t gid_type = port.gids[qp->attr.ah_attr.grh.sgid_index % SV_MAX_GIDS].type, verdict = 0;
    struct sv_hello hello = {SV_HELLO_MAGIC, qp->ibv.qp_num, qp->attr.dest_qp_num, gid_type};
    return send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
           recv(fd, &verdict, sizeof verdict, MSG_WAITALL) == sizeof verdict && verdict == SV_ACCEPTED;
}

static bool try_connect(struct sv_qp *qp)
{
    int fd = dial(qp);
    if (fd < 0)
        return false;
    if (!greet(qp, fd)) {
        close(fd);
        return false;
    }
    pthread_mutex_lock(&qp->lock);
    qp->sock = fd;
    pthread_mutex_unlock(&qp->lock);
    return true;
}

/* Hardware retries into a peer that is not ready yet; so does this, for as long. */
static enum ibv_wc_status connect_peer(struct stream *s)
{
    uint64_t deadline = sv_now_ns() + retry_budget_ns(s->qp);
    do {
        if (passes(s) && try_connect(s->qp))
            return IBV_WC_SUCCESS;
        sv_sleep_ns(SV_STALL_NS);
    } while (running(s->qp) && sv_now_ns() < deadline);
    sv_log("%s qp=%u cannot reach peer qp=%u", s->device->ibv.name, s->qp->ibv.qp_num, s->qp->attr.dest_qp_num);
    return IBV_WC_RETRY_EXC_ERR;
}

/* ---- sending ---- */

static bool local_keys_valid(const struct sv_qp *qp, const struct sv_wqe *wqe)
{
    int access = wqe->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    bool valid = true;
    if (wqe->is_inline)
        return true;
    sv_mr_lock();
    for (int i = 0; i < wqe->sge_count && valid; i++)
        valid = sv_mr_find(qp->ibv.pd, wqe->sge[i].lkey, wqe->sge[i].addr, wqe->sge[i].length, access) != NULL;
    sv_mr_unlock();
    return valid;
}

/* The scatter list from byte `skip` on, at most `limit` bytes. */
static int slice(const struct sv_wqe *wqe, uint64_t skip, size_t limit, struct iovec *iov)
{
    int used = 0;
    for (int i = 0; i < wqe->sge_count && limit; i++) {
        uint64_t length = wqe->sge[i].length;
        if (skip >= length) {
            skip -= length;
            continue;
        }
        size_t taken = length - skip < limit ? length - skip : limit;
        iov[used++] = (struct iovec){(char *)(uintptr_t)wqe->sge[i].addr + skip, taken};
        limit -= taken;
        skip = 0;
    }
    return used;
}

static enum ibv_wc_status begin(struct stream *s, const struct sv_wqe *wqe)
{
    int injected = atomic_exchange(&s->device->inject_wc, 0);
    if (injected)
        return (enum ibv_wc_status)injected;
    if (!local_keys_valid(s->qp, wqe))
        return IBV_WC_LOC_PROT_ERR;
    s->request = (struct sv_request){wqe->remote_addr, wqe->rkey, wqe->length, wqe->opcode, 0};
    return IBV_WC_SUCCESS;
}

static ssize_t send_some(struct stream *s, const struct sv_wqe *wqe, uint64_t payload, uint64_t rate)
{
    const uint64_t header = sizeof s->request;
    struct iovec iov[SV_MAX_SGE + 1];
    size_t count = 0;
    if (s->out < header)
        iov[count++] = (struct iovec){(char *)&s->request + s->out, header - s->out};
    if (payload)
        count += (size_t)slice(wqe, s->out > header ? s->out - header : 0, sv_shaper_piece(rate), iov + count);
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    return sendmsg(s->qp->sock, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One non-blocking send of the request at qp->sent. */
static enum progress transmit(struct stream *s)
{
    struct sv_qp *qp = s->qp;
    uint64_t rate = atomic_load(&s->device->bandwidth);
    if (qp->sent == atomic_load(&qp->tail) || s->pending || !passes(s) || sv_shaper_delay_ns(&s->device->tx, rate))
        return NOTHING;
    const struct sv_wqe *wqe = &qp->ring[qp->sent % qp->size];
    if (!s->out && (s->pending = begin(s, wqe)))
        return MOVED;
    uint64_t payload = wqe->opcode == IBV_WR_RDMA_WRITE ? wqe->length : 0;
    ssize_t sent = send_some(s, wqe, payload, rate);
    if (sent < 0 && errno == EFAULT) {
        s->pending = IBV_WC_LOC_PROT_ERR;   /* registered, but unmapped meanwhile */
        return MOVED;
    }
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? NOTHING : BROKEN;
    sv_shaper_charge(&s->device->tx, rate, (uint64_t)sent);
    s->out += (uint64_t)sent;
    if (s->out == sizeof s->request + payload) {
        s->out = 0;
        qp->sent++;
    }
    return MOVED;
}

/* ---- answers ---- */

static void complete(struct stream *s, enum ibv_wc_status status)
{
    struct sv_qp *qp = s->qp;
    struct sv_wqe *wqe = &qp->ring[qp->head % qp->size];
    struct sv_counters *count = &s->device->count;
    bool read = wqe->opcode == IBV_WR_RDMA_READ, report = wqe->signaled || status != IBV_WC_SUCCESS;
    struct ibv_wc wc = {.wr_id = wqe->wr_id, .status = status, .byte_len = wqe->length, .qp_num = qp->ibv.qp_num,
                        .opcode = read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE,
                        .vendor_err = status == IBV_WC_RETRY_EXC_ERR ? VENDOR_RETRY_EXC : 0};
    if (status == IBV_WC_SUCCESS) {
        count->tx_wrs++;
        *(read ? &count->rx_bytes : &count->tx_bytes) += wqe->length;
    } else {
        count->wc_errors++;
    }
    qp->head++;                     /* before the completion is seen: the application may post into the place */
    if (report)
        sv_cq_push((struct sv_cq *)qp->ibv.send_cq, &wc);
}

static ssize_t receive_some(struct stream *s)
{
    const uint64_t header = sizeof s->response;
    struct iovec iov[SV_MAX_SGE + 1] = {{(char *)&s->response + s->in, header - s->in}};
    int count = 1;
    if (s->in >= header)
        count = slice(&s->qp->ring[s->qp->head % s->qp->size], s->in - header, RECEIVE_AT_MOST, iov);
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    return recvmsg(s->qp->sock, &message, MSG_DONTWAIT);
}

static enum progress broken_by(struct stream *s, enum ibv_wc_status status)
{
    s->answered = status;
    return BROKEN;
}

/* One non-blocking receive of the answer for qp->head. */
static enum progress receive(struct stream *s)
{
    ssize_t got = receive_some(s);
    if (got < 0 && errno == EFAULT)
        return broken_by(s, IBV_WC_LOC_PROT_ERR);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR) ? NOTHING : BROKEN;
    s->in += (uint64_t)got;
    if (s->in < sizeof s->response)
        return MOVED;
    if (s->response.status)
        return broken_by(s, (enum ibv_wc_status)s->response.status);
    if (s->in == sizeof s->response + s->response.length) {
        s->in = 0;
        for (uint32_t i = 0; i < s->response.count && s->qp->head != s->qp->sent; i++)
            complete(s, IBV_WC_SUCCESS);
    }
    return MOVED;
}

/* ---- the loop ---- */

/*
 * Sleep until there is something to do; the timeout keeps deadlines and shaping honest.
 * `idle` is raised before the queue is looked at, so a post in between is not missed.
 */
static void wait_for_work(struct stream *s)
{
    struct sv_qp *qp = s->qp;
    atomic_store(&qp->idle, true);
    uint64_t delay = sv_shaper_delay_ns(&s->device->tx, atomic_load(&s->device->bandwidth));
    bool waiting = qp->sent != atomic_load(&qp->tail) && !s->pending;
    short events = (short)(POLLIN | (waiting && !delay ? POLLOUT : 0));
    struct pollfd fds[] = {{qp->wake_fd, POLLIN, 0}, {qp->sock, events, 0}};
    struct timespec nap = {.tv_nsec = waiting && delay && delay < LONGEST_NAP_NS ? (long)delay : LONGEST_NAP_NS};
    eventfd_t ignored;
    ppoll(fds, passes(s) ? 2 : 1, &nap, NULL);
    if (!atomic_exchange(&qp->idle, false))
        (void)!eventfd_read(qp->wake_fd, &ignored);
}

static bool timed_out(struct stream *s)
{
    uint64_t now = sv_now_ns(), rate = atomic_load(&s->device->bandwidth);
    uint64_t limit = passes(s) ? atomic_load(&s->device->ack_timeout_ns) : retry_budget_ns(s->qp);
    if (s->qp->head == s->qp->tail || sv_shaper_delay_ns(&s->device->tx, rate))
        s->progress_ns = now;       /* nothing is owed, or our own limit holds it back */
    return now - s->progress_ns > limit;
}

static enum ibv_wc_status why_broken(struct stream *s)
{
    if (s->answered)
        return s->answered;
    s->lost = true;
    return s->qp->head == s->qp->tail ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
}

/* Run until the queue pair is halted or a request fails, whose status is returned; success: lost while idle. */
static enum ibv_wc_status serve(struct stream *s)
{
    while (running(s->qp)) {
        enum progress sent = transmit(s), got = passes(s) ? receive(s) : NOTHING;
        if (sent == BROKEN || got == BROKEN)
            return why_broken(s);
        if (s->pending && s->qp->head == s->qp->sent)
            return s->pending;
        if (sent == MOVED || got == MOVED)
            s->progress_ns = sv_now_ns();
        else if (timed_out(s))
            return IBV_WC_RETRY_EXC_ERR;
        else
            wait_for_work(s);
    }
    return IBV_WC_WR_FLUSH_ERR;
}

/* Hardware does not know that a peer is gone: it retries into the void for its whole budget. */
static void retry_in_vain(struct sv_qp *qp)
{
    for (uint64_t end = sv_now_ns() + retry_budget_ns(qp); running(qp) && sv_now_ns() < end;)
        sv_sleep_ns(SV_STALL_NS);
}

/* An idle loss leaves the queue pair in order; requests that came in since then need a new connection. */
static bool settle_idle(struct sv_qp *qp)
{
    qp->sent = atomic_load(&qp->head);
    qp->running = qp->head != qp->tail;
    return !qp->running;
}

static void settle_failed(struct stream *s, enum ibv_wc_status status, int halt)
{
    s->qp->running = false;
    if (halt == SV_RUN) {
        sv_log("%s qp=%u error: %s", s->device->ibv.name, s->qp->ibv.qp_num, ibv_wc_status_str(status));
        complete(s, status);
    }
    if (halt != SV_DISCARD)
        sv_qp_enter_error(s->qp);
}

/* Close the connection and settle the queue; false: go on with a new connection. */
static bool settle(struct stream *s, enum ibv_wc_status status)
{
    struct sv_qp *qp = s->qp;
    bool done = true;
    pthread_mutex_lock(&qp->lock);
    int halt = atomic_load(&qp->halt);
    if (qp->sock >= 0)
        close(qp->sock);
    qp->sock = -1;
    if (halt == SV_RUN && status == IBV_WC_SUCCESS)
        done = settle_idle(qp);
    else
        settle_failed(s, status, halt);
    pthread_mutex_unlock(&qp->lock);
    return done;
}

void *sv_requester(void *arg)
{
    struct sv_qp *qp = arg;
    struct stream stream;
    enum ibv_wc_status status;
    do {
        stream = (struct stream){.qp = qp, .device = sv_device_of(qp), .progress_ns = sv_now_ns()};
        status = connect_peer(&stream);
        if (status == IBV_WC_SUCCESS)
            status = serve(&stream);
        if (stream.lost && status != IBV_WC_SUCCESS)
            retry_in_vain(qp);
    } while (!settle(&stream, status));
    return NULL;
}
