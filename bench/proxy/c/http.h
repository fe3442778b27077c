/* Incremental reader of one HTTP/1.1 message, shared by the mock engines and the load generator.
 *
 * Feed it whatever arrived; it hands body bytes (chunk framing removed) to a callback and stops at the end of the
 * message, so that a keep-alive connection simply starts the next one. It accepts what engines and proxies send and
 * calls everything else R_BAD: a benchmark must not forgive. */
#ifndef PDSERVING_BENCH_HTTP_H
#define PDSERVING_BENCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_MAX = 8192 };

enum reader_state { R_HEAD, R_LENGTH, R_CHUNK_SIZE, R_CHUNK_DATA, R_CHUNK_END, R_TRAILER, R_DONE, R_BAD };

struct reader {
    enum reader_state state;
    bool response;   /* a response must announce its length; a request without one has no body */
    size_t left;     /* bytes of the body or of this chunk still to come */
    size_t head_len, line_len;
    char line[64];   /* the chunk-size line being read */
    char head[HEAD_MAX + 1];
};

typedef void (*body_fn)(void *owner, const char *data, size_t n);

void reader_reset(struct reader *r, bool response);
size_t reader_feed(struct reader *r, const char *data, size_t n, body_fn on_body, void *owner);
int reader_status(const struct reader *r); /* status code of a response */

/* Bytes that grow; never given back, so that large bodies cost page faults once. */
struct bytes {
    char *data;
    size_t len, cap;
};
void bytes_add(struct bytes *b, const char *data, size_t n);

/* Sockets: non-blocking, TCP_NODELAY, loopback only. Failures end the program with a message. */
int listen_on(int port);
int connect_to(int port);
void no_delay(int fd);

uint64_t now_ns(void); /* CLOCK_MONOTONIC: comparable between the two programs */
_Noreturn void die(const char *what);

#endif
