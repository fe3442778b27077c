/*
 * Protection domains and memory regions. A key names its slot of the table and
 * a generation, so that a stale key of a reused slot is refused.
 */
#include "softverbs.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROW_BY = 64 };

struct sv_mr {
    struct ibv_mr ibv;
    uint64_t iova;
    int access;
};

static pthread_rwlock_t mr_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sv_mr **mrs;
static uint32_t mr_slots, mr_generation;
static _Atomic uint64_t pinned;

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    if (pd)
        pd->context = context;
    return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

void sv_mr_lock(void)
{
    pthread_rwlock_rdlock(&mr_lock);
}

void sv_mr_unlock(void)
{
    pthread_rwlock_unlock(&mr_lock);
}

/* The kernel's rule for pinned memory: RLIMIT_MEMLOCK binds a process without CAP_IPC_LOCK. */
static bool may_pin(uint64_t total)
{
    struct rlimit limit;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || total <= limit.rlim_cur)
        return true;
    return !syscall(SYS_capget, &header, caps) && (caps[0].effective >> CAP_IPC_LOCK & 1);
}

/* A free slot of the table, grown if there is none; -1 without memory. Caller holds the lock for writing. */
static int64_t free_slot(void)
{
    for (uint32_t slot = 0; slot < mr_slots; slot++)
        if (!mrs[slot])
            return slot;
    struct sv_mr **grown = realloc(mrs, (mr_slots + GROW_BY) * sizeof *mrs);
    if (!grown)
        return -1;
    mrs = grown;
    memset(mrs + mr_slots, 0, GROW_BY * sizeof *mrs);
    mr_slots += GROW_BY;
    return mr_slots - GROW_BY;
}

static bool insert(struct sv_mr *mr)
{
    pthread_rwlock_wrlock(&mr_lock);
    int64_t slot = free_slot();
    if (slot >= 0) {
        mrs[slot] = mr;
        mr->ibv.handle = (uint32_t)slot;
        mr->ibv.lkey = mr->ibv.rkey = (uint32_t)(slot + 1) << 8 | (++mr_generation & 0xff);
    }
    pthread_rwlock_unlock(&mr_lock);
    return slot >= 0;
}

static struct sv_mr *new_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    struct sv_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return NULL;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    mr->iova = iova;
    mr->access = access;
    if (insert(mr))
        return mr;
    free(mr);
    return NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct sv_device *device = ((struct sv_context *)pd->context)->device;
    struct sv_port port = sv_port_of(device);
    uint64_t total = atomic_fetch_add(&pinned, length) + length;
    bool refused = port.reg_mr_fails || (!port.memlock_ignored && !may_pin(total));
    struct sv_mr *mr = refused ? NULL : new_mr(pd, addr, length, iova, (int)access);
    if (!mr) {
        sv_log("%s reg_mr of %zu bytes refused", device->ibv.name, length);
        atomic_fetch_sub(&pinned, length);
        errno = ENOMEM;
        return NULL;
    }
    device->count.mrs++;
    device->count.mr_bytes += length;
    return &mr->ibv;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct sv_device *device = ((struct sv_context *)ibv->context)->device;
    pthread_rwlock_wrlock(&mr_lock);    /* waits for the copies under way */
    mrs[ibv->handle] = NULL;
    pthread_rwlock_unlock(&mr_lock);
    atomic_fetch_sub(&pinned, ibv->length);
    device->count.mrs--;
    device->count.mr_bytes -= ibv->length;
    free(ibv);
    return 0;
}

/* The memory behind [addr, addr+length) of a key, or NULL where hardware would refuse it. Caller holds the lock. */
void *sv_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t length, int access)
{
    uint32_t slot = (key >> 8) - 1;
    struct sv_mr *mr = slot < mr_slots ? mrs[slot] : NULL;
    if (!mr || mr->ibv.rkey != key || mr->ibv.pd != pd || (mr->access & access) != access)
        return NULL;
    if (addr < mr->iova || length > mr->ibv.length || addr - mr->iova > mr->ibv.length - length)
        return NULL;
    return (char *)mr->ibv.addr + (addr - mr->iova);
}
