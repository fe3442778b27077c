/* A prefill and a decode engine with a Mooncake bootstrap server, as one epoll thread.
 *
 *   mock P_PORT D_PORT BOOTSTRAP_PORT ITL_US
 *
 * It answers what vLLM 0.33 answers to chat completions, at once, or streamed with one token every ITL_US. It also
 * judges every request: did P get the prefill leg and D the decode leg of the same transfer, with the right engine id
 * and bootstrap address? It prints "listening"
 * at the start and, on SIGTERM, its counters as one JSON line. */
#define _GNU_SOURCE
#include "judge.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG_WINDOW = 4096, READ_SIZE = 256 * 1024 };

struct conn {
    int fd;
    enum role role;
    bool closed, queued, writable_wanted;
    struct reader in;
    struct bytes body, out; /* out: what the socket did not take yet, from out_sent on */
    size_t out_sent;
    long tokens_left;       /* of the stream being sent; 0: none */
    uint64_t due;
    char tag[17];
    struct conn *next;      /* in the queue of streams, ordered by due: all have the same interval */
};

static int epoll_fd, bootstrap_port;
static uint64_t interval_ns;
static struct conn *queue_head, **queue_tail = &queue_head;
static volatile sig_atomic_t stopping;
static char read_buffer[READ_SIZE];

static struct {
    uint64_t cancelled, health, queries, other;
} seen;

/* ---- sending ---- */

static void watch_writable(struct conn *c, bool wanted)
{
    struct epoll_event e = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    if (c->writable_wanted != wanted)
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->writable_wanted = wanted;
}

static void flush(struct conn *c)
{
    ssize_t n = send(c->fd, c->out.data + c->out_sent, c->out.len - c->out_sent, MSG_NOSIGNAL);
    if (n > 0)
        c->out_sent += (size_t)n;
    if (c->out_sent == c->out.len)
        c->out.len = c->out_sent = 0;
    watch_writable(c, c->out.len > 0);
}

static void put(struct conn *c, const char *data, size_t n)
{
    bytes_add(&c->out, data, n);
}

static void put_head(struct conn *c, int status, const char *type, size_t length)
{
    char head[256];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d %s\r\ndate: Tue, 01 Dec 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
                     "content-length: %zu\r\ncontent-type: %s\r\n\r\n",
                     status, status == 200 ? "OK" : "Not Found", length, type);
    put(c, head, (size_t)n);
}

static void answer(struct conn *c, int status, const char *type, const char *body)
{
    put_head(c, status, type, strlen(body));
    put(c, body, strlen(body));
    flush(c);
}

/* P's token ids, if asked for: four bytes of prompt a token. */
static void token_ids(struct bytes *out, size_t prompt_bytes)
{
    bytes_add(out, "[1000", 5);
    for (size_t i = 1; i < prompt_bytes / 4; i++)
        bytes_add(out, ",1000", 5);
    bytes_add(out, "]", 1);
}

static void answer_chat(struct conn *c, long tokens)
{
    static struct bytes body;
    char part[1024];
    size_t prompt_tokens = c->body.len / 4;
    body.len = 0;
    int n = snprintf(part, sizeof part,
                     "{\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion\",\"created\":1796083200,\"model\":\"bench\","
                     "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null,"
                     "\"annotations\":null,\"audio\":null,\"function_call\":null,\"tool_calls\":[],\"reasoning\":null},"
                     "\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,\"token_ids\":null}],"
                     "\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":%zu,"
                     "\"total_tokens\":%zu,\"completion_tokens\":%ld,\"prompt_tokens_details\":null},"
                     "\"prompt_logprobs\":null,\"prompt_token_ids\":",
                     c->tag, c->tag, prompt_tokens, prompt_tokens + (size_t)tokens, tokens);
    bytes_add(&body, part, (size_t)n);
    if (starts(value_of(&c->body, "\"return_token_ids\""), "true"))
        token_ids(&body, c->body.len);
    else
        bytes_add(&body, "null", 4);
    bytes_add(&body, ",\"kv_transfer_params\":null}", 27);
    put_head(c, 200, "application/json", body.len);
    put(c, body.data, body.len);
    flush(c);
}

/* ---- streaming ---- */

static void put_event(struct conn *c, const char *delta, const char *finish)
{
    char event[512], size[16];
    int n = snprintf(event, sizeof event,
                     "data: {\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion.chunk\",\"created\":1796083200,"
                     "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{%s},\"logprobs\":null,"
                     "\"finish_reason\":%s}]}\n\n\r\n",
                     c->tag, delta, finish);
    int m = snprintf(size, sizeof size, "%x\r\n", (unsigned)n - 2);
    put(c, size, (size_t)m);
    put(c, event, (size_t)n);
}

static void enqueue(struct conn *c)
{
    c->next = NULL;
    c->queued = true;
    *queue_tail = c;
    queue_tail = &c->next;
}

static void start_stream(struct conn *c, long tokens)
{
    static const char head[] = "HTTP/1.1 200 OK\r\ndate: Tue, 01 Dec 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
                               "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    put(c, head, sizeof head - 1);
    put_event(c, "\"role\":\"assistant\",\"content\":\"\"", "null");
    flush(c);
    c->tokens_left = tokens;
    c->due = now_ns() + interval_ns;
    enqueue(c);
}

/* Each token carries the request's tag and the time of its sending, for the load generator to check and to time. */
static void send_token(struct conn *c)
{
    char delta[64];
    bool last = --c->tokens_left == 0;
    snprintf(delta, sizeof delta, "\"content\":\"%s%016" PRIx64 "\"", c->tag, now_ns());
    put_event(c, delta, last ? "\"length\"" : "null");
    if (last)
        put(c, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", 24);
    flush(c);
}

static void release(struct conn *c)
{
    free(c->body.data);
    free(c->out.data);
    free(c);
}

static void send_due_tokens(void)
{
    uint64_t now = now_ns();
    while (queue_head && queue_head->due <= now) {
        struct conn *c = queue_head;
        queue_head = c->next;
        if (!queue_head)
            queue_tail = &queue_head;
        c->queued = false;
        if (c->closed) {
            release(c);
            continue;
        }
        send_token(c);
        c->due += interval_ns;
        if (c->tokens_left)
            enqueue(c);
    }
}

/* ---- requests ---- */

static void read_tag(struct conn *c)
{
    const char *tag = memmem(c->body.data, c->body.len < TAG_WINDOW ? c->body.len : TAG_WINDOW, "tag-", 4);
    memset(c->tag, '0', 16);
    if (tag && tag + 20 <= c->body.data + c->body.len)
        memcpy(c->tag, tag + 4, 16);
}

static void serve_chat(struct conn *c)
{
    judge(&c->body, c->role, bootstrap_port);
    read_tag(c);
    long tokens = token_limit(&c->body);
    if (starts(value_of(&c->body, "\"stream\""), "true") && c->role == DECODE)
        start_stream(c, tokens);
    else
        answer_chat(c, tokens);
}

static void serve_query(struct conn *c)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"0\":{\"engine_id\":\"" ENGINE_ID "\",\"worker_addr\":{\"0\":{\"0\":\"tcp://127.0.0.1:%d\"}}}}",
             bootstrap_port + 1);
    seen.queries++;
    answer(c, 200, "application/json", body);
}

static bool asks_for(const struct conn *c, const char *request)
{
    return strncmp(c->in.head, request, strlen(request)) == 0;
}

static void serve(struct conn *c)
{
    bytes_add(&c->body, "", 1); /* a terminator for the string functions, outside the length */
    c->body.len--;
    if (c->role == BOOTSTRAP && asks_for(c, "GET /query"))
        serve_query(c);
    else if (c->role != BOOTSTRAP && asks_for(c, "POST /v1/chat/completions"))
        serve_chat(c);
    else if (asks_for(c, "GET /health") && ++seen.health)
        answer(c, 200, "application/json", "");
    else if (asks_for(c, "GET /v1/models"))
        answer(c, 200, "application/json",
               "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1796083200,"
               "\"owned_by\":\"vllm\",\"root\":\"bench\",\"parent\":null,\"max_model_len\":1048576}]}");
    else if (asks_for(c, "GET /version"))
        answer(c, 200, "application/json", "{\"version\":\"0.33.0\"}");
    else if (asks_for(c, "GET /metrics"))
        answer(c, 200, "text/plain; version=0.0.4", "vllm:num_requests_running{model_name=\"bench\"} 0.0\n");
    else if (++seen.other)
        answer(c, 404, "application/json", "{\"detail\":\"Not Found\"}");
    c->body.len = 0;
    reader_reset(&c->in, false);
}

static void on_body(void *owner, const char *data, size_t n)
{
    bytes_add(&((struct conn *)owner)->body, data, n);
}

static void close_conn(struct conn *c)
{
    close(c->fd);
    c->closed = true;
    seen.cancelled += c->tokens_left > 0;
    if (!c->queued)
        release(c);
}

static void on_readable(struct conn *c)
{
    ssize_t n = recv(c->fd, read_buffer, READ_SIZE, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    for (ssize_t used = 0; n > 0 && used < n;) {
        used += (ssize_t)reader_feed(&c->in, read_buffer + used, (size_t)(n - used), on_body, c);
        if (c->in.state == R_BAD)
            n = 0;
        else if (c->in.state == R_DONE)
            serve(c);
    }
    if (n <= 0)
        close_conn(c);
}

/* ---- the loop ---- */

struct listener {
    int fd;
    enum role role;
};

static void accept_all(const struct listener *l)
{
    int fd;
    while ((fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        c->fd = fd;
        c->role = l->role;
        reader_reset(&c->in, false);
        no_delay(fd);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

static void wait_and_serve(struct listener *listeners)
{
    struct epoll_event events[256];
    struct timespec limit = {.tv_sec = 1};
    uint64_t now = now_ns();
    if (queue_head) {
        uint64_t wait = queue_head->due > now ? queue_head->due - now : 0;
        limit = (struct timespec){.tv_sec = (time_t)(wait / 1000000000), .tv_nsec = (long)(wait % 1000000000)};
    }
    int n = epoll_pwait2(epoll_fd, events, 256, &limit, NULL);
    for (int i = 0; i < n; i++) {
        struct listener *l = events[i].data.ptr;
        struct conn *c = events[i].data.ptr;
        if (l >= listeners && l < listeners + 3)
            accept_all(l);
        else if (events[i].events & EPOLLOUT)
            flush(c);
        else
            on_readable(c);
    }
    send_due_tokens();
}

static void print_counters(void)
{
    static const char *roles[] = {"prefill", "decode"};
    printf("{");
    for (int r = 0; r < 2; r++)
        printf("\"%s\":{\"transfer\":%" PRIu64 ",\"room\":%" PRIu64 ",\"plain\":%" PRIu64 ",\"bad\":%" PRIu64 "},",
               roles[r], verdicts.legs[r][LEG_TRANSFER], verdicts.legs[r][LEG_ROOM], verdicts.legs[r][LEG_PLAIN],
               verdicts.legs[r][LEG_BAD]);
    printf("\"same_transfers\":%s,\"duplicates\":%" PRIu64 ",\"cancelled\":%" PRIu64 ",\"health\":%" PRIu64
           ",\"queries\":%" PRIu64 ",\"other\":%" PRIu64 "}\n",
           verdicts.transfer_sum[0] == verdicts.transfer_sum[1] ? "true" : "false", verdicts.duplicates, seen.cancelled,
           seen.health, seen.queries, seen.other);
}

static void stop(int signal)
{
    (void)signal;
    stopping = 1;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: mock P_PORT D_PORT BOOTSTRAP_PORT ITL_US\n"), 2;
    signal(SIGTERM, stop);
    prctl(PR_SET_TIMERSLACK, 1);
    bootstrap_port = atoi(argv[3]);
    interval_ns = strtoull(argv[4], NULL, 10) * 1000;
    epoll_fd = epoll_create1(0);
    struct listener listeners[3];
    for (int i = 0; i < 3; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &listeners[i]};
        listeners[i] = (struct listener){listen_on(atoi(argv[i + 1])), (enum role)i};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listeners[i].fd, &e);
    }
    puts("listening");
    fflush(stdout);
    while (!stopping)
        wait_and_serve(listeners);
    print_counters();
    return 0;
}
