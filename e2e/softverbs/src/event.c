/*
 * Asynchronous events. One that names an object keeps the object alive until
 * it is acknowledged, as the verbs interface promises.
 */
#include "softverbs.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct sv_event {
    struct ibv_async_event event;
    struct sv_event *next;
};

void sv_signal(int fd)
{
    /* It fails only when the counter is full; the reader is awake then anyway. */
    (void)!eventfd_write(fd, 1);
}

static unsigned *unacked_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_ACCESS_ERR:
        return &((struct sv_qp *)event->element.qp)->async_unacked;
    case IBV_EVENT_CQ_ERR:
        return &((struct sv_cq *)event->element.cq)->async_unacked;
    default:
        return NULL;
    }
}

static struct sv_context *context_of(const struct ibv_async_event *event)
{
    bool of_cq = event->event_type == IBV_EVENT_CQ_ERR;
    return (struct sv_context *)(of_cq ? event->element.cq->context : event->element.qp->context);
}

void sv_event_post(struct sv_context *context, enum ibv_event_type type, void *element)
{
    struct sv_event *event = calloc(1, sizeof *event), **end;
    if (!event)
        return;
    event->event.event_type = type;
    if (element)
        event->event.element.qp = element;
    else
        event->event.element.port_num = 1;
    sv_log("%s event %s", context->device->ibv.name, ibv_event_type_str(type));
    pthread_mutex_lock(&context->lock);
    for (end = &context->events; *end; end = &(*end)->next)
        ;
    *end = event;
    pthread_mutex_unlock(&context->lock);
    sv_signal(context->ibv.async_fd);
}

void sv_event_broadcast(struct sv_device *device, enum ibv_event_type type)
{
    pthread_mutex_lock(&device->lock);
    for (struct sv_context *context = device->contexts; context; context = context->next)
        sv_event_post(context, type, NULL);
    pthread_mutex_unlock(&device->lock);
}

static bool take(struct sv_context *context, struct ibv_async_event *out)
{
    pthread_mutex_lock(&context->lock);
    struct sv_event *event = context->events;
    if (event) {
        context->events = event->next;
        *out = event->event;
        if (unacked_of(out))
            ++*unacked_of(out);
    }
    pthread_mutex_unlock(&context->lock);
    free(event);
    return event != NULL;
}

/* A read may find that its event was forgotten meanwhile; then it waits, or fails, for the next. */
EXPORT int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *out)
{
    uint64_t one;
    while (read(ibv->async_fd, &one, sizeof one) == sizeof one)
        if (take((struct sv_context *)ibv, out))
            return 0;
    return -1;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    unsigned *unacked = unacked_of(event);
    if (!unacked)
        return;
    struct sv_context *context = context_of(event);
    pthread_mutex_lock(&context->lock);
    --*unacked;
    pthread_cond_broadcast(&context->acked);
    pthread_mutex_unlock(&context->lock);
}

/* Before an object is freed: drop its unread events, and wait for the read ones to be acknowledged. */
void sv_event_forget(struct sv_context *context, const void *element, const unsigned *unacked)
{
    struct sv_event **link = &context->events;
    pthread_mutex_lock(&context->lock);
    while (*link) {
        struct sv_event *event = *link;
        if (unacked_of(&event->event) && (const void *)event->event.element.qp == element) {
            *link = event->next;
            free(event);
        } else {
            link = &event->next;
        }
    }
    while (*unacked)
        pthread_cond_wait(&context->acked, &context->lock);
    pthread_mutex_unlock(&context->lock);
}

/* When the context closes nobody can post any more. */
void sv_event_drop_all(struct sv_context *context)
{
    while (context->events) {
        struct sv_event *event = context->events;
        context->events = event->next;
        free(event);
    }
}
