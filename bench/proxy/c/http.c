#define _GNU_SOURCE
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void reader_reset(struct reader *r, bool response)
{
    r->state = R_HEAD;
    r->response = response;
    r->left = r->head_len = r->line_len = 0;
}

int reader_status(const struct reader *r)
{
    return strncmp(r->head, "HTTP/1.1 ", 9) == 0 ? atoi(r->head + 9) : 0;
}

static enum reader_state body_state(struct reader *r)
{
    const char *length = strcasestr(r->head, "\r\ncontent-length:");
    bool chunked = strcasestr(r->head, "\r\ntransfer-encoding: chunked") != NULL;
    if (length && chunked)
        return R_BAD;
    if (chunked)
        return R_CHUNK_SIZE;
    if (!length)
        return r->response ? R_BAD : R_DONE;
    r->left = strtoul(length + 17, NULL, 10);
    return r->left ? R_LENGTH : R_DONE;
}

/* Returns how many of the n bytes belong to the head. */
static size_t take_head(struct reader *r, const char *data, size_t n)
{
    size_t old = r->head_len, room = HEAD_MAX - old, take = n < room ? n : room;
    size_t from = old > 3 ? old - 3 : 0;
    memcpy(r->head + old, data, take);
    char *end = memmem(r->head + from, old + take - from, "\r\n\r\n", 4);
    if (!end) {
        r->head_len += take;
        if (r->head_len == HEAD_MAX)
            r->state = R_BAD;
        return take;
    }
    r->head_len = (size_t)(end - r->head) + 4;
    r->head[r->head_len] = 0;
    r->state = body_state(r);
    return r->head_len - old;
}

/* Reads up to a line end; returns bytes taken and sets *full when the line is complete. */
static size_t take_line(struct reader *r, const char *data, size_t n, bool *full)
{
    const char *end = memchr(data, '\n', n);
    size_t take = end ? (size_t)(end - data) + 1 : n;
    if (r->line_len + take >= sizeof r->line) {
        r->state = R_BAD;
        return n;
    }
    memcpy(r->line + r->line_len, data, take);
    r->line_len += take;
    *full = end != NULL;
    return take;
}

static size_t take_framing(struct reader *r, const char *data, size_t n)
{
    bool full = false;
    size_t take = take_line(r, data, n, &full);
    if (!full || r->state == R_BAD)
        return take;
    bool empty = r->line_len == 2;
    r->line[r->line_len] = 0;
    r->line_len = 0;
    if (r->state == R_CHUNK_SIZE) {
        r->left = strtoul(r->line, NULL, 16);
        r->state = r->left ? R_CHUNK_DATA : R_TRAILER;
    } else if (r->state == R_CHUNK_END) {
        r->state = empty ? R_CHUNK_SIZE : R_BAD;
    } else if (empty) {
        r->state = R_DONE;
    }
    return take;
}

static size_t take_body(struct reader *r, const char *data, size_t n, body_fn on_body, void *owner)
{
    size_t take = n < r->left ? n : r->left;
    on_body(owner, data, take);
    r->left -= take;
    if (!r->left)
        r->state = r->state == R_LENGTH ? R_DONE : R_CHUNK_END;
    return take;
}

size_t reader_feed(struct reader *r, const char *data, size_t n, body_fn on_body, void *owner)
{
    size_t used = 0;
    while (used < n && r->state < R_DONE) {
        const char *at = data + used;
        size_t rest = n - used;
        if (r->state == R_HEAD)
            used += take_head(r, at, rest);
        else if (r->state == R_LENGTH || r->state == R_CHUNK_DATA)
            used += take_body(r, at, rest, on_body, owner);
        else
            used += take_framing(r, at, rest);
    }
    return used;
}

void bytes_add(struct bytes *b, const char *data, size_t n)
{
    if (b->len + n > b->cap) {
        b->cap = (b->len + n) * 2;
        b->data = realloc(b->data, b->cap);
        if (!b->data)
            die("realloc");
    }
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

void no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int listen_on(int port)
{
    struct sockaddr_in address = loopback(port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096))
        die("listen");
    return fd;
}

int connect_to(int port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        die("connect");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    no_delay(fd);
    return fd;
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void die(const char *what)
{
    perror(what);
    exit(2);
}
