/* Time, threads, and a log for those who ask for it. */
#include "softverbs.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000 * 1000 * 1000 };

uint64_t sv_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void sv_sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)}, NULL);
}

/* The application's signals are for the application's threads. */
int sv_thread(pthread_t *thread, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

void sv_log(const char *format, ...)
{
    char text[256];
    va_list args;
    if (!getenv("SOFTVERBS_DEBUG"))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "softverbs pid=%d %s\n", getpid(), text);
}
