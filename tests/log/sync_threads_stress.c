/* Drives the threads of _sync_threads.h with a disk that a test controls; exit code 0: all held.
 *
 * A "descriptor" says what its sync does: HANGS waits until the gate is opened, FAILS is EIO, all
 * others succeed. Built with a sanitizer, so that a data race ends the process, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HANGS = 1000, FAILS, WORKS };

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static int gate_is_open;

static int controlled_sync(int descriptor);
#define fdatasync controlled_sync
#include "_sync_threads.h"

#define THREADS_MAX 3
#define QUICK 2000
#define WAITERS 4
#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);   \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static int controlled_sync(int descriptor)
{
    if (descriptor == HANGS) {
        pthread_mutex_lock(&gate_lock);
        while (!gate_is_open)
            pthread_cond_wait(&gate_opened, &gate_lock);
        pthread_mutex_unlock(&gate_lock);
    }
    if (descriptor == FAILS) {
        errno = EIO;
        return -1;
    }
    return 0;
}

static void submit(fpost_pool *pool, int64_t lane, int64_t number, int descriptor)
{
    fpost_sync *work = fpost_sync_work(number, 1);
    CHECK(work);
    work->descriptors[0] = descriptor;
    CHECK(fpost_sync_submit(pool, lane, work) == 0);
}

static fpost_pool *waited_on;

static void *wait_for_many(void *argument)
{
    (void)argument;
    for (int64_t number = 100; number < 100 + QUICK; number += 7) {
        int error = fpost_sync_wait(waited_on, number);
        CHECK(error == FPOST_SYNC_UNKNOWN || error == (number % 5 ? 0 : EIO));
    }
    return NULL;
}

int main(void)
{
    int hanging = 3 * THREADS_MAX, seen = 0, failed = 0, lanes = 0;
    fpost_pool *pool = waited_on = fpost_sync_new(THREADS_MAX);
    CHECK(pool);
    pthread_t waiters[WAITERS];
    for (int i = 0; i < hanging; i++)
        submit(pool, 0, i, HANGS);
    for (int i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&waiters[i], NULL, wait_for_many, NULL) == 0);
    for (int i = 0; i < QUICK; i++)
        submit(pool, 1 + i % 2, 100 + i, (100 + i) % 5 ? WORKS : FAILS);
    for (fpost_lane *lane = pool->lanes; lane; lane = lane->next)
        lanes++; /* which this thread alone adds to */
    CHECK(lanes == 3);
    while (seen < QUICK) { /* although one lane hangs */
        for (fpost_sync *work = fpost_sync_take(pool), *next; work; work = next) {
            next = work->next;
            CHECK(work->number >= 100);
            CHECK(work->error == (work->number % 5 ? 0 : EIO));
            seen++;
            failed += work->error != 0;
            free(work);
        }
        usleep(100);
    }
    CHECK(failed == QUICK / 5);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(waiters[i], NULL);
    for (fpost_lane *lane = pool->lanes; lane; lane = lane->next)
        CHECK(lane->thread_count > 0 && lane->thread_count <= THREADS_MAX);
    pthread_mutex_lock(&gate_lock);
    gate_is_open = 1;
    pthread_cond_broadcast(&gate_opened);
    pthread_mutex_unlock(&gate_lock);
    fpost_sync_stop(pool);
    int64_t sum = 0;
    seen = 0;
    for (fpost_sync *work = fpost_sync_take(pool), *next; work; work = next) {
        next = work->next;
        CHECK(work->number < hanging && work->error == 0);
        seen++;
        sum += work->number;
        free(work);
    }
    CHECK(seen == hanging && sum == hanging * (hanging - 1) / 2); /* each of them once */
    fpost_sync_free(pool);
    return 0;
}
