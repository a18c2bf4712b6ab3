/* SPDX-License-Identifier: Apache-2.0 */
/* fake_launch.c - runs every thread of a block as a coroutine, so that barriers can wait.
 *
 * Stacks are created by makecontext and reused. To switch between them by swapcontext would cost
 * two system calls each time, so _longjmp does it. The address sanitizer prints one warning about
 * this and continues. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { WARP = 32, STACK_BYTES = 128 << 10, GUARD_BYTES = 4096 };

typedef struct thread {
    enum { READY, AT_WARP, AT_BLOCK, ENDED } state;
    unsigned mask; /* AT_WARP: the lanes it waits for */
    int      has_stack;
    jmp_buf  at;
} thread;

static thread   threads[FAKE_MAX_THREADS];
static uint64_t slot[FAKE_MAX_THREADS];
static unsigned running;
static jmp_buf  scheduler;

static fake_call  *kernel;
static void      **arguments;
static fake_state *now;

_Alignas(1024) static char shared[FAKE_MAX_SHARED];

static void leave(thread *t)
{
    if (!_setjmp(t->at)) _longjmp(scheduler, 1);
}

static void wait_for(unsigned mask)
{
    thread *t = &threads[running];
    t->mask = mask;
    t->state = mask ? AT_WARP : AT_BLOCK;
    leave(t);
}

static void live(void)
{
    for (;;) {
        kernel(arguments);
        slot[running] = 0; /* a thread that has ended has no vote */
        threads[running].state = ENDED;
        leave(&threads[running]);
    }
}

static void begin(thread *t)
{
    ucontext_t c;
    char      *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) || getcontext(&c))
        raise(SIGILL);
    c.uc_stack.ss_sp = stack;
    c.uc_stack.ss_size = STACK_BYTES;
    c.uc_link = NULL;
    makecontext(&c, live, 0);
    t->has_stack = 1;
    setcontext(&c);
}

/* Runs thread i until it waits or ends. */
static void resume(unsigned i)
{
    running = i;
    now->thread = i;
    now->lane = i % WARP;
    now->thread_at = (fake_index) { i % now->block.x, i / now->block.x % now->block.y,
                                    i / now->block.x / now->block.y };
    if (_setjmp(scheduler)) return;
    if (threads[running].has_stack) _longjmp(threads[running].at, 1);
    begin(&threads[running]);
}

/* No thread is ready: lets those go whose fellows have all come. 0: all have ended. */
static int release(unsigned n)
{
    unsigned n_live = 0, n_at_block = 0, n_released = 0;
    for (unsigned w = 0; w < n; w += WARP) {
        const unsigned n_lanes = n - w < WARP ? n - w : WARP;
        uint32_t       missing = 0;
        for (unsigned i = 0; i < n_lanes; i++) {
            const thread *t = &threads[w + i];
            n_live += t->state != ENDED;
            n_at_block += t->state == AT_BLOCK;
            if (t->state == AT_BLOCK) missing |= UINT32_C(1) << i;
        }
        for (unsigned i = 0; i < n_lanes; i++) {
            thread *t = &threads[w + i];
            if (t->state != AT_WARP || t->mask & missing) continue;
            t->state = READY;
            n_released++;
        }
    }
    if (!n_live) return 0;
    if (n_released) return 1;
    /* They wait for each other for ever, as on a device. */
    while (n_at_block < n_live) pause(); /* NOLINT(bugprone-infinite-loop): it is meant */
    for (unsigned i = 0; i < n; i++)
        if (threads[i].state == AT_BLOCK) threads[i].state = READY;
    return 1;
}

static void run_block(void)
{
    const unsigned n = now->n_threads;
    memset(slot, 0, sizeof slot);
    for (unsigned i = 0; i < n; i++) threads[i].state = READY;
    do {
        for (unsigned i = 0; i < n; i++)
            if (threads[i].state == READY) resume(i);
    } while (release(n));
}

static void run_grid(void)
{
    for (unsigned z = 0; z < now->grid.z; z++)
        for (unsigned y = 0; y < now->grid.y; y++)
            for (unsigned x = 0; x < now->grid.x; x++) {
                now->block_at = (fake_index) { x, y, z };
                run_block();
            }
}

/* ---- faults ---- */

static jmp_buf               escape;
static volatile sig_atomic_t fault;

static void on_fault(int signal)
{
    fault = signal;
    _longjmp(escape, 1);
}

static void run_until_fault(void)
{
    fault = 0;
    if (!_setjmp(escape)) run_grid();
}

int fake_launch(fake_call *call, fake_state *state, fake_index grid, fake_index block,
                void **params)
{
    static const int caught[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE };
    enum { N_CAUGHT = sizeof caught / sizeof *caught };
    static char      stack[64 << 10]; /* a thread that fills its own can still say so */
    const stack_t    s = { .ss_sp = stack, .ss_size = sizeof stack };
    stack_t          stack_before;
    struct sigaction before[N_CAUGHT];
    /* The handler does not return: the signal must not stay blocked. */
    const struct sigaction a = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER };

    kernel = call;
    arguments = params;
    now = state;
    *now = (fake_state) { .grid = grid,
                          .block = block,
                          .n_threads = block.x * block.y * block.z,
                          .shared = shared,
                          .slot = slot,
                          .wait = wait_for };
    sigaltstack(&s, &stack_before);
    for (int i = 0; i < N_CAUGHT; i++) sigaction(caught[i], &a, &before[i]);
    run_until_fault();
    for (int i = 0; i < N_CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
    sigaltstack(&stack_before, NULL);
    if (!fault) return 0;
    return fault == SIGSEGV || fault == SIGBUS ? ILLEGAL_ADDRESS : LAUNCH_FAILED;
}
