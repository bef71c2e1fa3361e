/* group: who owns which fibers, and how cancelling spreads. */
#include "task/task_private.h"

struct task_group {
    struct task_group *parent; /* NULL: the group of task_run */
    struct list sibling;       /* in parent->children */
    struct list children;
    struct list tasks;
    struct list waiters; /* for the end of the last fiber */
    size_t count;        /* fibers here and below */
    bool canceled;
    const char *name;
};

static struct task_group *make(struct task_group *parent, const char *name)
{
    struct task_group *g = new (struct task_group);
    if (g) {
        g->parent = parent;
        g->name = name;
        if (parent) {
            g->canceled = parent->canceled;
            list_push(&parent->children, &g->sibling);
        }
    }
    return g;
}

struct task_group *task_group_new(struct task_group *parent, const char *name)
{
    assert(task_rt.active);
    return make(parent ? parent : task_rt.root, name);
}

struct task_group *group_root_new(void)
{
    return make(NULL, "main");
}

/* Child groups outlive `g` under its parent; they are empty, and cancelled if g was. */
static void release(struct task_group *g)
{
    assert(g->count == 0 && list_empty(&g->tasks) && list_empty(&g->waiters));
    struct list *node;
    while ((node = list_pop(&g->children))) {
        struct task_group *child = container_of(node, struct task_group, sibling);
        child->parent = g->parent;
        if (g->parent) {
            list_push(&g->parent->children, node);
        }
    }
    list_del(&g->sibling);
    mem_free(g);
}

void group_root_free(struct task_group *g)
{
    assert(list_empty(&g->children) && "a group was not freed");
    release(g);
}

bool group_may_spawn(struct task_group *g, struct error *err)
{
    return g->canceled ? err_set(err, ERR_CANCELED, "the task group \"%s\" was cancelled", g->name)
                       : true;
}

void group_add(struct task_group *g, struct task *t)
{
    t->group = g;
    list_push(&g->tasks, &t->member);
    for (; g; g = g->parent) {
        g->count++;
    }
}

bool group_canceled(const struct task_group *g)
{
    return g->canceled;
}

void task_end_of_fiber(struct task *t)
{
    list_del(&t->member);
    for (struct task_group *g = t->group; g; g = g->parent) {
        if (--g->count > 0) {
            continue;
        }
        struct waiter *w;
        while ((w = waiter_first(&g->waiters))) {
            waiter_finish(w);
        }
        if (g == task_rt.root) {
            task_rt.done = true;
        }
    }
}

/* The next group below `top` in depth-first order; NULL at the end. No recursion: groups may be
 * nested deeper than a fiber's stack bears. */
static struct task_group *next_below(struct task_group *top, struct task_group *g)
{
    if (!list_empty(&g->children)) {
        return container_of(g->children.next, struct task_group, sibling);
    }
    while (g != top && g->sibling.next == &g->parent->children) {
        g = g->parent;
    }
    return g == top ? NULL : container_of(g->sibling.next, struct task_group, sibling);
}

void task_group_cancel(struct task_group *g)
{
    for (struct task_group *at = g; at; at = next_below(g, at)) {
        if (at->canceled) {
            continue; /* what is below it is cancelled too, but cheap to pass by */
        }
        at->canceled = true;
        list_each(node, &at->tasks)
        {
            struct task *t = container_of(node, struct task, member);
            if (!t->shielded) {
                task_make_ready(t); /* the wait sees the mark itself */
            }
        }
    }
}

static void assert_outside(const struct task_group *g)
{
    assert(task_self());
    for (const struct task_group *own = task_self()->group; own; own = own->parent) {
        assert(own != g && "a fiber cannot wait for its own end");
    }
}

void task_group_free(struct task_group *g)
{
    if (!g) {
        return;
    }
    assert_outside(g);
    task_group_cancel(g);
    if (g->count > 0) {
        struct waiter w;
        waiter_wait(&g->waiters, &w, WAIT_NO_CANCEL | WAIT_NO_DEADLINE);
    }
    release(g);
}

bool task_group_wait(struct task_group *g, struct error *err)
{
    assert_outside(g);
    if (!wait_begin(err)) {
        return false;
    }
    if (g->count == 0) {
        return true;
    }
    struct waiter w;
    return wait_result(waiter_wait(&g->waiters, &w, 0), err);
}

size_t task_group_count(const struct task_group *g)
{
    return g->count;
}

struct task_group *task_own_group(void)
{
    return task_self()->group;
}
