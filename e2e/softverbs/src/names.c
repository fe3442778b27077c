/* Values of the verbs interface in words; those of libibverbs, so that logs read the same. */
#include "softverbs.h"

#define NAMED(names, value) ((size_t)(value) < sizeof names / sizeof *names ? names[value] : "unknown")

EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
    return NAMED(names, state);
}

EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
    return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const names[] = {
        "success", "local length error", "local QP operation error", "local EE context operation error",
        "local protection error", "Work Request Flushed Error", "memory management operation error",
        "bad response error", "local access error", "remote invalid request error", "remote access error",
        "remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
        "local RDD violation error", "remote invalid RD request", "aborted error", "invalid EE context number",
        "invalid EE context state", "fatal error", "response timeout error", "general error"};
    return NAMED(names, status);
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    static const char *const names[] = {
        "CQ error", "local work queue catastrophic error", "invalid request local work queue error",
        "local access violation work queue error", "communication established", "send queue drained", "path migrated",
        "path migration request error", "local catastrophic error", "port active", "port error", "LID change",
        "P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached",
        "client reregistration", "GID table change", "WQ fatal"};
    return NAMED(names, event);
}
