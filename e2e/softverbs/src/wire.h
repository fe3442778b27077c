/*
 * What travels on the TCP connection of a sending queue pair.
 *
 * Both ends are the same build on the same architecture, so structures go as
 * they lie in memory. A 24-bit queue pair number is <TCP port><slot>: with the
 * IPv4 address in the last four bytes of the peer's GID, what peers announce to
 * each other anyway is all that is needed to connect.
 */
#ifndef SOFTVERBS_WIRE_H
#define SOFTVERBS_WIRE_H

#include <stdint.h>

enum { SV_HELLO_MAGIC = 0x53565232, SV_STALL_NS = 10 * 1000 * 1000 };
enum sv_verdict { SV_ACCEPTED = 1, SV_NOT_READY };

struct sv_hello {
    uint32_t magic, from_qp, to_qp, gid_type;
};

struct sv_request {
    uint64_t addr;
    uint32_t rkey, length, opcode, reserved;
};

struct sv_response {
    uint32_t status, count;         /* enum ibv_wc_status, of that many requests in order */
    uint32_t length, reserved;      /* bytes that follow, for one read */
};

#endif
