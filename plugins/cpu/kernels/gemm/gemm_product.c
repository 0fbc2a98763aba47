/* gemm_product.c - products on threads: what is cut, what is packed once for all, what goes to
 * OpenBLAS.
 *
 * With AVX-512 the kernels of gemm.c are ahead of OpenBLAS at all sizes measured and no sum depends
 * on the cut. Elsewhere large products go to OpenBLAS, if there is one, in tiles of fixed size.
 */
#include "gemm/gemm_product.h"
#include "gemm/blas.h"

enum { SMALL_WORK = 16384, PLAIN_UNIT = 96, BLAS_UNIT = 512, BLAS_LEAST = 96, SHARED_ROWS = 384 };
enum { ROWS_QUANTUM = 24, COLUMNS_QUANTUM = 64, TASKS_PER_THREAD = 8, EVEN_COLUMNS = 256 };
#define BLAS_FLOPS 3.0e7               /* from here OpenBLAS is worth its call */
#define SPLIT_FLOPS 2.0e6              /* from here threads are worth theirs */
#define TASK_FLOPS 5.0e5               /* the least one task does */
#define LONG_FLOPS 2.0e8               /* cut on one thread, too: a cancelled step should end */
#define STREAM_FLOPS 8                 /* work of reading one byte, about */

typedef struct {
  const pf_gemm_call *p;
  pf_gemm g;
  int64_t size, unit; /* bytes of an element; rows or columns of a task */
  int by_rows, blas;
  char *work;
  uint64_t work_bytes;
} tasks;

/* bfloat16 here is pairs of them, as gemm_half.c makes them. */
static int is_pairs(int32_t type) { return type == PF_BFLOAT16; }
static int is_vector_type(int32_t type) {
  return type == PF_FLOAT32 || type == PF_FLOAT64 || is_pairs(type);
}

/* The functions of gemm.h for a type. */
typedef struct {
  void (*gemm)(const pf_gemm *);
  void (*many)(const pf_gemm *, const int64_t *, const int64_t *, int64_t, int64_t, int64_t);
  int64_t (*blocks)(const pf_gemm *);
  void (*pack)(const pf_gemm *, void *, int64_t, int64_t);
} functions;
#define FUNCTIONS(tag) \
  {PF_ISA_NAME(pf_gemm_##tag), PF_ISA_NAME(pf_gemm_many_##tag), \
   PF_ISA_NAME(pf_gemm_pack_blocks_##tag), PF_ISA_NAME(pf_gemm_pack_##tag)}

static const functions *functions_of(int32_t type) {
  static const functions f32 = FUNCTIONS(f32), f64 = FUNCTIONS(f64);
#if PF_GEMM_PAIRS
  static const functions bf16 = FUNCTIONS(bf16);
  if (is_pairs(type)) return &bf16;
#endif
  return type == PF_FLOAT32 ? &f32 : &f64;
}

static double flops_of(const pf_gemm *g) {
  return 2.0 * (double)g->m * (double)g->n * (double)g->k;
}

/* What the product costs, in flops of float32: a vector times a matrix is as slow as the matrix is
 * read. */
static double cost_of(const pf_gemm *g, int64_t size) {
  double reads = (double)size * (double)g->k * (double)(g->m + g->n);
  return PF_MAX(flops_of(g) * (double)size / sizeof(float), STREAM_FLOPS * reads);
}

static void blas_gemm(int32_t type, const pf_gemm *g) {
  int ta = g->a_col == 1 ? PF_BLAS_PLAIN : PF_BLAS_TRANSPOSED,
      tb = g->b_col == 1 ? PF_BLAS_PLAIN : PF_BLAS_TRANSPOSED;
  int lda = (int)(g->a_col == 1 ? g->a_row : g->a_col),
      ldb = (int)(g->b_col == 1 ? g->b_row : g->b_col);
  if (type == PF_FLOAT32)
    pf_blas_sgemm(PF_BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, 1, g->a, lda, g->b,
                  ldb, 0, g->c, (int)g->ldc);
  else
    pf_blas_dgemm(PF_BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, 1, g->a, lda, g->b,
                  ldb, 0, g->c, (int)g->ldc);
  if (!g->epilogue) return;
  if (type == PF_FLOAT32) pf_epilogue_f32(g->epilogue, g->c, g->ldc, g->m, g->n);
  else pf_epilogue_f64(g->epilogue, g->c, g->ldc, g->m, g->n);
}

static void run_gemm(const tasks *t, const pf_gemm *g) {
  const int32_t type = t->p->type;
  if (t->blas) blas_gemm(type, g);
  else if (is_vector_type(type)) functions_of(type)->gemm(g);
  else PF_ISA_NAME(pf_gemm_plain)(g, type, t->p->conj_a, t->p->conj_b);
}

static const void *offset(const void *p, int64_t elements, int64_t size) {
  return p ? (const char *)p + elements * size : NULL;
}

/* Rows (or columns) [lo, hi) of the product. */
static void run_part(const tasks *t, pf_gemm g, int64_t lo, int64_t hi) {
  const int64_t size = t->size;
  pf_epilogue e;
  if (g.epilogue) {
    e = *g.epilogue;
    g.epilogue = &e;
    e.side = offset(e.side, lo * (t->by_rows ? e.ld_side : 1), size);
    if (t->by_rows) e.row_bias = offset(e.row_bias, lo, size);
    else e.col_bias = offset(e.col_bias, lo, size);
  }
  if (t->by_rows) {
    g.m = hi - lo;
    g.a = offset(g.a, lo * g.a_row, size);
    g.c = (char *)g.c + lo * g.ldc * size;
  } else {
    g.n = hi - lo;
    g.b = offset(g.b, lo * g.b_col, size);
    g.c = (char *)g.c + lo * size;
  }
  /* panels belong to the job's columns */
  if (t->by_rows == ((g.how & PF_GEMM_SWAP) != 0)) g.panels = offset(g.panels, lo * g.k, size);
  run_gemm(t, &g);
}

static void run_tasks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const tasks *t = arg;
  pf_gemm g = t->g;
  const int64_t whole = t->by_rows ? g.m : g.n;
  g.work = t->work + t->work_bytes * (uint64_t)worker;
  for (int64_t i = lo; i < hi; i++) run_part(t, g, i * t->unit, PF_MIN((i + 1) * t->unit, whole));
}

static void run_entries(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const tasks *t = arg;
  const pf_gemm_call *p = t->p;
  pf_gemm g = t->g;
  g.work = t->work + t->work_bytes * (uint64_t)worker;
  if (is_vector_type(p->type)) functions_of(p->type)->many(&g, p->a_at, p->b_at, g.m * g.n, lo, hi);
  else
    for (int64_t i = lo; i < hi; i++) {
      pf_gemm one = g;
      one.a = offset(g.a, p->a_at[i], t->size);
      one.b = offset(g.b, p->b_at[i], t->size);
      one.c = (char *)g.c + i * g.m * g.n * t->size;
      run_gemm(t, &one);
    }
}

/* Packing space for so many workers. */
static pf_status take_work(pf_ctx *c, tasks *t, int32_t workers, char *small) {
  t->work_bytes = (PF_ISA_NAME(pf_gemm_work)(&t->g, t->size) + 63) / 64 * 64;
  t->work = small;
  if (t->work_bytes * (uint64_t)workers <= SMALL_WORK) return PF_OK;
  t->work = pf_gemm_scratch(c, t->p->room, t->work_bytes * (uint64_t)workers);
  return t->work ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packing matrices");
}

/* ---------------------------------------------------------------- cuts */
typedef struct {
  const pf_gemm *g;
  const functions *type;
  void *panels;
} packing;

static void pack_blocks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const packing *p = arg;
  (void)worker;
  p->type->pack(p->g, p->panels, lo, hi);
}

/* op(b), packed once for all rows. */
static pf_status pack_shared(pf_ctx *c, tasks *t) {
  packing pack = {.g = &t->g, .type = functions_of(t->p->type)};
  pack.panels = pf_gemm_scratch(c, t->p->room, PF_ISA_NAME(pf_gemm_packed_bytes)(&t->g, t->size));
  if (!pack.panels) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packing matrices");
  PF_TRY(c->host->parallel_for(c, pack.type->blocks(&t->g), 1, pack_blocks, &pack));
  t->g.panels = pack.panels;
  return PF_OK;
}

/* Many rows, or too few columns for every thread to have its own. */
static int shares_panels(const tasks *t, int64_t workers) {
  const pf_gemm *g = &t->g;
  const int swap = (g->how & PF_GEMM_SWAP) != 0;
  const int64_t rows = swap ? g->n : g->m, columns = swap ? g->m : g->n; /* of the job */
  if ((g->how & ~PF_GEMM_SWAP) != PF_GEMM_BLOCKED || g->panels) return 0;
  return rows >= SHARED_ROWS ||
         (columns < 2 * workers * COLUMNS_QUANTUM && rows >= workers * ROWS_QUANTUM);
}

/* Rows or columns of a task: whole quanta, and as many tasks as are worth it. */
static void set_unit(tasks *t, int64_t workers, double cost) {
  const pf_gemm *g = &t->g;
  const int swap = (g->how & PF_GEMM_SWAP) != 0, way = g->how & ~PF_GEMM_SWAP;
  const int64_t rows = swap ? g->n : g->m, columns = swap ? g->m : g->n; /* of the job */
  const int packs = way == PF_GEMM_BLOCKED && !g->panels;
  int by_rows = rows / ROWS_QUANTUM > columns / COLUMNS_QUANTUM;
  if (way == PF_GEMM_DOTS) by_rows = rows > columns;
  if (way == PF_GEMM_DOTS_PACKED) by_rows = 1;
  if (way == PF_GEMM_ROW || (packs && rows < SHARED_ROWS)) by_rows = 0;
  int64_t quantum = by_rows ? ROWS_QUANTUM : COLUMNS_QUANTUM, whole = by_rows ? rows : columns;
  if (way == PF_GEMM_DOTS) quantum = rows == 1 && columns < EVEN_COLUMNS ? 4 : 8;
  int64_t most = (int64_t)(cost / TASK_FLOPS) + 1;
  /* packing repeats, and a matrix times a vector streams best in one piece for each thread */
  const int vector = way == PF_GEMM_ROW || (way == PF_GEMM_DOTS && rows == 1);
  int64_t per_thread = vector ? 1 : packs ? 2 : TASKS_PER_THREAD;
  int64_t wanted = PF_MIN(most, workers * per_thread);
  if (wanted > workers) wanted -= wanted % workers; /* even shares */
  t->unit = ((whole + wanted - 1) / wanted + quantum - 1) / quantum * quantum;
  t->by_rows = by_rows != swap;
}

static pf_status run_cut(pf_ctx *c, tasks *t) {
  const int64_t whole = t->by_rows ? t->g.m : t->g.n;
  return c->host->parallel_for(c, (whole + t->unit - 1) / t->unit, 1, run_tasks, t);
}

/* Tiles of fixed size: OpenBLAS's sums may depend on it. */
static int wants_blas(const tasks *t) {
#if defined(__AVX512F__)
  (void)t;
  return 0;
#else
  const pf_gemm *g = &t->g;
  if (!pf_blas_sgemm || g->panels || flops_of(g) < BLAS_FLOPS) return 0;
  if (PF_MIN(PF_MIN(g->m, g->n), g->k) < BLAS_LEAST) return 0;
  return PF_MAX(PF_MAX(g->m, g->n), g->k) <= INT_MAX;
#endif
}

static pf_status run_one(pf_ctx *c, tasks *t, char *small) {
  const int32_t workers = c->host->workers(c);
  const double cost = cost_of(&t->g, t->size);
  const int vector = is_vector_type(t->p->type);
  if (vector && wants_blas(t)) {
    t->blas = 1;
    t->by_rows = t->g.m >= t->g.n;
    t->unit = BLAS_UNIT;
    return run_cut(c, t);
  }
  if (cost < SPLIT_FLOPS || (workers == 1 && flops_of(&t->g) < LONG_FLOPS)) {
    PF_TRY(take_work(c, t, 1, small));
    t->g.work = t->work;
    run_gemm(t, &t->g);
    return PF_OK;
  }
  if (!vector) {
    t->by_rows = t->g.m >= t->g.n;
    t->unit = PLAIN_UNIT;
    return run_cut(c, t);
  }
  if (shares_panels(t, workers)) PF_TRY(pack_shared(c, t));
  set_unit(t, workers, cost);
  PF_TRY(take_work(c, t, workers, small));
  return run_cut(c, t);
}

static pf_status run_batch(pf_ctx *c, tasks *t, char *small) {
  const pf_gemm_call *p = t->p;
  const double each = cost_of(&t->g, t->size) + 100;
  const int32_t workers = c->host->workers(c);
  if (each * (double)p->batches < SPLIT_FLOPS) {
    PF_TRY(take_work(c, t, 1, small));
    run_entries(t, 0, p->batches, 0);
    return PF_OK;
  }
  if (each < 4 * SPLIT_FLOPS || p->batches >= TASKS_PER_THREAD * workers) {
    PF_TRY(take_work(c, t, workers, small));
    return c->host->parallel_for(c, p->batches, 1 + (int64_t)(TASK_FLOPS / each), run_entries, t);
  }
  pf_gemm_room room = {0};
  pf_gemm_call call = *p;
  call.room = &room;
  for (int64_t i = 0; i < p->batches; i++) { /* few and large: one after the other */
    tasks one = *t;
    one.p = &call;
    room.next = 0;
    one.g.a = offset(t->g.a, p->a_at[i], t->size);
    one.g.b = offset(t->g.b, p->b_at[i], t->size);
    one.g.c = (char *)t->g.c + i * t->g.m * t->g.n * t->size;
    PF_TRY(run_one(c, &one, small));
  }
  return PF_OK;
}

pf_status PF_ISA_NAME(pf_gemm_run_numbers)(pf_ctx *c, const pf_gemm_call *p) {
  _Alignas(64) char small[SMALL_WORK];
  tasks t = {.p = p, .g = p->g, .size = is_pairs(p->type) ? 4 : pf_type_size(p->type)};
  if (is_vector_type(p->type) && !p->g.panels) t.g.how = PF_ISA_NAME(pf_gemm_how)(&p->g, t.size);
  return p->batches > 1 ? run_batch(c, &t, small) : run_one(c, &t, small);
}

pf_status PF_ISA_NAME(pf_gemm_run)(pf_ctx *c, const pf_gemm_call *p) {
  if (PF_ISA_NAME(pf_gemm_is_complex)(p)) return PF_ISA_NAME(pf_gemm_run_complex)(c, p);
  return pf_is_half(p->type) ? PF_ISA_NAME(pf_gemm_run_halves)(c, p)
                             : PF_ISA_NAME(pf_gemm_run_numbers)(c, p);
}

/* ---------------------------------------------------------------- constants */
enum { LEAST_HELD = 4096, HELD_LANES = 12 }; /* elements; columns of a last vector that pay */

static void panels_free(void *panels) {
  pf_packed_free(panels);
  free(panels);
}
static const pf_type panels_type = {sizeof(pf_type), 0, "pyflow.cpu.panels " PF_ISA_TEXT,
                                    panels_free, NULL};

static pf_status panels_make(pf_ctx *c, void *arg, void **obj) {
  const pf_gemm *g = arg;
  pf_packed *p = calloc(1, sizeof *p);
  (void)c;
  if (!p || !pf_packed_new(p, PF_ISA_NAME(pf_gemm_packed_bytes)(g, sizeof(float)))) {
    free(p);
    return PF_RESOURCE_EXHAUSTED;
  }
  PF_ISA_NAME(pf_gemm_pack_f32)(g, p->at, 0, PF_ISA_NAME(pf_gemm_pack_blocks_f32)(g));
  *obj = p;
  return PF_OK;
}

pf_status PF_ISA_NAME(pf_gemm_hold)(pf_ctx *c, int32_t in, int32_t type, int tb,
                                    pf_gemm_held *held) {
  const DLTensor *b = c->host->constant(c, in);
  if (type != PF_FLOAT32 || !b || b->ndim != 2 || pf_numel(b) < LEAST_HELD) return PF_OK;
  pf_gemm g = {.m = 1,
               .k = b->shape[tb ? 1 : 0],
               .n = b->shape[tb ? 0 : 1],
               .b = PF_DATA(const void, b),
               .how = PF_GEMM_BLOCKED};
  if (g.n < HELD_LANES) return PF_OK;
  pf_gemm_layout(&g, 0, tb, g.k, b->shape[1]);
  void *panels;
  const pf_status st =
      pf_share(c, in, tb ? "transposed" : "", &panels_type, panels_make, &g, &panels);
  if (st) return st == PF_DECLINE ? PF_OK : st;
  held->panels = ((const pf_packed *)panels)->at;
  held->k = g.k;
  held->n = g.n;
  return c->host->drop_constant(c, in);
}
