/* The load generator: one epoll thread, one outstanding request a connection, every answer checked.
 *
 *   load PORT key=value...
 *     connections=N   connections, opened and started evenly over ramp_ms
 *     requests=N      stop after N requests (0: no limit)      seconds=S   or after S seconds
 *     rate=R          open loop: R requests a second, timed from their due time (0: closed loop)
 *     bytes=B         size of the request body                 tokens=N    max_tokens
 *     stream=1        ask for a stream and time every token    cancel=1    leave after its first token
 *
 * Prints "open" once every connection has an open stream, and one JSON line at the end. */
#define _GNU_SOURCE
#include "histogram.h"
#include "http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024, EVENT_MAX = 1024, PATIENCE_S = 30 };
#define SECOND 1000000000ull

struct conn {
    int fd;               /* -1: not connected */
    bool busy, done, first_token, writable_wanted;
    struct reader in;
    size_t sent, event_len;
    long tokens;
    uint64_t started;
    char tag[17], event[EVENT_MAX + 1];
};

static struct {
    long port, connections, requests, seconds, rate, bytes, tokens, stream, cancel, ramp_ms;
} option = {.connections = 1, .bytes = 300, .tokens = 16};

static struct {
    uint64_t issued, finished, cancelled, tokens, errors, streams_open;
    struct histogram latency, delay;
    char first_error[256];
} result;

static int epoll_fd;
static struct conn *conns;
static long *idle, idle_count, started_count; /* idle: stack of connections free for the open loop */
static uint64_t start_ns, number;
static char *request, *request_tag, read_buffer[READ_SIZE];
static size_t request_len;

/* ---- the request: built once, only its tag changes ---- */

static void build_request(void)
{
    char head[512], front[256];
    int front_len = snprintf(front, sizeof front,
                             "{\"model\":\"bench\",%s\"max_tokens\":%ld,\"temperature\":0.7,\"messages\":"
                             "[{\"role\":\"user\",\"content\":\"tag-0000000000000000 ",
                             option.stream ? "\"stream\":true," : "", option.tokens);
    long fill = option.bytes - front_len - 4;
    if (fill < 0)
        fill = 0;
    int head_len = snprintf(head, sizeof head,
                            "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%ld\r\nAccept: application/json\r\n"
                            "Content-Type: application/json\r\nUser-Agent: OpenAI/Python 2.8.0\r\n"
                            "Authorization: Bearer none\r\nContent-Length: %ld\r\n\r\n",
                            option.port, front_len + fill + 4);
    request_len = (size_t)(head_len + front_len + fill + 4);
    request = malloc(request_len + 1);
    memcpy(request, head, (size_t)head_len);
    memcpy(request + head_len, front, (size_t)front_len);
    static const char words[] = "the quick brown fox jumps over the lazy dog and ";
    for (long i = 0; i < fill; i++)
        request[head_len + front_len + i] = words[(size_t)i % (sizeof words - 1)];
    memcpy(request + request_len - 4, "\"}]}", 4);
    request_tag = strstr(request, "tag-") + 4;
}

/* ---- one request ---- */

static void watch(struct conn *c, int operation, bool writable)
{
    struct epoll_event e = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, operation, c->fd, &e);
    c->writable_wanted = writable;
}

static void disconnect(struct conn *c)
{
    close(c->fd);
    c->fd = -1;
}

static void send_more(struct conn *c)
{
    memcpy(request_tag, c->tag, 16);
    ssize_t n = send(c->fd, request + c->sent, request_len - c->sent, MSG_NOSIGNAL);
    if (n > 0)
        c->sent += (size_t)n;
    bool more = c->sent < request_len;
    if (more != c->writable_wanted)
        watch(c, EPOLL_CTL_MOD, more);
}

static void start_request(struct conn *c, uint64_t due)
{
    if (c->fd < 0) {
        c->fd = connect_to((int)option.port);
        watch(c, EPOLL_CTL_ADD, false);
    }
    snprintf(c->tag, sizeof c->tag, "%016" PRIx64, ++number);
    reader_reset(&c->in, true);
    c->busy = true;
    c->done = c->first_token = false;
    c->sent = c->event_len = 0;
    c->tokens = 0;
    c->started = due;
    result.issued++;
    send_more(c);
}

static bool may_start(void)
{
    bool enough = option.requests && result.issued >= (uint64_t)option.requests;
    return !enough && (!option.seconds || now_ns() < start_ns + (uint64_t)option.seconds * SECOND);
}

static void next_request(struct conn *c)
{
    c->busy = false;
    if (option.rate)
        idle[idle_count++] = c - conns;
    else if (may_start())
        start_request(c, now_ns());
}

static void fail(struct conn *c, const char *why)
{
    if (!result.errors++)
        snprintf(result.first_error, sizeof result.first_error, "%s: status %d after %ld tokens", why,
                 reader_status(&c->in), c->tokens);
    if (result.errors < 4)
        fprintf(stderr, "load: %s; head %.200s; last event %.*s\n", why, c->in.head, (int)c->event_len, c->event);
    disconnect(c);
    if (c->busy)
        next_request(c);
}

/* ---- its answer ---- */

static void check_event(struct conn *c, uint64_t now)
{
    c->event[c->event_len] = 0;
    if (strstr(c->event, "data: [DONE]")) {
        c->done = true;
        return;
    }
    const char *content = strstr(c->event, "\"content\":\"");
    if (!content || content[11] == '"' || strncmp(content + 11, c->tag, 16) != 0)
        return; /* the role chunk, or somebody else's token: it is then missing from the count */
    record(&result.delay, now - strtoull(content + 27, NULL, 16));
    c->tokens++;
    result.tokens++;
    if (c->first_token)
        return;
    c->first_token = true;
    if (++result.streams_open == (uint64_t)option.connections)
        puts("open"), fflush(stdout);
}

/* A plain answer is collected as one event, a stream as one event a blank line. */
static void on_body(void *owner, const char *data, size_t n)
{
    struct conn *c = owner;
    uint64_t now = now_ns();
    for (size_t i = 0; i < n; i++) {
        if (c->event_len < EVENT_MAX)
            c->event[c->event_len++] = data[i];
        if (option.stream && data[i] == '\n' && c->event_len > 1 && c->event[c->event_len - 2] == '\n') {
            check_event(c, now);
            c->event_len = 0;
        }
    }
}

static bool answer_is_right(struct conn *c)
{
    if (reader_status(&c->in) != 200)
        return false;
    if (option.stream)
        return c->done && c->tokens == option.tokens;
    c->event[c->event_len] = 0;
    const char *content = strstr(c->event, "\"content\":\"");
    return content && strncmp(content + 11, c->tag, 16) == 0 && strstr(c->event, "\"finish_reason\":\"length\"");
}

static void finish(struct conn *c)
{
    if (!answer_is_right(c)) {
        fail(c, "wrong answer");
        return;
    }
    result.finished++;
    record(&result.latency, now_ns() - c->started);
    next_request(c);
}

static void cancel(struct conn *c)
{
    result.cancelled++;
    disconnect(c);
    next_request(c);
}

static void on_readable(struct conn *c)
{
    ssize_t n = recv(c->fd, read_buffer, READ_SIZE, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 && !c->busy) {
        disconnect(c); /* the server's keep-alive limit: no request was hurt */
        return;
    }
    size_t used = n > 0 ? reader_feed(&c->in, read_buffer, (size_t)n, on_body, c) : 0;
    if (n <= 0 || c->in.state == R_BAD || used < (size_t)n)
        fail(c, n <= 0 ? "connection closed" : "malformed answer");
    else if (c->in.state == R_DONE)
        finish(c);
    else if (option.cancel && c->first_token)
        cancel(c);
}

/* ---- the loop ---- */

/* Starts what is due and returns when the next start is due (UINT64_MAX: nothing more to start). */
static uint64_t start_due(uint64_t now)
{
    uint64_t gap = option.rate ? SECOND / (uint64_t)option.rate
                               : (uint64_t)option.ramp_ms * 1000000 / (uint64_t)option.connections;
    while (may_start() && (option.rate || started_count < option.connections)) {
        uint64_t due = start_ns + gap * (uint64_t)started_count;
        if (due > now)
            return due;
        if (option.rate && !idle_count)
            return now + 1000000; /* every connection is busy: the request waits, its latency grows */
        start_request(option.rate ? &conns[idle[--idle_count]] : &conns[started_count], due);
        started_count++;
    }
    return UINT64_MAX;
}

static bool all_answered(void)
{
    return result.finished + result.cancelled + result.errors == result.issued;
}

/* Returns false when there is nothing left to start or to wait for. */
static bool wait_and_serve(void)
{
    struct epoll_event events[256];
    uint64_t now = now_ns(), due = start_due(now), wait = due == UINT64_MAX ? SECOND : due > now ? due - now : 0;
    struct timespec limit = {.tv_sec = (time_t)(wait / SECOND), .tv_nsec = (long)(wait % SECOND)};
    if (due == UINT64_MAX && all_answered())
        return false;
    int n = epoll_pwait2(epoll_fd, events, 256, &limit, NULL);
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT)
            send_more(c);
        if (events[i].events & ~(uint32_t)EPOLLOUT)
            on_readable(c);
    }
    return true;
}

static void set_option(const char *argument)
{
    static const struct { const char *name; long *value; } names[] = {
        {"connections=", &option.connections}, {"requests=", &option.requests}, {"seconds=", &option.seconds},
        {"rate=", &option.rate}, {"bytes=", &option.bytes}, {"tokens=", &option.tokens},
        {"stream=", &option.stream}, {"cancel=", &option.cancel}, {"ramp_ms=", &option.ramp_ms}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(argument, names[i].name, strlen(names[i].name)) == 0) {
            *names[i].value = atol(argument + strlen(names[i].name));
            return;
        }
    fprintf(stderr, "load: unknown option %s\n", argument);
    exit(2);
}

static void print_result(uint64_t unanswered)
{
    printf("{\"requests\":%" PRIu64 ",\"cancelled\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"unanswered\":%" PRIu64
           ",\"first_error\":\"%s\",\"seconds\":%.6f,\"tokens\":%" PRIu64,
           result.finished, result.cancelled, result.errors, unanswered, result.first_error,
           (double)(now_ns() - start_ns) / 1e9, result.tokens);
    printf(",\"latency_us\":{\"p50\":%.1f,\"p99\":%.1f},\"delay_us\":{\"p50\":%.1f,\"p99\":%.1f}}\n",
           quantile_us(&result.latency, 0.5), quantile_us(&result.latency, 0.99), quantile_us(&result.delay, 0.5),
           quantile_us(&result.delay, 0.99));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: load PORT key=value...\n"), 2;
    option.port = atol(argv[1]);
    for (int i = 2; i < argc; i++)
        set_option(argv[i]);
    prctl(PR_SET_TIMERSLACK, 1);
    build_request();
    epoll_fd = epoll_create1(0);
    conns = calloc((size_t)option.connections, sizeof *conns);
    idle = calloc((size_t)option.connections, sizeof *idle);
    for (long i = 0; i < option.connections; i++) {
        conns[i].fd = -1;
        idle[idle_count++] = i;
    }
    start_ns = now_ns();
    uint64_t last_progress = start_ns, progress = 0;
    while (wait_and_serve() && now_ns() - last_progress < PATIENCE_S * SECOND) {
        uint64_t now_done = result.finished + result.cancelled + result.errors + result.tokens;
        if (now_done != progress)
            progress = now_done, last_progress = now_ns();
    }
    print_result(result.issued - result.finished - result.cancelled - result.errors);
    return 0;
}
