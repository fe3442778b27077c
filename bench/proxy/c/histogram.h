/* Log-linear histogram of nanoseconds: 64 buckets an octave, so a quantile is within 1.6 %. */
#ifndef PDSERVING_BENCH_HISTOGRAM_H
#define PDSERVING_BENCH_HISTOGRAM_H

#include <stdint.h>

struct histogram {
    uint64_t count, bucket[64 * 64];
};

static inline unsigned bucket_of(uint64_t v)
{
    if (v < 64)
        return (unsigned)v;
    unsigned shift = 63u - (unsigned)__builtin_clzll(v) - 6u;
    return (shift + 1) * 64 + (unsigned)((v >> shift) - 64);
}

static inline void record(struct histogram *h, uint64_t v)
{
    h->count++;
    h->bucket[bucket_of(v)]++;
}

/* The lower bound of the bucket that holds the quantile, in microseconds; 0 when nothing was recorded. */
static inline double quantile_us(const struct histogram *h, double q)
{
    uint64_t rank = (uint64_t)(q * (double)h->count), seen = 0;
    for (unsigned i = 0; i < 64 * 64; i++) {
        seen += h->bucket[i];
        if (h->bucket[i] && seen > rank)
            return (i < 64 ? (double)i : (double)((64ull + i % 64) << (i / 64 - 1))) / 1e3;
    }
    return 0;
}

#endif
