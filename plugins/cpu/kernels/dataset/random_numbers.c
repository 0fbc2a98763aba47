/* random_numbers.c - RandomDataset: numbers below 2^32 of a Philox generator, for ever.
 *
 * Number n is word n % 4 of block n / 4 of the seeds, as in TF; without seeds, the session's.
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "random/philox.h"

typedef struct { pf_list output_types; } numbers_state;
typedef struct {
  dataset d;
  pf_philox base;
} numbers;
typedef struct {
  ds_stage s;
  int64_t given;
} numbers_stage;

static pf_status numbers_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  numbers_stage *t = (numbers_stage *)s;
  const numbers *d = (const numbers *)s->of;
  pf_philox g = pf_philox_skip(&d->base, (uint64_t)t->given / 4);
  uint32_t x[4];
  (void)w;
  pf_philox_block(&g, x);
  if (!ds_row_room(out, 1) || !(out->v[0] = ds_scalar_int64(d->d.host, x[t->given % 4])))
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  t->given++;
  return DS_OK;
}
static void numbers_close(ds_stage *s) { free(s); }
static void numbers_save(ds_stage *s, ds_writer *w) { ds_put_int(w, ((numbers_stage *)s)->given); }
static pf_status numbers_load(ds_stage *s, ds_reader *r) {
  return ds_get_range(r, 0, INT64_MAX, &((numbers_stage *)s)->given);
}
static const ds_stage_kind NUMBERS_STAGE = {
  .next = numbers_next, .close = numbers_close, .save = numbers_save, .load = numbers_load};
static pf_status numbers_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = ds_stage_new(sizeof(numbers_stage), &NUMBERS_STAGE, d, at, error);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static int64_t numbers_size(const dataset *d) {
  (void)d;
  return -2;
}
static const ds_kind NUMBERS = {"Random", numbers_open, NULL, numbers_size};

static pf_status numbers_compute(pf_ctx *c, const void *state) {
  int64_t seed, seed2;
  numbers *d =
      ds_new(c, sizeof *d, &NUMBERS, NULL, 0, &((const numbers_state *)state)->output_types);
  if (!d) return PF_RESOURCE_EXHAUSTED;
  pf_status st = d->d.n_types == 1 && d->d.types[0] == PF_INT64
                     ? PF_OK
                     : PF_INVALID(c, "output_types must be one int64");
  if (!st) st = ds_scalar_in(c, 0, "seed", &seed);
  if (!st) st = ds_scalar_in(c, 1, "seed2", &seed2);
  if (!st && !seed && !seed2) {
    uint64_t key[2], counter[2];
    st = c->host->rng(c, 1, key, counter);
    if (!st) d->base = (pf_philox){.key = key[0] ^ key[1], .hi = counter[0]};
  } else if (!st) {
    d->base = (pf_philox){.key = (uint64_t)seed, .hi = (uint64_t)seed2};
  }
  return ds_out(c, d, st);
}
#define NUMBERS_OF(op_) \
  PF_CPU(op_, NULL, .compute = numbers_compute, .state_size = sizeof(numbers_state), \
         .attrs = PF_ATTRS(PF_ATTR(numbers_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types)))
extern const pf_kernel *const random_numbers_kernels[];
const pf_kernel *const random_numbers_kernels[] = {NUMBERS_OF("RandomDataset"),
                                                   NUMBERS_OF("ExperimentalRandomDataset"), NULL};
