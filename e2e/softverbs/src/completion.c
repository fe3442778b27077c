/* Completion queues, and the channels that wake their readers. */
#include "softverbs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EMPTY_POLL_NS = 20 * 1000 };

struct sv_channel {
    struct ibv_comp_channel ibv;
    pthread_mutex_t lock;           /* guards the list, refcnt, and its queues' notified counts */
    struct sv_cq *cqs;
};

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct sv_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->ibv.context = context;
    channel->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    pthread_mutex_init(&channel->lock, NULL);
    return &channel->ibv;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    if (ibv->refcnt)
        return EBUSY;
    close(ibv->fd);
    free(ibv);
    return 0;
}

static void join_channel(struct sv_channel *channel, struct sv_cq *cq)
{
    pthread_mutex_lock(&channel->lock);
    channel->ibv.refcnt++;
    cq->next = channel->cqs;
    channel->cqs = cq;
    pthread_mutex_unlock(&channel->lock);
}

static void leave_channel(struct sv_channel *channel, struct sv_cq *cq)
{
    struct sv_cq **link;
    pthread_mutex_lock(&channel->lock);
    for (link = &channel->cqs; *link != cq; link = &(*link)->next)
        ;
    *link = cq->next;
    channel->ibv.refcnt--;
    pthread_mutex_unlock(&channel->lock);
    pthread_mutex_lock(&cq->ibv.mutex);
    while (cq->unacked)
        pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
    pthread_mutex_unlock(&cq->ibv.mutex);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    if (cqe < 1 || cqe > SV_MAX_CQE || vector < 0 || vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct sv_cq *cq = calloc(1, sizeof *cq);
    struct ibv_wc *ring = calloc((size_t)cqe, sizeof *ring);
    if (!cq || !ring) {
        free(cq);
        free(ring);
        return NULL;
    }
    cq->ibv.context = context;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = cqe;
    cq->ring = ring;
    cq->size = (unsigned)cqe;
    pthread_mutex_init(&cq->lock, NULL);
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    if (channel)
        join_channel((struct sv_channel *)channel, cq);
    return &cq->ibv;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
    struct sv_cq *cq = (struct sv_cq *)ibv;
    if (ibv->channel)
        leave_channel((struct sv_channel *)ibv->channel, cq);
    sv_event_forget((struct sv_context *)ibv->context, cq, &cq->async_unacked);
    free(cq->ring);
    free(cq);
    return 0;
}

static void notify(struct sv_cq *cq)
{
    struct sv_channel *channel = (struct sv_channel *)cq->ibv.channel;
    if (!channel)
        return;
    pthread_mutex_lock(&channel->lock);
    cq->notified++;
    pthread_mutex_unlock(&channel->lock);
    sv_signal(channel->ibv.fd);
}

void sv_cq_push(struct sv_cq *cq, const struct ibv_wc *wc)
{
    pthread_mutex_lock(&cq->lock);
    bool overflow = cq->count == cq->size, fire = cq->armed;
    if (!overflow) {
        cq->ring[(cq->head + cq->count) % cq->size] = *wc;
        atomic_fetch_add(&cq->count, 1);
        cq->armed = false;
    }
    pthread_mutex_unlock(&cq->lock);
    if (overflow)
        sv_event_post((struct sv_context *)cq->ibv.context, IBV_EVENT_CQ_ERR, cq);
    else if (fire)
        notify(cq);
}

/* Completions of a reset or destroyed queue pair must not be polled any more. */
void sv_cq_purge(struct sv_cq *cq, uint32_t qp_num)
{
    unsigned kept = 0;
    pthread_mutex_lock(&cq->lock);
    for (unsigned i = 0; i < cq->count; i++) {
        struct ibv_wc wc = cq->ring[(cq->head + i) % cq->size];
        if (wc.qp_num != qp_num)
            cq->ring[(cq->head + kept++) % cq->size] = wc;
    }
    atomic_store(&cq->count, kept);
    pthread_mutex_unlock(&cq->lock);
}

/* Clients spin here; an empty poll sleeps, so that the threads that move data get the processors of small machines. */
int sv_poll_cq(struct ibv_cq *ibv, int entries, struct ibv_wc *wc)
{
    struct sv_cq *cq = (struct sv_cq *)ibv;
    int taken = 0;
    if (!atomic_load(&cq->count)) {
        sv_sleep_ns(EMPTY_POLL_NS);
        return 0;
    }
    pthread_mutex_lock(&cq->lock);
    for (; taken < entries && cq->count; taken++) {
        wc[taken] = cq->ring[cq->head];
        cq->head = (cq->head + 1) % cq->size;
        atomic_fetch_sub(&cq->count, 1);
    }
    pthread_mutex_unlock(&cq->lock);
    return taken;
}

int sv_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    struct sv_cq *cq = (struct sv_cq *)ibv;
    (void)solicited_only;
    pthread_mutex_lock(&cq->lock);
    cq->armed = true;
    pthread_mutex_unlock(&cq->lock);
    return 0;
}

static struct sv_cq *take_notified(struct sv_channel *channel)
{
    struct sv_cq *cq;
    pthread_mutex_lock(&channel->lock);
    for (cq = channel->cqs; cq && !cq->notified; cq = cq->next)
        ;
    if (cq) {
        cq->notified--;
        pthread_mutex_lock(&cq->ibv.mutex);
        cq->unacked++;
        pthread_mutex_unlock(&cq->ibv.mutex);
    }
    pthread_mutex_unlock(&channel->lock);
    return cq;
}

/* A destroyed queue takes its notifications along; then the read was for nothing. */
EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out, void **cq_context)
{
    uint64_t one;
    while (read(ibv->fd, &one, sizeof one) == sizeof one) {
        struct sv_cq *cq = take_notified((struct sv_channel *)ibv);
        if (!cq)
            continue;
        *out = &cq->ibv;
        *cq_context = cq->ibv.cq_context;
        return 0;
    }
    return -1;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned count)
{
    struct sv_cq *cq = (struct sv_cq *)ibv;
    pthread_mutex_lock(&ibv->mutex);
    cq->unacked -= count;
    pthread_cond_broadcast(&ibv->cond);
    pthread_mutex_unlock(&ibv->mutex);
}
