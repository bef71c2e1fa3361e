/* list: intrusive, circular. A zeroed node or head counts as unlinked, so that structs need no
 * initialiser. */
#include "base/base.h"

void list_init(struct list *l)
{
    l->next = l->prev = l;
}

bool list_empty(const struct list *l)
{
    return !l->next || l->next == l;
}

void list_push(struct list *head, struct list *node)
{
    if (!head->next) {
        list_init(head);
    }
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}

void list_push_front(struct list *head, struct list *node)
{
    if (!head->next) {
        list_init(head);
    }
    list_push(head->next, node);
}

void list_del(struct list *node)
{
    if (node->next) {
        node->next->prev = node->prev;
        node->prev->next = node->next;
    }
    list_init(node);
}

struct list *list_pop(struct list *head)
{
    if (list_empty(head)) {
        return NULL;
    }
    struct list *node = head->next;
    list_del(node);
    return node;
}
