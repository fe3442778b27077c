#define _GNU_SOURCE
#include "judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4096, REMEMBERED = 1 << 16 };

struct verdicts verdicts;
static uint64_t remembered[REMEMBERED];

/* Finds a quoted key and returns its value. Only the ends of a body are searched: what routers add stands there, and
 * searching a megabyte of prompt would make the mock the limit. A key that is elsewhere makes the run invalid. */
const char *value_of(const struct bytes *b, const char *key)
{
    size_t window = b->len < WINDOW ? b->len : WINDOW, key_len = strlen(key);
    const char *at = memmem(b->data + b->len - window, window, key, key_len);
    if (!at)
        at = memmem(b->data, window, key, key_len);
    return at ? at + key_len + strspn(at + key_len, " :") : NULL;
}

bool starts(const char *value, const char *expected)
{
    return value && strncmp(value, expected, strlen(expected)) == 0;
}

/* max_completion_tokens wins over the older max_tokens, as in vLLM. */
long token_limit(const struct bytes *b)
{
    const char *limit = value_of(b, "\"max_completion_tokens\"");
    if (!limit || starts(limit, "null"))
        limit = value_of(b, "\"max_tokens\"");
    return limit ? atol(limit) : 16;
}

static uint64_t hash_string(const char *quoted)
{
    uint64_t h = 14695981039346656037ull;
    for (const char *c = quoted + 1; *c && *c != '"'; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211ull;
    return h;
}

/* Equal sums at the end mean that P and D saw the same set of transfer ids; a repeated id is caught at P. */
static void count_transfer(enum role role, const char *transfer_id)
{
    uint64_t h = hash_string(transfer_id), *slot = &remembered[h % REMEMBERED];
    verdicts.transfer_sum[role] += h;
    if (role != PREFILL)
        return;
    verdicts.duplicates += *slot == h;
    *slot = h;
}

static enum leg leg_of(const struct bytes *b, enum role role, int bootstrap_port)
{
    bool prefill = role == PREFILL;
    if (!value_of(b, "\"kv_transfer_params\""))
        return value_of(b, "\"bootstrap_room\"") ? LEG_ROOM : LEG_PLAIN;
    const char *id = value_of(b, "\"transfer_id\"");
    if (!starts(id, "\"") || !starts(value_of(b, "\"do_remote_decode\""), prefill ? "true" : "false") ||
        !starts(value_of(b, "\"do_remote_prefill\""), prefill ? "false" : "true"))
        return LEG_BAD;
    count_transfer(role, id);
    if (prefill)
        return token_limit(b) == 1 ? LEG_TRANSFER : LEG_BAD;
    char address[64];
    snprintf(address, sizeof address, "\"http://127.0.0.1:%d\"", bootstrap_port);
    bool known = starts(value_of(b, "\"remote_engine_id\""), "\"" ENGINE_ID "\"") &&
                 starts(value_of(b, "\"remote_bootstrap_addr\""), address);
    return known ? LEG_TRANSFER : LEG_BAD;
}

void judge(const struct bytes *body, enum role role, int bootstrap_port)
{
    enum leg leg = leg_of(body, role, bootstrap_port);
    if (leg == LEG_BAD && verdicts.legs[role][LEG_BAD] == 0)
        fprintf(stderr, "mock: bad %s leg: %.1500s\n", role == PREFILL ? "prefill" : "decode", body->data);
    verdicts.legs[role][leg]++;
}
