/* Looks into the requests that the mock engines get, and counts what each was: P's leg or D's leg of one transfer, or
 * something that a real engine would have answered wrongly, slowly or not at all. */
#ifndef PDSERVING_BENCH_JUDGE_H
#define PDSERVING_BENCH_JUDGE_H

#include "http.h"

#define ENGINE_ID "0f6ad1f2-5a1e-4d0c-9b53-6f1f0f8f9a77"

enum role { PREFILL, DECODE, BOOTSTRAP };

/* LEG_TRANSFER: right for its role. LEG_ROOM: SGLang's form. LEG_PLAIN: neither. LEG_BAD: transfer with wrong values. */
enum leg { LEG_TRANSFER, LEG_ROOM, LEG_PLAIN, LEG_BAD, LEGS };

struct verdicts {
    uint64_t legs[2][LEGS];
    uint64_t transfer_sum[2]; /* of the hashes of all transfer ids: equal if P and D saw the same set */
    uint64_t duplicates;      /* transfer ids that came to P twice */
};
extern struct verdicts verdicts;

void judge(const struct bytes *body, enum role role, int bootstrap_port);

/* The value of a quoted key, or NULL; bodies end with a zero byte outside their length. */
const char *value_of(const struct bytes *body, const char *key);
bool starts(const char *value, const char *expected);
long token_limit(const struct bytes *body);

#endif
