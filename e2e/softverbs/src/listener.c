/* TCP listeners of a device, and the queue pair numbers that their ports make. */
#include "softverbs.h"
#include "wire.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512, GREETING_PATIENCE_S = 2 };

struct inbound {
    struct sv_listener *listener;
    int fd;
};

/* ---- an inbound connection: greeting, queue pair, service ---- */

static bool matches(const struct sv_qp *qp, const struct sv_hello *hello)
{
    struct sv_port port = sv_port_of(sv_device_of(qp));
    bool ready = qp->ibv.state == IBV_QPS_RTR || qp->ibv.state == IBV_QPS_RTS;
    return ready && qp->ibv.qp_num == hello->to_qp && qp->attr.dest_qp_num == hello->from_qp && !qp->responders &&
           port.gids[qp->attr.ah_attr.grh.sgid_index % SV_MAX_GIDS].type == hello->gid_type &&
           atomic_load(&sv_device_of(qp)->passes);
}

/* Find and pin the queue pair that the greeting names, if it is connected to the one that sent it. */
static struct sv_qp *attach(struct sv_listener *listener, const struct sv_hello *hello, int fd)
{
    struct sv_qp *qp = NULL, *attached = NULL;
    pthread_mutex_lock(&listener->lock);
    if (hello->magic == SV_HELLO_MAGIC)
        qp = listener->slots[hello->to_qp % SV_QPS_PER_LISTENER];
    if (qp) {
        pthread_mutex_lock(&qp->lock);
        if (matches(qp, hello)) {
            qp->responders++;
            qp->inbound = fd;
            attached = qp;
        }
        pthread_mutex_unlock(&qp->lock);
    }
    pthread_mutex_unlock(&listener->lock);
    return attached;
}

static void detach(struct sv_qp *qp)
{
    pthread_mutex_lock(&qp->lock);
    qp->inbound = -1;
    qp->responders--;
    pthread_cond_broadcast(&qp->changed);
    pthread_mutex_unlock(&qp->lock);
}

static void *serve_inbound(void *arg)
{
    struct inbound inbound = *(struct inbound *)arg;
    struct timeval patience = {.tv_sec = GREETING_PATIENCE_S}, forever = {0};
    struct sv_hello hello;
    struct sv_qp *qp = NULL;
    free(arg);
    setsockopt(inbound.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (recv(inbound.fd, &hello, sizeof hello, MSG_WAITALL) == sizeof hello)
        qp = attach(inbound.listener, &hello, inbound.fd);
    setsockopt(inbound.fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    uint32_t verdict = qp ? SV_ACCEPTED : SV_NOT_READY;
    bool told = send(inbound.fd, &verdict, sizeof verdict, MSG_NOSIGNAL) == sizeof verdict;
    if (qp && told)
        sv_respond(qp, inbound.fd);
    if (qp)
        detach(qp);
    close(inbound.fd);
    return NULL;
}

static void serve_in_thread(struct sv_listener *listener, int fd)
{
    int one = 1;
    pthread_t thread;
    struct inbound *inbound = malloc(sizeof *inbound);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (inbound)
        *inbound = (struct inbound){listener, fd};
    if (!inbound || sv_thread(&thread, serve_inbound, inbound)) {
        free(inbound);
        close(fd);
        return;
    }
    pthread_detach(thread);
}

/* Listeners live as long as the process: a queue pair number stays good for as long as anyone may aim at it. */
static void *accept_loop(void *arg)
{
    struct sv_listener *listener = arg;
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve_in_thread(listener, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            sv_sleep_ns(SV_STALL_NS);
    }
    return NULL;
}

/* ---- numbers ---- */

static int listen_on(struct in_addr address, uint16_t *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = address};
    socklen_t length = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&addr, length) || listen(fd, BACKLOG) || getsockname(fd, (struct sockaddr *)&addr, &length)) {
        close(fd);
        return -1;
    }
    *port = ntohs(addr.sin_port);
    return fd;
}

static struct sv_listener *open_listener(struct sv_device *device)
{
    struct sv_listener *listener = calloc(1, sizeof *listener);
    pthread_t thread;
    if (!listener)
        return NULL;
    listener->device = device;
    pthread_mutex_init(&listener->lock, NULL);
    listener->fd = listen_on(sv_port_of(device).addr, &listener->port);
    if (listener->fd < 0 || sv_thread(&thread, accept_loop, listener)) {
        sv_log("%s cannot listen: %s", device->ibv.name, strerror(errno));
        if (listener->fd >= 0)
            close(listener->fd);
        free(listener);
        return NULL;
    }
    pthread_detach(thread);
    return listener;
}

/* Slots are handed out in turn, so that a number is not reused while a peer may still aim at it. */
static bool take_slot(struct sv_listener *listener, struct sv_qp *qp)
{
    bool taken = false;
    pthread_mutex_lock(&listener->lock);
    for (unsigned i = 0; i < SV_QPS_PER_LISTENER && !taken; i++) {
        unsigned slot = listener->next++ % SV_QPS_PER_LISTENER;
        if (listener->slots[slot])
            continue;
        listener->slots[slot] = qp;
        qp->listener = listener;
        qp->ibv.qp_num = qp->ibv.handle = (uint32_t)listener->port << 8 | slot;
        taken = true;
    }
    pthread_mutex_unlock(&listener->lock);
    return taken;
}

int sv_listener_assign(struct sv_device *device, struct sv_qp *qp)
{
    bool taken = false;
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < SV_MAX_LISTENERS && !taken; i++) {
        if (!device->listeners[i] && !(device->listeners[i] = open_listener(device)))
            break;
        taken = take_slot(device->listeners[i], qp);
    }
    pthread_mutex_unlock(&device->lock);
    return taken ? 0 : ENOMEM;
}

void sv_listener_release(struct sv_qp *qp)
{
    pthread_mutex_lock(&qp->listener->lock);
    qp->listener->slots[qp->ibv.qp_num % SV_QPS_PER_LISTENER] = NULL;
    pthread_mutex_unlock(&qp->listener->lock);
}
