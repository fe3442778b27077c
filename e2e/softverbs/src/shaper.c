/* A rate limit, kept as the time at which the next byte may pass. */
#include "softverbs.h"

enum { PIECE = 1 << 20, SHAPED_PIECE = 1 << 16, LEAST_PIECE = 1024, SLACK_NS = 20 * 1000 * 1000 };

uint64_t sv_shaper_delay_ns(struct sv_shaper *shaper, uint64_t rate)
{
    uint64_t now = sv_now_ns(), free_at = atomic_load(&shaper->free_at_ns);
    return rate && free_at > now ? free_at - now : 0;
}

/* A sleep that ended late may be made up for, by as much traffic as fits the slack. */
void sv_shaper_charge(struct sv_shaper *shaper, uint64_t rate, uint64_t bytes)
{
    if (!rate)
        return;
    uint64_t floor = sv_now_ns() - SLACK_NS, cost = bytes * 1000000000u / rate, old = atomic_load(&shaper->free_at_ns);
    while (!atomic_compare_exchange_weak(&shaper->free_at_ns, &old, (old > floor ? old : floor) + cost))
        ;
}

/* A piece passes before it is paid for, so under a limit it is kept to the slack's worth of traffic. */
size_t sv_shaper_piece(uint64_t rate)
{
    uint64_t fair = rate / (1000000000u / SLACK_NS);
    if (!rate)
        return PIECE;
    return fair < LEAST_PIECE ? LEAST_PIECE : fair < SHAPED_PIECE ? fair : SHAPED_PIECE;
}
