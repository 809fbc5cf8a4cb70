/* Threads that sync open files, in lanes: no Python object is touched, no interpreter lock taken.
 *
 * A lane has threads of its own, so what is slow in one lane holds up no other. What comes is given
 * to a thread that idles, to the one that did so last, whose caches are warm; if none does, another
 * is started, up to `threads_max`; beyond that it waits in the lane's queue, which is empty while a
 * thread idles. Each thread has a condition of its own: with one for all of a lane, glibc now and
 * then has the event loop, which signals, wait until threads that were woken before have run.
 *
 * One list has what is done in any lane; `told` says that the event loop has been woken and has not
 * taken the list yet, so that many syncs that end together wake it once.
 *
 * Everything below is under `lock`, which is held for a few instructions at a time. A sync that
 * has begun, or waits in a queue, is in `pending`; `finished` is signalled with each that ends
 * while a thread waits for one. A process that was forked has none of the threads, and a lock that
 * may be held for ever: it touches neither (`fpost_sync_is_ours`).
 *
 * Threads take no signals: those are for the interpreter's main thread.
 */
#ifndef FENCEPOST_SYNC_THREADS_H
#define FENCEPOST_SYNC_THREADS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/eventfd.h>
#endif

#define FPOST_SYNC_STACK_BYTES (256 * 1024)
#define FPOST_SYNC_UNKNOWN (-1)

typedef struct fpost_sync {
    struct fpost_sync *next;             /* in the lane's queue, then in `done` */
    struct fpost_sync *before, *behind;  /* in `pending` */
    int64_t number;
    int64_t took_ns;
    int error; /* errno of the first descriptor that could not be synced; 0: all are */
    int count;
    int descriptors[];
} fpost_sync;

typedef struct fpost_worker {
    struct fpost_lane *lane;
    struct fpost_worker *below; /* among those that idle */
    fpost_sync *given;
    pthread_cond_t woken;
    pthread_t thread;
} fpost_worker;

typedef struct fpost_lane {
    struct fpost_pool *pool;
    struct fpost_lane *next;
    int64_t number;
    fpost_sync *first, *last;
    fpost_worker *idle; /* the one that has idled for the shortest time */
    int thread_count;
    fpost_worker workers[];
} fpost_lane;

typedef struct fpost_pool {
    pthread_mutex_t lock;
    pthread_cond_t finished;
    fpost_lane *lanes;
    fpost_sync pending; /* the head of a ring */
    fpost_sync *done, *done_last;
    int threads_max, waiting, told, stopping;
    int read_end, write_end;
    pid_t process;
} fpost_pool;

static int fpost_sync_descriptor(int descriptor)
{
    int result;
    do {
#ifdef __APPLE__
        result = fcntl(descriptor, F_FULLFSYNC);
#else
        result = fdatasync(descriptor);
#endif
    } while (result == -1 && errno == EINTR);
    return result == -1 ? errno : 0;
}

static int64_t fpost_sync_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Wake the event loop, which takes what is done. A pipe that is full wakes it, too. */
static void fpost_sync_tell(fpost_pool *pool)
{
    const uint64_t one = 1;
    ssize_t written;
    do {
        written = write(pool->write_end, &one, sizeof one);
    } while (written == -1 && errno == EINTR);
}

static void fpost_sync_run(fpost_sync *work)
{
    int64_t began_ns = fpost_sync_now_ns();
    for (int i = 0; i < work->count && !work->error; i++)
        work->error = fpost_sync_descriptor(work->descriptors[i]);
    work->took_ns = fpost_sync_now_ns() - began_ns;
}

/* Under the lock. */
static void fpost_sync_note_done(fpost_pool *pool, fpost_sync *work)
{
    work->before->behind = work->behind;
    work->behind->before = work->before;
    work->next = NULL;
    if (pool->done)
        pool->done_last->next = work;
    else
        pool->done = work;
    pool->done_last = work;
    if (pool->waiting)
        pthread_cond_broadcast(&pool->finished);
}

/* What the thread does next, for which it waits; NULL if it is to end. Under the lock. */
static fpost_sync *fpost_sync_next(fpost_worker *worker)
{
    fpost_lane *lane = worker->lane;
    fpost_sync *work = lane->first;
    if (work) {
        lane->first = work->next;
        return work;
    }
    if (lane->pool->stopping)
        return NULL;
    worker->below = lane->idle;
    lane->idle = worker;
    while (!worker->given && !lane->pool->stopping)
        pthread_cond_wait(&worker->woken, &lane->pool->lock);
    work = worker->given;
    worker->given = NULL;
    return work;
}

static void *fpost_sync_serve(void *argument)
{
    fpost_worker *worker = argument;
    fpost_pool *pool = worker->lane->pool;
    fpost_sync *work;
    pthread_mutex_lock(&pool->lock);
    while ((work = fpost_sync_next(worker))) {
        pthread_mutex_unlock(&pool->lock);
        fpost_sync_run(work);
        pthread_mutex_lock(&pool->lock);
        fpost_sync_note_done(pool, work);
        if (!pool->told) {
            pool->told = 1;
            pthread_mutex_unlock(&pool->lock);
            fpost_sync_tell(pool);
            pthread_mutex_lock(&pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* One more thread for the lane; errno if there can be none. Under the lock. */
static int fpost_sync_start_thread(fpost_lane *lane)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, FPOST_SYNC_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    fpost_worker *worker = &lane->workers[lane->thread_count];
    worker->lane = lane;
    pthread_cond_init(&worker->woken, NULL);
    error = pthread_create(&worker->thread, &attributes, fpost_sync_serve, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error) {
        pthread_cond_destroy(&worker->woken);
        return error;
    }
#ifdef __linux__
    pthread_setname_np(worker->thread, "fencepost-sync");
#endif
    lane->thread_count++;
    return 0;
}

static int fpost_sync_make_ends(int *read_end, int *write_end)
{
#ifdef __linux__
    *read_end = *write_end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *read_end == -1 ? errno : 0;
#else
    int ends[2];
    if (pipe(ends))
        return errno;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    *read_end = ends[0];
    *write_end = ends[1];
    return 0;
#endif
}

/* A pool without threads; NULL with errno set. */
static fpost_pool *fpost_sync_new(int threads_max)
{
    fpost_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    int error = fpost_sync_make_ends(&pool->read_end, &pool->write_end);
    if (error) {
        free(pool);
        errno = error;
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->finished, NULL);
    pool->pending.before = pool->pending.behind = &pool->pending;
    pool->threads_max = threads_max;
    pool->process = getpid();
    return pool;
}

static int fpost_sync_is_ours(const fpost_pool *pool)
{
    return pool->process == getpid();
}

/* The lane, which is made when it is needed first; NULL without memory. Under the lock. */
static fpost_lane *fpost_sync_lane(fpost_pool *pool, int64_t number)
{
    fpost_lane *lane = pool->lanes;
    while (lane && lane->number != number)
        lane = lane->next;
    if (lane)
        return lane;
    lane = calloc(1, sizeof *lane + (size_t)pool->threads_max * sizeof(fpost_worker));
    if (!lane)
        return NULL;
    lane->pool = pool;
    lane->number = number;
    lane->next = pool->lanes;
    pool->lanes = lane;
    return lane;
}

static fpost_sync *fpost_sync_work(int64_t number, int count)
{
    fpost_sync *work = calloc(1, sizeof *work + (size_t)count * sizeof(int));
    if (work) {
        work->number = number;
        work->count = count;
    }
    return work;
}

/* Have it done, and take it over; errno if no thread can do it: it stays the caller's then. */
static int fpost_sync_submit(fpost_pool *pool, int64_t lane_number, fpost_sync *work)
{
    int error = 0;
    fpost_worker *worker = NULL;
    pthread_mutex_lock(&pool->lock);
    fpost_lane *lane = fpost_sync_lane(pool, lane_number);
    if (!lane || pool->stopping)
        error = lane ? ESHUTDOWN : ENOMEM;
    else if (lane->idle)
        worker = lane->idle;
    else if (lane->thread_count < pool->threads_max) {
        error = fpost_sync_start_thread(lane);
        if (lane->thread_count)
            error = 0; /* those that are there will come to it */
    }
    if (!error) {
        if (worker) {
            lane->idle = worker->below;
            worker->given = work;
        } else {
            if (lane->first)
                lane->last->next = work;
            else
                lane->first = work;
            lane->last = work;
        }
        work->behind = &pool->pending;
        work->before = pool->pending.before;
        work->before->behind = pool->pending.before = work;
    }
    pthread_mutex_unlock(&pool->lock);
    if (worker) /* behind the lock, or who wakes would have to wait for that */
        pthread_cond_signal(&worker->woken);
    return error;
}

static fpost_sync *fpost_sync_pending(fpost_pool *pool, int64_t number)
{
    for (fpost_sync *one = pool->pending.behind; one != &pool->pending; one = one->behind)
        if (one->number == number)
            return one;
    return NULL;
}

/* Wait until that one is done; its errno, FPOST_SYNC_UNKNOWN if it was taken before. */
static int fpost_sync_wait(fpost_pool *pool, int64_t number)
{
    int error = FPOST_SYNC_UNKNOWN;
    pthread_mutex_lock(&pool->lock);
    pool->waiting++;
    while (fpost_sync_pending(pool, number))
        pthread_cond_wait(&pool->finished, &pool->lock);
    pool->waiting--;
    for (fpost_sync *one = pool->done; one; one = one->next)
        if (one->number == number)
            error = one->error;
    pthread_mutex_unlock(&pool->lock);
    return error;
}

/* All that is done since the last time, the caller's from now on. */
static fpost_sync *fpost_sync_take(fpost_pool *pool)
{
    uint64_t told[8];
    while (pool->read_end != -1 && read(pool->read_end, told, sizeof told) == sizeof told)
        ; /* of an eventfd the first read has it all */
    pthread_mutex_lock(&pool->lock);
    fpost_sync *done = pool->done;
    pool->done = NULL;
    pool->told = 0;
    pthread_mutex_unlock(&pool->lock);
    return done;
}

/* Do what is left to do, and end all threads. What is done can still be taken. */
static void fpost_sync_stop(fpost_pool *pool)
{
    if (fpost_sync_is_ours(pool)) {
        pthread_mutex_lock(&pool->lock);
        pool->stopping = 1;
        for (fpost_lane *lane = pool->lanes; lane; lane = lane->next)
            for (int i = 0; i < lane->thread_count; i++)
                pthread_cond_signal(&lane->workers[i].woken);
        pthread_mutex_unlock(&pool->lock);
        for (fpost_lane *lane = pool->lanes; lane; lane = lane->next)
            while (lane->thread_count) {
                fpost_worker *worker = &lane->workers[--lane->thread_count];
                pthread_join(worker->thread, NULL);
                pthread_cond_destroy(&worker->woken);
            }
    }
    if (pool->read_end != -1)
        close(pool->read_end);
    if (pool->write_end != pool->read_end)
        close(pool->write_end);
    pool->read_end = pool->write_end = -1;
}

/* After `fpost_sync_stop`. What was forked keeps the memory: threads that are no more refer to it. */
static void fpost_sync_free(fpost_pool *pool)
{
    if (!fpost_sync_is_ours(pool))
        return;
    while (pool->done) {
        fpost_sync *work = pool->done;
        pool->done = work->next;
        free(work);
    }
    while (pool->lanes) {
        fpost_lane *lane = pool->lanes;
        pool->lanes = lane->next;
        free(lane);
    }
    pthread_cond_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

#endif
