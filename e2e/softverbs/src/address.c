/* Which address carries a device's traffic, and the GID table that is made of it. */
#include "config.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wish {
    const char *text;               /* "auto", an interface's name, or an IPv4 literal */
    bool automatic, is_literal;
    struct in_addr literal;
};

static struct in_addr ipv4_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return in.sin_addr;
}

static bool suits(const struct wish *wish, const struct ifaddrs *i)
{
    struct in_addr all = {~0u}, mask = i->ifa_netmask ? ipv4_of(i->ifa_netmask) : all;
    if (wish->automatic)
        return (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
    if (wish->is_literal)
        return ((ipv4_of(i->ifa_addr).s_addr ^ wish->literal.s_addr) & mask.s_addr) == 0;
    return !strcmp(i->ifa_name, wish->text);
}

/* A literal keeps its value also where no interface has it; the interface is then the one of its subnet, if any. */
void sv_address_resolve(const char *text, struct sv_port *port)
{
    struct wish wish = {.text = text};
    struct ifaddrs *list, *i;
    if (text[0] == '$')
        wish.text = getenv(text + 1) ? getenv(text + 1) : "";
    wish.automatic = !strcmp(wish.text, "auto");
    wish.is_literal = inet_pton(AF_INET, wish.text, &wish.literal) == 1;
    port->addr = wish.literal;
    port->ndev[0] = 0;
    if (getifaddrs(&list))
        return;
    for (i = list; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && suits(&wish, i))
            break;
    if (i) {
        port->addr = wish.is_literal ? wish.literal : ipv4_of(i->ifa_addr);
        snprintf(port->ndev, sizeof port->ndev, "%s", i->ifa_name);
    }
    freeifaddrs(list);
    if (wish.automatic && !i)
        sv_address_resolve("lo", port);
}

/* A link-local GID ends in the IPv4 address as well: a peer finds the port by it. */
static union ibv_gid link_gid(struct in_addr addr, int device_index)
{
    union ibv_gid gid = {.raw = {0xfe, 0x80, [8] = 0x02, 0x53, 0x56, (uint8_t)device_index}};
    memcpy(gid.raw + 12, &addr, sizeof addr);
    return gid;
}

static union ibv_gid mapped_gid(struct in_addr addr)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, 0xff}};
    memcpy(gid.raw + 12, &addr, sizeof addr);
    return gid;
}

static uint32_t gid_type(const char *token)
{
    if (!strncmp(token, "v2:", 3))
        return IBV_GID_TYPE_ROCE_V2;
    return strncmp(token, "v1:", 3) ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V1;
}

/* "v2:addr", "v1:link", "ib:fe80::1", "v2:10.9.9.9", or "-" for an empty slot. */
static struct sv_gid parse_gid(const char *token, struct in_addr addr, int device_index)
{
    struct sv_gid gid = {.type = gid_type(token)};
    const char *colon = strchr(token, ':'), *what = colon ? colon + 1 : "";
    struct in_addr v4;
    if (!strcmp(what, "link") && addr.s_addr)
        gid.raw = link_gid(addr, device_index);
    else if (!strcmp(what, "addr") && addr.s_addr)
        gid.raw = mapped_gid(addr);
    else if (inet_pton(AF_INET, what, &v4) == 1)
        gid.raw = mapped_gid(v4);
    else if (inet_pton(AF_INET6, what, gid.raw.raw) != 1 && strcmp(token, "-") != 0)
        fprintf(stderr, "softverbs: gids: \"%s\" is no GID, the slot is empty\n", token);
    return gid;
}

void sv_gids_parse(char *text, struct sv_port *port, int device_index)
{
    char *rest = NULL;
    for (char *token = strtok_r(text, " \t", &rest); token; token = strtok_r(NULL, " \t", &rest))
        if (port->gid_count < SV_MAX_GIDS)
            port->gids[port->gid_count++] = parse_gid(token, port->addr, device_index);
}
