/* hold: steps that must be finished whatever their caller's time and fate are. */
#include "task/task_private.h"

void task_hold_begin(struct task_hold *h)
{
    struct task *t = task_self();
    *h = (struct task_hold){.shielded = t->shielded, .deadline = t->deadline};
    t->shielded = true;
    t->deadline = NULL;
}

void task_hold_end(const struct task_hold *h)
{
    struct task *t = task_self();
    t->shielded = h->shielded;
    t->deadline = h->deadline;
}
