/* tensor_list.h - the object behind a TensorList: an immutable list of tensors, a scalar variant.
 *
 * A list is its items and what is known of their shape.  An item is EMPTY (never set), a whole
 * tensor, one row of a tensor (TensorListFromTensor keeps its input and copies nothing), or, where
 * the element type is variant, a list.
 *
 * Invariants
 *   1. A list is changed only by the kernel that made it, or by one that is its sole owner
 *      (list_owned): SetItem, PushBack, PopBack and Resize then work in place, else on a copy of
 *      the items.  What the items refer to is shared either way.
 *   2. A handle holds one reference of its list, and so does each list it is an item of.
 *   3. An item fits its list's element type and shape.
 *   4. n <= LIST_MAX, so that no graph makes a list of gigabytes out of one number.
 * Threads: any; counts are atomic, the rest does not change while it is shared.
 */
#ifndef PF_CPU_TENSOR_LIST_H
#define PF_CPU_TENSOR_LIST_H
#include "base/common.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { LIST_MAX = 1 << 25, LIST_OPTIONAL = -1 /* an element type: see optional.c */ };

/* ndim -1, dims -1: unknown */
typedef struct {
  int32_t ndim;
  int64_t dims[PF_MAX_DIMS];
} part_shape;

struct tensor_list;
/* what items share: a tensor or a list */
typedef struct {
  atomic_int refs;
  DLManagedTensorVersioned *t;
  struct tensor_list *list;
} list_value;
typedef struct {
  list_value *v;
  int64_t row;
} list_item; /* v NULL: EMPTY; row -1: all of v */
typedef struct tensor_list {
  atomic_int refs;
  int32_t type;
  int64_t n, room, max; /* max -1: PushBack has no limit */
  list_item *items;
  part_shape shape; /* of the elements */
} tensor_list;

extern const pf_type PF_TENSOR_LIST;

/* state of every list kernel */
typedef struct {
  int32_t type, resize; /* the attribute element_dtype (or T); resize_if_... */
  int64_t num_elements;
  pf_shape element_shape;
} list_state;

/* ---- lists */
tensor_list *list_new(pf_ctx *c, int32_t type, int64_t n); /* n EMPTY items; NULL: failed */
void list_unref(void *list);
pf_status list_in(pf_ctx *c, int32_t in, int32_t type, tensor_list **out); /* lent; type 0: any */
int list_owned(pf_ctx *c, int32_t in, const tensor_list *l); /* nobody else sees the list */
pf_status list_out(pf_ctx *c, int32_t out, tensor_list *steal);
/* The list behind input `in` to change: itself if owned, else a copy.  list_put publishes it. */
pf_status list_open(pf_ctx *c, int32_t in, tensor_list *l, tensor_list **out);
pf_status list_put(pf_ctx *c, int32_t in, int32_t out, tensor_list *l, const tensor_list *input);
pf_status list_resize(pf_ctx *c, tensor_list *l, int64_t n);

/* ---- items */
void value_unref(list_value *v);
list_value *value_of(DLManagedTensorVersioned *steal); /* NULL: no memory, let go */
list_value *value_retained(pf_ctx *c, int32_t in);     /* of an input; NULL: failed */
static inline list_item item_share(list_item i) {
  if (i.v) atomic_fetch_add(&i.v->refs, 1);
  return i;
}
static inline void item_clear(list_item *i) {
  value_unref(i->v);
  *i = (list_item){0};
}
/* of a tensor or a row */
static inline const int64_t *item_dims(const list_item *i, int32_t *ndim) {
  const DLTensor *t = &i->v->t->dl_tensor;
  *ndim = t->ndim - (i->row >= 0);
  return t->shape + (i->row >= 0);
}
static inline int64_t dims_numel(const int64_t *dims, int32_t ndim) {
  return pf_product(dims, 0, ndim);
}
/* Element `at` of `out` on, of esize bytes each (0: strings), becomes the item. */
pf_status item_publish(pf_ctx *c, int32_t out, const list_item *i); /* output `out` is the item */
pf_status item_copy(pf_ctx *c, const list_item *i, DLTensor *out, int64_t at, int64_t esize);

/* ---- shapes known in part */
typedef struct { char s[256]; } part_text;
part_text part_write(const part_shape *p);
static inline part_shape part_unknown(void) {
  part_shape p;
  p.ndim = -1;
  return p;
}
pf_status part_of(pf_ctx *c, const int64_t *dims, int32_t ndim, part_shape *out);
pf_status part_in(pf_ctx *c, int32_t in, part_shape *out); /* a shape input: a vector, or -1 */
int part_full(const part_shape *p);
int part_merge(part_shape *p, const int64_t *dims, int32_t ndim); /* 0: they disagree */
static inline int part_merge_part(part_shape *p, const part_shape *q) {
  return q->ndim < 0 || part_merge(p, q->dims, q->ndim);
}
static inline int part_fits(part_shape p, const int64_t *dims, int32_t ndim) {
  return part_merge(&p, dims, ndim);
}
/* Merges the shape input `in` with the list's, and with every set item's while it is not full. */
pf_status part_of_items(pf_ctx *c, int32_t in, const tensor_list *l, part_shape *out);
#endif
