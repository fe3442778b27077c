/*
 * The libc calls that take a path, in front of libc's own: a path that the tree
 * answers for is replaced, everything else passes through untouched.
 */
#undef _FORTIFY_SOURCE
#include "softverbs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* ISO C knows no way from an object pointer to a function pointer; POSIX promises that the bytes are the same. */
static void next_function(_Atomic(void *) *known, const char *name, void *function)
{
    void *symbol = atomic_load(known);
    if (!symbol) {
        symbol = dlsym(RTLD_NEXT, name);
        atomic_store(known, symbol);
    }
    memcpy(function, &symbol, sizeof symbol);
}

#define NEXT(type, name, parameters) \
    static _Atomic(void *) known; \
    type (*next) parameters; \
    char buffer[PATH_MAX]; \
    next_function(&known, #name, &next); \
    path = sv_tree_redirect(path, buffer)

#define HOOK(type, name, parameters, ...) \
    EXPORT type name parameters; \
    type name parameters { NEXT(type, name, parameters); return next(__VA_ARGS__); }

static mode_t mode_of(int flags, va_list arguments)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define HOOK_OPEN(name) \
    EXPORT int name(const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        NEXT(int, name, (const char *, int, ...)); \
        return next(path, flags, mode); \
    }

#define HOOK_OPENAT(name) \
    EXPORT int name(int fd, const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        NEXT(int, name, (int, const char *, int, ...)); \
        return next(fd, path, flags, mode); \
    }

HOOK_OPEN(open)
HOOK_OPEN(open64)
HOOK_OPENAT(openat)
HOOK_OPENAT(openat64)
HOOK(int, __open_2, (const char *path, int flags), path, flags)
HOOK(int, __open64_2, (const char *path, int flags), path, flags)
HOOK(FILE *, fopen, (const char *path, const char *mode), path, mode)
HOOK(FILE *, fopen64, (const char *path, const char *mode), path, mode)
HOOK(DIR *, opendir, (const char *path), path)
HOOK(int, access, (const char *path, int mode), path, mode)
HOOK(int, faccessat, (int fd, const char *path, int mode, int flags), fd, path, mode, flags)
HOOK(int, stat, (const char *path, struct stat *st), path, st)
HOOK(int, stat64, (const char *path, struct stat64 *st), path, st)
HOOK(int, lstat, (const char *path, struct stat *st), path, st)
HOOK(int, lstat64, (const char *path, struct stat64 *st), path, st)
HOOK(int, __xstat, (int version, const char *path, struct stat *st), version, path, st)
HOOK(int, __xstat64, (int version, const char *path, struct stat64 *st), version, path, st)
HOOK(int, __lxstat, (int version, const char *path, struct stat *st), version, path, st)
HOOK(int, __lxstat64, (int version, const char *path, struct stat64 *st), version, path, st)
HOOK(int, fstatat, (int fd, const char *path, struct stat *st, int flags), fd, path, st, flags)
HOOK(int, fstatat64, (int fd, const char *path, struct stat64 *st, int flags), fd, path, st, flags)
HOOK(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st), fd, path, flags, mask, st)
HOOK(ssize_t, readlink, (const char *path, char *out, size_t size), path, out, size)
HOOK(ssize_t, readlinkat, (int fd, const char *path, char *out, size_t size), fd, path, out, size)
HOOK(ssize_t, getxattr, (const char *path, const char *name, void *out, size_t size), path, name, out, size)
HOOK(ssize_t, lgetxattr, (const char *path, const char *name, void *out, size_t size), path, name, out, size)

/* A resolved path must name the world that the caller asked about, not the tree. */
EXPORT char *realpath(const char *path, char *out)
{
    const char *asked = path;
    NEXT(char *, realpath, (const char *, char *));
    char *resolved = next(path, out);
    size_t length = strlen(sv_tree_root());
    if (resolved && path != asked && !strncmp(resolved, sv_tree_root(), length))
        memmove(resolved, resolved + length, strlen(resolved + length) + 1);
    return resolved;
}

EXPORT char *__realpath_chk(const char *path, char *out, size_t size);
char *__realpath_chk(const char *path, char *out, size_t size)
{
    (void)size;
    return realpath(path, out);
}
