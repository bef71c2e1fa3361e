/* fiber: stacks with a guard, a pool of them, and the switch between a fiber and the loop. */
#include "task/task_private.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#if TASK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if TASK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
    PAGE = 4096,
    /* Larger than one page, so that a frame of several KiB cannot step over it. Address space
     * only. */
    GUARD = 16 * 1024,
#if TASK_ASAN || TASK_TSAN
    STACK = 256 * 1024, /* redzones make frames several times as large */
#else
    STACK = 64 * 1024,
#endif
    COLOURS = 8,
    POOL_MAX = 256,
    POOL_WARM = 32,    /* so many pooled stacks keep their pages for good */
    TRIM_FRAMES = 512, /* bytes of the frames from task_trim to the system call, and to spare */
};

static char *pool[POOL_MAX];
static bool dirty[POOL_MAX]; /* the stack in that place has pages */
static size_t pooled;
static size_t page = 4096;
static struct fiber loop_fiber;

static char *stack_get(void)
{
    if (pooled) {
        return pool[--pooled];
    }
    char *map = task_sys_mmap(GUARD + STACK);
    if (!map) {
        return NULL;
    }
    if (mprotect(map, GUARD, PROT_NONE) != 0) {
        munmap(map, GUARD + STACK);
        return NULL;
    }
    return map + GUARD;
}

static void stack_put(char *stack)
{
#if TASK_ASAN
    /* The last frames were left without returning; their redzones are still marked. */
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK);
#endif
    if (pooled >= POOL_MAX) {
        munmap(stack - GUARD, GUARD + STACK);
        return;
    }
    dirty[pooled] = true;
    pool[pooled++] = stack;
}

/* Not when a stack comes back: fibers that come and go in dozens would pay for fresh pages each
 * time. */
bool fiber_pool_trim(void)
{
    for (size_t i = POOL_WARM; i < pooled; i++) {
        if (dirty[i]) {
            madvise(pool[i], STACK, MADV_DONTNEED);
            dirty[i] = false;
        }
    }
    return pooled > POOL_WARM;
}

/* Names the fiber on a write into a guard; async-signal-safe. Any other fault is left to the
 * default. */
static void on_fault(int signo, siginfo_t *info, void *context)
{
    (void)context;
    const struct task *t = task_self();
    const char *at = info->si_addr;
    if (t && at >= t->stack - GUARD && at < t->stack) {
        struct iovec text[] = {{(void *)(uintptr_t) "stack overflow in task \"", 24},
                               {(void *)(uintptr_t)t->name, strlen(t->name)},
                               {(void *)(uintptr_t) "\"\n", 2}};
        ssize_t n = writev(2, text, 3);
        (void)n;
    }
    signal(signo, SIG_DFL); /* the instruction runs again and ends the process */
}

static void catch_overflow(void)
{
    static char stack[16 * 1024]; /* a fiber that has none left cannot run the handler */
    struct sigaction old;
    if (sigaction(SIGSEGV, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) ||
        old.sa_handler != SIG_DFL) {
        return; /* a sanitizer or a test has its own */
    }
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaltstack(&alternative, NULL) == 0) {
        sigaction(SIGSEGV, &action, NULL);
    }
}

void fiber_pool_clear(void)
{
    while (pooled) {
        munmap(pool[--pooled] - GUARD, GUARD + STACK);
    }
}

size_t fiber_pooled(void)
{
    return pooled;
}

#if TASK_ASAN

/* The first thing that runs on a new stack: the sanitizer is told that the switch is over. */
static void enter(struct task *t)
{
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    t->fiber.entry(t);
}

#endif

#if TASK_ASM

void fiber_swap(void **save_sp, void *load_sp);
void fiber_first(void);

static void prepare(struct task *t, void (*entry)(struct task *t))
{
    uintptr_t top = (uintptr_t)t & ~(uintptr_t)15;
#if defined(__x86_64__)
    /* mxcsr and x87 control word, r15, r14, r13, r12, rbx, rbp, return address; then 16 zeros,
     * where a debugger looks for the next frame. */
    uint64_t *frame = (uint64_t *)(top - 80);
    uint32_t control[2] = {0x1f80, 0x037f}; /* the ABI's state at process start */
    memset(frame, 0, 80);
    memcpy(frame, control, sizeof(control));
    frame[3] = (uint64_t)(uintptr_t)entry;       /* r13 */
    frame[4] = (uint64_t)(uintptr_t)t;           /* r12 */
    frame[7] = (uint64_t)(uintptr_t)fiber_first; /* return address */
#else
    uint64_t *frame = (uint64_t *)(top - 176);
    memset(frame, 0, 176);
    frame[0] = (uint64_t)(uintptr_t)t;            /* x19 */
    frame[1] = (uint64_t)(uintptr_t)entry;        /* x20 */
    frame[11] = (uint64_t)(uintptr_t)fiber_first; /* x30 */
#endif
    t->fiber.sp = frame;
}

static inline void swap(struct fiber *from, struct fiber *to)
{
    fiber_swap(&from->sp, to->sp);
}

static void trim_to(struct task *t, uintptr_t used)
{
    uintptr_t low = (uintptr_t)t->stack, high = used & ~(uintptr_t)(page - 1);
    if (high > low) {
        madvise(t->stack, high - low, MADV_DONTNEED);
    }
}

void fiber_trim(struct task *t)
{
    /* The ABI lets a leaf use 128 bytes below its stack pointer; a parked fiber has none, but
     * the margin is free. */
    trim_to(t, (uintptr_t)t->fiber.sp - 128);
}

void fiber_trim_below(struct task *t, const void *used)
{
    trim_to(t, (uintptr_t)used - TRIM_FRAMES);
}

#else

static void first(unsigned task_low, unsigned task_high, unsigned fn_low, unsigned fn_high)
{
    struct task *t = (struct task *)((uintptr_t)task_low | (uintptr_t)task_high << 32);
    void (*entry)(struct task *) =
        (void (*)(struct task *))((uintptr_t)fn_low | (uintptr_t)fn_high << 32);
    entry(t);
    abort();
}

static void prepare(struct task *t, void (*entry)(struct task *t))
{
    if (getcontext(&t->fiber.context) != 0) {
        abort(); /* fails for no reason that exists here */
    }
    t->fiber.context.uc_stack.ss_sp = t->stack;
    t->fiber.context.uc_stack.ss_size = ((size_t)((char *)t - t->stack)) & ~(size_t)63;
    t->fiber.context.uc_link = NULL;
    uintptr_t a = (uintptr_t)t, b = (uintptr_t)entry;
    /* makecontext passes ints only. */
    makecontext(&t->fiber.context, (void (*)(void))first, 4, (unsigned)a, (unsigned)(a >> 32),
                (unsigned)b, (unsigned)(b >> 32));
#if TASK_TSAN
    t->fiber.tsan = __tsan_create_fiber(0);
#endif
}

static void swap(struct fiber *from, struct fiber *to)
{
#if TASK_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    if (swapcontext(&from->context, &to->context) != 0) {
        abort();
    }
}

void fiber_trim(struct task *t)
{
    (void)t; /* the stack pointer is inside an opaque context */
}

void fiber_trim_below(struct task *t, const void *used)
{
    (void)t;
    (void)used;
}

#endif

struct task *fiber_make(void (*entry)(struct task *t))
{
    char *stack = stack_get();
    if (!stack) {
        return NULL;
    }
    /* All stacks lie alike within their pages; without an offset that differs, their hot ends would
     * compete for the same few lines of the cache. */
    static unsigned colour;
    size_t offset = (colour++ % COLOURS) * 128 + ((sizeof(struct task) + 63) & ~(size_t)63);
    struct task *t = (struct task *)(void *)(stack + STACK - offset);
    memset(t, 0, sizeof(*t));
    t->stack = stack;
#if TASK_ASAN
    t->fiber.entry = entry;
    t->fiber.bottom = t->stack;
    t->fiber.size = (size_t)((char *)t - t->stack) & ~(size_t)63;
    prepare(t, enter);
#else
    prepare(t, entry);
#endif
    return t;
}

void fiber_drop(struct task *t)
{
#if TASK_TSAN
    __tsan_destroy_fiber(t->fiber.tsan);
#endif
    stack_put(t->stack);
}

void fiber_setup(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    catch_overflow();
#if TASK_TSAN
    loop_fiber.tsan = __tsan_get_current_fiber();
#endif
#if TASK_ASAN
    pthread_attr_t attr;
    void *bottom;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) {
        abort();
    }
    pthread_attr_getstack(&attr, &bottom, &loop_fiber.size);
    pthread_attr_destroy(&attr);
    loop_fiber.bottom = bottom;
#endif
}

/* `last`: `from` does not come back. */
static inline void change(struct fiber *from, struct fiber *to, bool last)
{
#if TASK_ASAN
    /* NULL releases the fake frames of a fiber that has ended. */
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom, to->size);
#endif
    (void)last;
    swap(from, to);
#if TASK_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void fiber_enter(struct task *t)
{
    change(&loop_fiber, &t->fiber, false);
}

void fiber_leave(struct task *t)
{
    change(&t->fiber, &loop_fiber, t->state == TASK_ENDED);
}

void fiber_pass(struct task *from, struct task *to)
{
    change(&from->fiber, &to->fiber, false);
}
