/* tensor_array.h - the object behind the TensorArray ops.
 *
 * A slot goes   EMPTY -> WRITTEN [array_write]  -> CLEARED [array_take, clear_after_read]
 *                        WRITTEN -> WRITTEN     [array_write into a gradient array: values add up]
 * and remembers whether it was read.  Reading an EMPTY slot gives zeros when its shape is known.
 *
 * Invariants
 *   1. `lock` guards everything behind it; the fields before it never change after creation.
 *   2. A `value` is shared by its slot and by outputs that were read from it; it is written only
 *      while unshared.
 *   3. Gradient arrays hang off their forward array by source name and have its size when first
 *      asked for.
 *   4. The gradient of a split is the concatenation of as many slots as the split wrote: a dynamic
 *      array may have grown since.  So a gradient array's `joined` is its forward array's `parts`.
 * Threads: any.
 */
#ifndef PF_CPU_TENSOR_ARRAY_H
#define PF_CPU_TENSOR_ARRAY_H
#include "base/common.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
  atomic_int refs;
  DLManagedTensorVersioned *t;
} value;
typedef struct {
  value *v;
  int64_t *shape; /* gradient arrays: the forward value's; NULL: unknown */
  int32_t ndim;
  uint8_t written, read, cleared;
} slot;
typedef struct tensor_array {
  atomic_int refs;
  int32_t type;
  int dynamic, clear_after_read, identical, aggregate;
  char name[160];
  pthread_mutex_t lock;
  int closed;
  int64_t n, room;
  int64_t parts, joined; /* slots a split wrote, a concat joins; -1: all */
  slot *slots;
  int32_t ndim;                     /* element shape; ndim -1: unknown */
  int64_t dims[PF_MAX_DIMS];        /* -1: unknown */
  struct tensor_array *grad, *next; /* gradient arrays; their siblings */
  char source[128];
} tensor_array;

extern const pf_type PF_TENSOR_ARRAY;

/* state of every TensorArray kernel */
typedef struct {
  int32_t T, dynamic_size, clear_after_read, identical_element_shapes;
  pf_shape element_shape;
  pf_str name; /* tensor_array_name, or the source of a gradient */
} array_state;

/* The array behind input 0, locked, open and of element type `type` (0: any).  Ends with
 * array_done. */
pf_status array_open(pf_ctx *c, int32_t type, tensor_array **a);
static inline pf_status array_done(tensor_array *a, pf_status s) {
  pthread_mutex_unlock(&a->lock);
  return s;
}
/* Slot `index` takes `t` (stolen, on failure too). */
pf_status array_write(pf_ctx *c, tensor_array *a, int64_t index, DLManagedTensorVersioned *t);
/* The value of slot `index`: one reference, ended with value_release.  Zeros are made where TF
 * gives zeros. */
pf_status array_take(pf_ctx *c, tensor_array *a, int64_t index, const pf_shape *want, value **v);
void value_release(value *v);
/* Grows a dynamic array to n slots; PF_OK if it has as many. */
pf_status array_grow(pf_ctx *c, tensor_array *a, int64_t n);
/* out = x + y, of one shape; 0: the type has no sum. */
int array_add_values(int32_t type, const DLTensor *x, const DLTensor *y, DLTensor *out);
#endif
