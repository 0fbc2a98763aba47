/* pool_gradient.c - gradients of maxima and averages over windows (pool.h).
 *
 *   give       windows that share nothing: one pass finds a maximum in registers and writes every
 *              place of its window
 *   gather     windows that overlap: one pass notes where each maximum is, a second lets every
 *              place add up what the windows over it give; the notes of some images at a time, so
 *              that they stay in the caches (AVX-512: bytes for windows of three columns)
 *   share      averages: every place adds up its shares
 *
 * Images of one channel (channels first) are taken a vector at a time, turned so that its lanes are
 * their channels, and what they get is turned back: `planes`.
 *
 * Invariants
 *   1. Every element of dx is written once, by one task; its sum runs over windows in their order.
 *   2. Halves are added up as float and rounded once.
 *   3. A place is told by its distance from its window's first place (`place`), in elements of one
 *      channel: less than in[0] * in[1] * in[2], which fits int32.
 * Threads: parallel_for over rows.
 */
#include "base/machine.h"
#include "pool/pool.h"
#include "vec/vfloat.h"
#include "move/transpose.h"

/* Notes, and halves as floats, of images in one go: by all threads, or by each of its own. */
enum { SLAB_BYTES = 2 * PF_L2_BYTES, NEAR_BYTES = PF_L2_BYTES / 4, GROUPS_EACH = 4 };
typedef struct {
  const pf_pool *p;
  const void *x, *dy;
  void *dx, *at, *best;
  int64_t *elements;
  pf_span inside;
  const pf_span *windows, *covering; /* of the last dimension: columns of windows, and back */
  int32_t gaps, stream, apart;       /* apart: each place is in one window */
  int32_t bytes;                     /* notes are bytes */
  int64_t pitch;                     /* of codes: from a place to the one below */
} job;

/* A window: its size, steps in elements and steps of codes (those along a row are 1). */
typedef struct {
  int64_t planes, rows, cols, c, plane_step, row_step, plane_code, row_code;
  int64_t start; /* element of the image, of its first place */
} place;
PF_INLINE place place_of(const pf_pool *p, int64_t oz, int64_t oy, int64_t ox) {
  const pf_span z = pf_pool_window(p, 0, oz), y = pf_pool_window(p, 1, oy),
                x = pf_pool_window(p, 2, ox);
  const int64_t row = p->in[2], plane = p->in[1] * row;
  return (place){z.hi - z.lo, y.hi - y.lo,  x.hi - x.lo,
                 p->c,        plane * p->c, row * p->c,
                 plane,       row,          (z.lo * plane + y.lo * row + x.lo) * p->c};
}

/* Row i of all images: where it is and which rows of windows lie over it. */
typedef struct {
  int64_t at_z, at_y, outputs;
  pf_span z, y;
} rows_of;
PF_INLINE rows_of rows_that_cover(const pf_pool *p, int64_t i) {
  const int64_t rows = p->in[0] * p->in[1], z = i % rows / p->in[1], y = i % p->in[1];
  return (rows_of){z, y, i / rows * p->out[0] * p->out[1], pf_pool_covering(p, 0, z),
                   pf_pool_covering(p, 1, y)};
}
/* The code of such a row's first place in the windows of row (oz, oy). */
PF_INLINE int64_t row_code(const job *j, const rows_of *r, int64_t oz, int64_t oy) {
  const pf_pool *p = j->p;
  const int64_t z = r->at_z - pf_pool_window(p, 0, oz).lo;
  const int64_t y = r->at_y - pf_pool_window(p, 1, oy).lo;
  return (z * p->in[1] + y) * j->pitch;
}

/* The rows of windows over such a row: first element, code and height; no if there are many. */
enum { LISTED = 16 };
typedef struct {
  int n;
  int64_t first[LISTED], code[LISTED], height[LISTED];
} row_list;
static int list_rows(const job *j, const rows_of *r, row_list *l) {
  const pf_pool *p = j->p;
  l->n = 0;
  for (int64_t oz = r->z.lo; oz < r->z.hi; oz++)
    for (int64_t oy = r->y.lo; oy < r->y.hi; oy++, l->n++) {
      if (l->n == LISTED) return 0;
      const pf_span z = pf_pool_window(p, 0, oz), y = pf_pool_window(p, 1, oy);
      l->first[l->n] = (r->outputs + oz * p->out[1] + oy) * p->out[2] * p->c;
      l->code[l->n] = row_code(j, r, oz, oy);
      l->height[l->n] = (z.hi - z.lo) * (y.hi - y.lo);
    }
  return 1;
}

/* Places from window o's first to the next window's, the first's and the last's beyond included. */
PF_INLINE pf_span own(const pf_pool *p, int d, int64_t o) {
  return (pf_span){o == 0 ? 0 : pf_pool_window(p, d, o).lo,
                   o == p->out[d] - 1 ? p->in[d] : pf_pool_window(p, d, o + 1).lo};
}
static void clear_own(const pf_pool *p, int64_t oz, int64_t oy, void *dx, size_t size) {
  const pf_span z = own(p, 0, oz), y = own(p, 1, oy);
  const size_t row = (size_t)(p->in[2] * p->c) * size;
  for (int64_t i = z.lo; i < z.hi; i++)
    memset((char *)dx + (size_t)(i * p->in[1] + y.lo) * row, 0, (size_t)(y.hi - y.lo) * row);
}

/* ---------------------------------------------------------------- lanes that are picked */
#if defined(__SSE2__)
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
#else
#define PREFETCH(p) (void)(p)
#endif
#define EACH(u) _Pragma("GCC unroll 4") for (int i = 0; i < (u); i++)
#if defined(__AVX512F__)
#define STREAM_FENCE() _mm_sfence()
#define STREAM_F32(p, v) _mm512_stream_ps(p, v)
#define STREAM_F64(p, v) _mm512_stream_pd(p, v)
#elif defined(__AVX2__)
#define STREAM_FENCE() _mm_sfence()
#define STREAM_F32(p, v) _mm256_stream_ps(p, v)
#define STREAM_F64(p, v) _mm256_stream_pd(p, v)
#else
#define STREAM_FENCE() (void)0
#define STREAM_F32 pf_vf_store
#define STREAM_F64 pf_vd_store
#endif
#if defined(__AVX512F__)
typedef __mmask16 mask_f32;
typedef __mmask8 mask_f64;
typedef __m512i lanes_f32;
typedef __m512i lanes_f64;
#define GREATER_F32(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define GREATER_F64(a, b) _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ)
#define EQUAL_F32 _mm512_cmpeq_epi32_mask
#define EQUAL_F64 _mm512_cmpeq_epi64_mask
#define PICK_F32(m, yes, no) _mm512_mask_mov_ps(no, m, yes)
#define PICK_F64(m, yes, no) _mm512_mask_mov_pd(no, m, yes)
#define I_PICK_F32(m, yes, no) _mm512_mask_mov_epi32(no, m, yes)
#define I_PICK_F64(m, yes, no) _mm512_mask_mov_epi64(no, m, yes)
#define I_SET_F32 _mm512_set1_epi32
#define I_SET_F64 _mm512_set1_epi64
#define I_ADD_F32 _mm512_add_epi32
#define I_ADD_F64 _mm512_add_epi64
#else
typedef int32_t lanes_f32 __attribute__((vector_size(4 * PF_VF)));
typedef int64_t lanes_f64 __attribute__((vector_size(8 * PF_VD)));
typedef lanes_f32 mask_f32;
typedef lanes_f64 mask_f64;
#define GREATER_F32(a, b) ((lanes_f32)((a) > (b)))
#define GREATER_F64(a, b) ((lanes_f64)((a) > (b)))
#define EQUAL_F32(a, b) ((lanes_f32)((a) == (b)))
#define EQUAL_F64(a, b) ((lanes_f64)((a) == (b)))
#define I_PICK_F32(m, yes, no) (((yes) & (m)) | ((no) & ~(m)))
#define I_PICK_F64 I_PICK_F32
#define I_ADD_F32(a, b) ((a) + (b))
#define I_ADD_F64 I_ADD_F32
#define PICK_F32(m, yes, no) ((pf_vf)I_PICK_F32(m, (lanes_f32)(yes), (lanes_f32)(no)))
#define PICK_F64(m, yes, no) ((pf_vd)I_PICK_F64(m, (lanes_f64)(yes), (lanes_f64)(no)))
PF_INLINE lanes_f32 I_SET_F32(int32_t x) { return (lanes_f32){0} + x; }
PF_INLINE lanes_f64 I_SET_F64(int64_t x) { return (lanes_f64){0} + x; }
#endif
#define LANES(tag, I) \
PF_INLINE lanes_##tag load_i_##tag(const I *p) { \
  lanes_##tag v; \
  memcpy(&v, p, sizeof v); \
  return v; \
} \
PF_INLINE void store_i_##tag(I *p, lanes_##tag v) { memcpy(p, &v, sizeof v); }
LANES(f32, int32_t)
LANES(f64, int64_t)
#if defined(__AVX512F__)
enum { BYTES = 1 }; /* notes of small windows are bytes */
PF_INLINE void store_bytes_f32(void *p, lanes_f32 v) {
  _mm_storeu_si128(p, _mm512_cvtepi32_epi8(v));
}
PF_INLINE void store_bytes_f64(void *p, lanes_f64 v) {
  _mm_storel_epi64(p, _mm512_cvtepi64_epi8(v));
}
PF_INLINE lanes_f32 load_bytes_f32(const void *p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(p));
}
PF_INLINE lanes_f64 load_bytes_f64(const void *p) {
  return _mm512_cvtepi8_epi64(_mm_loadl_epi64(p));
}
PF_INLINE lanes_f32 load_i_part_f32(const int32_t *p, int n) {
  return _mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), p);
}
PF_INLINE lanes_f64 load_i_part_f64(const int64_t *p, int n) {
  return _mm512_maskz_loadu_epi64((__mmask8)((1u << n) - 1), p);
}
PF_INLINE void store_i_part_f32(int32_t *p, lanes_f32 v, int n) {
  _mm512_mask_storeu_epi32(p, (__mmask16)((1u << n) - 1), v);
}
PF_INLINE void store_i_part_f64(int64_t *p, lanes_f64 v, int n) {
  _mm512_mask_storeu_epi64(p, (__mmask8)((1u << n) - 1), v);
}
#else
#define PARTS(tag, I, N) \
PF_INLINE lanes_##tag load_i_part_##tag(const I *p, int n) { \
  I t[N] = {0}; \
  for (int i = 0; i < n && i < N; i++) t[i] = p[i]; \
  return load_i_##tag(t); \
} \
PF_INLINE void store_i_part_##tag(I *p, lanes_##tag v, int n) { \
  for (int i = 0; i < n && i < N; i++) p[i] = v[i]; \
}
PARTS(f32, int32_t, PF_VF)
PARTS(f64, int64_t, PF_VD)
enum { BYTES = 0 };
#define store_bytes_f32(p, v) store_i_f32((int32_t *)(void *)(p), v)    /* never called */
#define store_bytes_f64(p, v) store_i_f64((int64_t *)(void *)(p), v)
#define load_bytes_f32(p) load_i_f32((const int32_t *)(const void *)(p))
#define load_bytes_f64(p) load_i_f64((const int64_t *)(const void *)(p))
#endif

#define KIND(f) f##_f32
#define T float
#define V pf_vf
#define VL PF_VF
#define I int32_t
#define VI lanes_f32
#define MASK mask_f32
#define V_LOAD pf_vf_load
#define V_LOAD_PART pf_vf_load_part
#define V_STORE pf_vf_store
#define V_STORE_PART pf_vf_store_part
#define V_STREAM STREAM_F32
#define V_SET pf_vf_set
#define VI_SET I_SET_F32
#define VI_ADD I_ADD_F32
#define VI_LOAD load_i_f32
#define VI_LOAD_PART load_i_part_f32
#define VI_STORE store_i_f32
#define VI_STORE_BYTES store_bytes_f32
#define VI_LOAD_BYTES load_bytes_f32
#define VI_STORE_PART store_i_part_f32
#define GREATER GREATER_F32
#define EQUAL EQUAL_F32
#define PICK PICK_F32
#define I_PICK I_PICK_F32
#include "pool/pool_gradient_body.h"
#define KIND(f) f##_f64
#define T double
#define V pf_vd
#define VL PF_VD
#define I int64_t
#define VI lanes_f64
#define MASK mask_f64
#define V_LOAD pf_vd_load
#define V_LOAD_PART pf_vd_load_part
#define V_STORE pf_vd_store
#define V_STORE_PART pf_vd_store_part
#define V_STREAM STREAM_F64
#define V_SET pf_vd_set
#define VI_SET I_SET_F64
#define VI_ADD I_ADD_F64
#define VI_LOAD load_i_f64
#define VI_LOAD_PART load_i_part_f64
#define VI_STORE store_i_f64
#define VI_STORE_BYTES store_bytes_f64
#define VI_LOAD_BYTES load_bytes_f64
#define VI_STORE_PART store_i_part_f64
#define GREATER GREATER_F64
#define EQUAL EQUAL_F64
#define PICK PICK_F64
#define I_PICK I_PICK_F64
#include "pool/pool_gradient_body.h"

#include "pool/pool_planes_gradient.h"

/* ---------------------------------------------------------------- slabs of images */
/* fn over [0, n); here, where a thread has images of its own (no context). */
static pf_status over(pf_ctx *c, int64_t n, int64_t grain, pf_range fn, void *arg) {
  if (c) return pf_parallel(c, n, grain, fn, arg);
  fn(arg, 0, n, 0);
  return PF_OK;
}
typedef struct {
  int32_t type;
  const void *from;
  void *to;
} conversion;
static void widen(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_read(v->type, (const uint16_t *)v->from + lo, (float *)v->to + lo, hi - lo);
}
static void narrow(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_write(v->type, (const float *)v->from + lo, (uint16_t *)v->to + lo, hi - lo);
}

/* Groups of c images of `places` elements to and from one image of c channels, in pieces. */
enum { PIECE = 512 };
typedef struct {
  int64_t size, places, c;
  const void *from;
  void *to;
  int back;
} turning;
static void turn(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const turning *t = arg;
  const int64_t pieces = (t->places + PIECE - 1) / PIECE, ld = t->places;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t group = i / pieces * ld * t->c, at = i % pieces * PIECE;
    const int64_t n = PF_MIN(PIECE, ld - at);
    const int64_t plane = (group + at) * t->size, image = (group + at * t->c) * t->size;
    const char *from = t->from;
    char *to = t->to;
    if (t->back)
      PF_ISA_NAME(pf_mover).transpose(t->size, from + image, t->c, to + plane, ld, n, t->c);
    else PF_ISA_NAME(pf_mover).transpose(t->size, from + plane, ld, to + image, t->c, t->c, n);
  }
}
static pf_status turned(pf_ctx *c, turning t, int64_t groups) {
  const int64_t pieces = (t.places + PIECE - 1) / PIECE;
  return over(c, groups * pieces, pf_grain(PF_MIN(PIECE, t.places) * t.c), turn, &t);
}

typedef enum { MAX_GRADIENT, AVERAGE_GRADIENT, FIRST_MAXIMA } task;
/* one call: arrays of all images, and of a slab in scratch */
typedef struct {
  const pf_pool *p;
  int32_t type, size; /* size: of an element that is computed with */
  int32_t planes;     /* images are c of one channel in memory */
  int32_t bytes;      /* notes are bytes */
  task task;
  int64_t in, out, images; /* elements of an image; images of a slab */
  const void *x, *dy;
  void *result; /* dx, or maxima, or NULL */
  int64_t *elements;
  void *x_wide, *dy_wide, *result_wide, *at, *spans;
  int32_t rooms; /* such slabs: one, or one for each thread */
} call;

/* Windows of dimension d share no place. */
static int apart(const pf_pool *p, int d) { return p->k[d] <= p->stride[d] || p->out[d] == 1; }
static int all_apart(const pf_pool *p) { return apart(p, 0) && apart(p, 1) && apart(p, 2); }
static int gives(const call *v) { return v->task == MAX_GRADIENT && all_apart(v->p); }
/* Places that no window covers. */
static int has_gaps(const pf_pool *p) {
  for (int d = 0; d < 3; d++) {
    const int64_t last = pf_pool_window(p, d, p->out[d] - 1).hi;
    if (last < p->in[d] || (p->out[d] > 1 && p->k[d] < p->stride[d])) return 1;
  }
  return 0;
}

static int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static pf_status take(pf_ctx *c, int64_t bytes, int32_t rooms, void **p) {
  *p = c->host->scratch(c, (uint64_t)(whole_lines(bytes) * rooms) + 64, 64);
  return *p ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for pooled images");
}
static void *room_of(void *p, int64_t bytes, int32_t room) {
  return p ? (char *)p + whole_lines(bytes) * room : NULL;
}
/* Columns of windows and windows of columns: divisions done once. */
static pf_status take_spans(pf_ctx *c, call *v) {
  const pf_pool *p = v->p;
  PF_TRY(take(c, (p->out[2] + p->in[2]) * (int64_t)sizeof(pf_span), 1, &v->spans));
  pf_span *s = v->spans;
  for (int64_t i = 0; i < p->out[2]; i++) *s++ = pf_pool_window(p, 2, i);
  for (int64_t i = 0; i < p->in[2]; i++) *s++ = pf_pool_covering(p, 2, i);
  return PF_OK;
}
/* Whether codes of windows fit bytes and no element is alone: `spread` does all. */
static int small_windows(const call *v) {
  const pf_pool *p = v->p;
  return BYTES && v->task == MAX_GRADIENT && !gives(v) && p->in[0] == 1 && p->k[1] <= 5 &&
         p->k[2] == 3 && p->stride[2] <= 2 && p->c % (64 / v->size) == 0;
}
/* Bytes of a slab: notes, x, dy, result. */
typedef struct { int64_t at, x, dy, result; } sizes;
static sizes sizes_of(const call *v) {
  const int64_t result = v->task == FIRST_MAXIMA ? v->out : v->in;
  return (sizes){v->images * v->out * (v->bytes ? 1 : v->size), v->images * v->in * v->size,
                 v->images * v->out * v->size, v->images * result * v->size};
}
/* Threads that have groups of images of their own wait for nobody and find them near. */
static void set_images(pf_ctx *c, call *v, int64_t each) {
  const int64_t n = v->p->n, near = PF_MAX(1, PF_MIN(n, NEAR_BYTES / each));
  const int32_t workers = c->host->workers(c);
  v->rooms = workers == 1 || (n + near - 1) / near >= GROUPS_EACH * (int64_t)workers ? workers : 0;
  v->images = v->rooms ? near : PF_MAX(1, PF_MIN(n, SLAB_BYTES / each));
}
static pf_status take_slab(pf_ctx *c, call *v) {
  v->bytes = small_windows(v);
  const int half = pf_is_half(v->type), notes = v->task != AVERAGE_GRADIENT && !gives(v);
  const int64_t arrays = (v->in * (v->task == FIRST_MAXIMA ? 1 : 2) + v->out) * v->size;
  const int64_t wide = half || v->planes ? arrays : 0;
  const int64_t each = wide + (notes ? v->out * (v->bytes ? 1 : v->size) : 0);
  v->images = v->p->n;
  if (each) set_images(c, v, each);
  const sizes s = sizes_of(v);
  const int32_t rooms = PF_MAX(v->rooms, 1);
  if (notes) PF_TRY(take(c, s.at, rooms, &v->at));
  if (!wide) return PF_OK;
  if (v->x) PF_TRY(take(c, s.x, rooms, &v->x_wide));
  if (v->dy) PF_TRY(take(c, s.dy, rooms, &v->dy_wide));
  return v->result ? take(c, s.result, rooms, &v->result_wide) : PF_OK;
}

static pf_status run_rows(pf_ctx *c, int64_t rows, double work, pf_range fn, job *j) {
  return over(c, rows, work > PF_GRAIN ? 1 : 1 + PF_GRAIN / (int64_t)(work + 1), fn, j);
}

/* The passes over a slab of n images, all of whose arrays are of the computing type. */
static pf_status run_slab(pf_ctx *c, const call *v, int64_t n, job *j) {
  const pf_pool *p = v->p;
  const int f64 = v->type == PF_FLOAT64;
  const int64_t out_rows = n * p->out[0] * p->out[1], in_rows = n * p->in[0] * p->in[1];
  const double places = (double)PF_MIN(p->k[0], p->in[0]) * (double)PF_MIN(p->k[1], p->in[1]) *
                        (double)PF_MIN(p->k[2], p->in[2]);
  const double out_work = 2 * places * (double)(p->out[2] * p->c);
  const double in_work = out_work * (double)out_rows / (double)in_rows + (double)(p->in[2] * p->c);
  j->apart = all_apart(p) && !has_gaps(p);
  j->bytes = v->bytes, j->pitch = v->bytes ? p->k[2] : p->in[2];
  if (v->task == AVERAGE_GRADIENT)
    return run_rows(c, in_rows, in_work, f64 ? share_rows_f64 : share_rows_f32, j);
  if (gives(v)) {
    j->gaps = has_gaps(p);
    return run_rows(c, out_rows, out_work, f64 ? give_rows_f64 : give_rows_f32, j);
  }
  PF_TRY(run_rows(c, out_rows, out_work, f64 ? first_rows_f64 : first_rows_f32, j));
  if (v->task == FIRST_MAXIMA)
    return run_rows(c, out_rows, out_work, f64 ? element_rows_f64 : element_rows_f32, j);
  return run_rows(c, in_rows, in_work, f64 ? gather_rows_f64 : gather_rows_f32, j);
}

static const void *at_image(const void *p, int64_t elements, int32_t type) {
  return p ? (const char *)p + elements * pf_type_size(type) : NULL;
}
/* Arrays of a slab of n images of `each` elements as they are computed with, and back. */
static pf_status widened(pf_ctx *c, const call *v, const void **x, void *wide, int64_t n,
                         int64_t each) {
  const void *from = *x;
  if (!wide) return PF_OK;
  *x = wide;
  if (v->planes) return turned(c, (turning){v->size, each / v->p->c, v->p->c, from, wide, 0}, n);
  return over(c, n * each, PF_GRAIN, widen, &(conversion){v->type, from, wide});
}
static pf_status narrowed(pf_ctx *c, const call *v, void *to, int64_t n, int64_t each) {
  const void *from = v->result_wide;
  if (!from) return PF_OK;
  if (v->planes) return turned(c, (turning){v->size, each / v->p->c, v->p->c, from, to, 1}, n);
  return over(c, n * each, PF_GRAIN, narrow, &(conversion){v->type, from, to});
}

/* Images [i, i + n), a slab. */
static pf_status run_images(pf_ctx *c, const call *v, int64_t i, int64_t n) {
  const pf_pool *p = v->p;
  const int64_t result = v->task == FIRST_MAXIMA ? v->out : v->in;
  void *to = (void *)at_image(v->result, i * result, v->type);
  job j = {.p = p, .at = v->at, .inside = pf_pool_inside(p, 2), .windows = v->spans};
  j.covering = j.windows + p->out[2];
  j.x = at_image(v->x, i * v->in, v->type), j.dy = at_image(v->dy, i * v->out, v->type);
  j.elements = v->elements ? v->elements + i * v->out : NULL;
  PF_TRY(widened(c, v, &j.x, v->x_wide, n, v->in));
  PF_TRY(widened(c, v, &j.dy, v->dy_wide, n, v->out));
  void *computed = v->result_wide ? v->result_wide : to;
  if (v->task == FIRST_MAXIMA) j.best = computed;
  else j.dx = computed;
  j.stream = computed == to && v->in * p->n * v->size >= PF_STREAM_BYTES &&
             (uintptr_t)to % 64 == 0 && p->c * v->size % 64 == 0;
  PF_TRY(run_slab(c, v, n, &j));
  return narrowed(c, v, to, n, result);
}
static void groups_of_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  call v = *(const call *)arg;
  const sizes s = sizes_of(&v);
  v.at = room_of(v.at, s.at, worker), v.x_wide = room_of(v.x_wide, s.x, worker);
  v.dy_wide = room_of(v.dy_wide, s.dy, worker);
  v.result_wide = room_of(v.result_wide, s.result, worker);
  for (int64_t i = lo * v.images; i < PF_MIN(hi * v.images, v.p->n); i += v.images)
    (void)run_images(NULL, &v, i, PF_MIN(v.images, v.p->n - i)); /* alone, it cannot fail */
}

static pf_status run_call(pf_ctx *c, call *v) {
  const pf_pool *p = v->p;
  if (pf_pool_volume(p->in) > INT32_MAX)
    return pf_failf(c, PF_UNIMPLEMENTED, "an image has more than %d places", INT32_MAX);
  if (v->out == 0) {
    const int64_t result = v->task == FIRST_MAXIMA ? v->out : v->in;
    memset(v->result, 0, (size_t)(p->n * result * pf_type_size(v->type)));
    return PF_OK;
  }
  PF_TRY(take_slab(c, v));
  PF_TRY(take_spans(c, v));
  if (v->rooms)
    return pf_parallel(c, (p->n + v->images - 1) / v->images, pf_grain(v->images * v->in),
                       groups_of_images, v);
  for (int64_t i = 0; i < p->n; i += v->images)
    PF_TRY(run_images(c, v, i, PF_MIN(v->images, p->n - i)));
  return PF_OK;
}

static call call_of(const pf_pool *p, int32_t type, task task) {
  return (call){.p = p,
                .type = type,
                .size = type == PF_FLOAT64 ? 8 : 4,
                .task = task,
                .in = pf_pool_volume(p->in) * p->c,
                .out = pf_pool_volume(p->out) * p->c};
}
/* A gradient; of images of one channel first as many as fill vectors. */
static pf_status gradient(pf_ctx *c, const pf_pool *p, int32_t type, task task, const void *x,
                          const void *dy, void *dx) {
  const int64_t lanes = type == PF_FLOAT64 ? PF_VD : PF_VF;
  const int64_t n = p->c > 1 || pf_is_half(type) ? 0 : p->n / lanes * lanes;
  pf_pool planes = *p, rest = *p;
  if (task == MAX_GRADIENT && are_planes(p, type)) return run_planes(c, p, x, dy, dx);
  planes.n = n / lanes, planes.c = lanes, rest.n = p->n - n;
  if (n) {
    call v = call_of(&planes, type, task);
    v.planes = 1, v.x = x, v.dy = dy, v.result = dx;
    PF_TRY(run_call(c, &v));
  }
  if (!rest.n) return PF_OK;
  call v = call_of(&rest, type, task);
  v.x = at_image(x, n * v.in, type), v.dy = at_image(dy, n * v.out, type);
  v.result = (void *)at_image(dx, n * v.in, type);
  return run_call(c, &v);
}
pf_status PF_ISA_NAME(pf_pool_max_gradient)(pf_ctx *c, const pf_pool *p, int32_t type,
                                            const void *x, const void *dy, void *dx) {
  return gradient(c, p, type, MAX_GRADIENT, x, dy, dx);
}
pf_status PF_ISA_NAME(pf_pool_average_gradient)(pf_ctx *c, const pf_pool *p, int32_t type,
                                                const void *dy, void *dx) {
  return gradient(c, p, type, AVERAGE_GRADIENT, NULL, dy, dx);
}
pf_status PF_ISA_NAME(pf_pool_first_maxima)(pf_ctx *c, const pf_pool *p, int32_t type,
                                            const void *x, void *y, int64_t *at) {
  call v = call_of(p, type, FIRST_MAXIMA);
  v.x = x, v.result = y, v.elements = at;
  return run_call(c, &v);
}
