/* launch.h - the three shapes every own kernel has: for each index, for each index with loads
 * first, one result per row.
 *
 *     each(c, n, f)                   f(i) for i in [0, n)
 *     map(c, n, f)                    f.store(i, f.load(i)): several loads are under way before
 *                                     the first store
 *     reduce(c, rows, cols, f, lie)   for each row: a = f.zero(); a = f.add(a, row, col) for its
 *                                     columns; f.finish(row, a); partial results meet in f.join
 *
 * f is a small struct of numbers and pointers with __host__ __device__ members, passed by value. On
 * the device these run on the call's stream; on_host variants run in parallel_for of the host, for
 * kernels whose arguments live in host memory; and with PF_CUDA_EMULATED everything does, in a
 * loop, with the device's division of the work where results could depend on it (reduce).
 *
 * Invariants
 *   1. Indices are 64-bit.
 *   2. `reduce` joins in an order fixed by the sizes alone: equal inputs give equal bits.
 *   3. Scratch (room) is the host's: freed in stream order after the call, so that work enqueued
 *      before may still use it.
 */
#ifndef PF_CUDA_LAUNCH_H
#define PF_CUDA_LAUNCH_H
#include "device.h"
#include "numbers.h"

/* device memory for the duration of this call's enqueued work */
struct room {
  pf_ctx *c;
  void *data;
  explicit room(pf_ctx *c_) : c(c_), data(NULL) {}
  pf_status take(uint64_t n) {
    data = c->host->scratch(c, n ? n : 1, 64);
    if (data) return PF_OK;
    return failf(c, PF_RESOURCE_EXHAUSTED, "no device memory for %" PRIu64 " bytes of scratch", n);
  }
};

/* ---------------------------------------------------------------- on the host's threads */
template <class F> struct host_loop {
  static void run(void *arg, int64_t lo, int64_t hi, int32_t) {
    F f = *(const F *)arg;
    for (int64_t i = lo; i < hi; i++) f(i);
  }
};
template <class F> pf_status each_on_host(pf_ctx *c, int64_t n, F f) {
  enum { GRAIN = 8192 };
  if (n > GRAIN) return c->host->parallel_for(c, n, GRAIN, host_loop<F>::run, &f);
  host_loop<F>::run(&f, 0, n, 0);
  return PF_OK;
}
/* neighbouring columns, or neighbouring rows, are neighbours in memory */
enum rows_lie { ROWS_APART, ROWS_SIDE_BY_SIDE };
template <class F> pf_status reduce_on_host(pf_ctx *, int64_t rows, int64_t cols, F f) {
  for (int64_t r = 0; r < rows; r++) {
    auto a = f.zero();
    for (int64_t k = 0; k < cols; k++) a = f.add(a, r, k);
    f.finish(r, a);
  }
  return PF_OK;
}

enum { THREADS = 256, ITEMS = 4 };
#ifdef PF_CUDA_EMULATED
template <class F> pf_status each(pf_ctx *, int64_t n, F f) {
  for (int64_t i = 0; i < n; i++) f(i);
  return PF_OK;
}
template <class F> pf_status map(pf_ctx *, int64_t n, F f) {
  for (int64_t i = 0; i < n; i++) f.store(i, f.load(i));
  return PF_OK;
}
#else
template <class F> __global__ void __launch_bounds__(THREADS) each_kernel(F f, int64_t n) {
  int64_t step = (int64_t)gridDim.x * THREADS;
  PF_ROLLED for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) f(i);
}
/* about 16 bytes under way per thread */
template <class F> struct items_of {
  static constexpr int n = 16 / (int)sizeof(typename F::value);
  static constexpr int value = n < 1 ? 1 : n > ITEMS ? ITEMS : n;
};
template <class F> __global__ void __launch_bounds__(THREADS) map_kernel(F f, int64_t n) {
  constexpr int items = items_of<F>::value;
  int64_t step = (int64_t)gridDim.x * THREADS;
  PF_ROLLED for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
                 i += step * items) {
    typename F::value v[items];
#pragma unroll
    for (int k = 0; k < items; k++)
      if (i + k * step < n) v[k] = f.load(i + k * step);
#pragma unroll
    for (int k = 0; k < items; k++)
      if (i + k * step < n) f.store(i + k * step, v[k]);
  }
}
static inline unsigned blocks_for(pf_ctx *c, int64_t n, int64_t per_block) {
  int64_t most_blocks = (int64_t)device_of(c)->sm_count * 16,
          wanted = (n + per_block - 1) / per_block;
  return (unsigned)most((int64_t)1, least(wanted, most_blocks));
}
template <class F> pf_status each(pf_ctx *c, int64_t n, F f) {
  if (n <= 0) return PF_OK;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  each_kernel<<<blocks_for(c, n, THREADS), THREADS, 0, stream_of(c)->cuda>>>(f, n);
  return check_cuda(c, cudaGetLastError(), "starting a kernel");
}
template <class F> pf_status map(pf_ctx *c, int64_t n, F f) {
  if (n <= 0) return PF_OK;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  map_kernel<<<blocks_for(c, n, THREADS * items_of<F>::value), THREADS, 0, stream_of(c)->cuda>>>(f,
                                                                                                 n);
  return check_cuda(c, cudaGetLastError(), "starting a kernel");
}
#endif

/* ---------------------------------------------------------------- reduce
 * A block is a tile of `height` rows by `width` threads that share a row's columns: thread (r, k)
 * takes columns k, k + width, ... of a piece; halves of the tile are joined until one column is
 * left.  Where rows are cut into pieces, a second launch joins them: its columns are the pieces. */
typedef struct {
  int64_t rows, cols, piece, pieces, jobs;
  int32_t width, height; /* powers of two; width * height == THREADS */
  int32_t next_column;   /* 1: neighbouring threads take neighbouring columns, else rows */
} tiling;
static inline tiling tile_rows(int64_t rows, int64_t cols, rows_lie lie, bool whole) {
  tiling t = {rows, cols, cols, 1, 0, 1, THREADS, lie == ROWS_APART};
  if (lie == ROWS_APART) t.width = cols <= 8 ? 1 : cols <= 64 ? 8 : cols <= 1024 ? 32 : THREADS;
  else t.width = cols <= 16 ? 1 : 8;
  t.height = THREADS / t.width;
  int64_t groups = (rows + t.height - 1) / t.height;
  if (!whole) { /* enough pieces to fill a large GPU, each worth a block */
    int64_t wanted = (1024 + groups - 1) / groups, smallest = lie == ROWS_APART ? 4096 : 64;
    t.pieces = most((int64_t)1, least(wanted, cols / smallest));
    t.piece = (cols + t.pieces - 1) / t.pieces;
    t.pieces = most((int64_t)1, t.piece ? (cols + t.piece - 1) / t.piece : 1);
  }
  t.jobs = groups * t.pieces;
  return t;
}
PF_BOTH int tile_column(const tiling &t, int thread) {
  return t.next_column ? thread % t.width : thread / t.height;
}
PF_BOTH int64_t tile_row(const tiling &t, int64_t job, int thread) {
  int r = t.next_column ? thread / t.width : thread % t.height;
  return job / t.pieces * t.height + r;
}
/* threads between a thread and its neighbour in the same row */
PF_BOTH int tile_step(const tiling &t) { return t.next_column ? 1 : t.height; }
/* what one thread contributes; from: partial results instead of f's own elements */
template <class F, class A>
PF_BOTH A tile_part(const F &f, const tiling &t, int64_t job, int thread, const A *from) {
  int64_t row = tile_row(t, job, thread), first = job % t.pieces * t.piece;
  int64_t k = first + tile_column(t, thread), end = least(t.cols, first + t.piece);
  A a = f.zero();
  if (row >= t.rows) return a;
  if (from)
    for (; k < end; k += t.width) a = f.join(a, from[row * t.cols + k]);
  else
    for (; k < end; k += t.width) a = f.add(a, row, k);
  return a;
}
template <class F, class A>
PF_BOTH void tile_finish(const F &f, const tiling &t, int64_t job, int thread, A a, A *to) {
  int64_t row = tile_row(t, job, thread);
  if (row >= t.rows) return;
  if (to) to[row * t.pieces + job % t.pieces] = a;
  else f.finish(row, a);
}

#ifdef PF_CUDA_EMULATED
template <class F, class A>
pf_status run_tiles(pf_ctx *, const F &f, const tiling &t, const A *from, A *to) {
  A shared[THREADS];
  int step = tile_step(t);
  for (int64_t job = 0; job < t.jobs; job++) {
    for (int i = 0; i < THREADS; i++) shared[i] = tile_part(f, t, job, i, from);
    for (int w = t.width / 2; w; w /= 2)
      for (int i = 0; i < THREADS; i++)
        if (tile_column(t, i) < w) shared[i] = f.join(shared[i], shared[i + w * step]);
    for (int i = 0; i < THREADS; i++)
      if (tile_column(t, i) == 0) tile_finish(f, t, job, i, shared[i], to);
  }
  return PF_OK;
}
#else
template <class F, class A>
__global__ void __launch_bounds__(THREADS) tile_kernel(F f, tiling t, const A *from, A *to) {
  __shared__ A shared[THREADS];
  int i = threadIdx.x, column = tile_column(t, i), step = tile_step(t);
  for (int64_t job = blockIdx.x; job < t.jobs; job += gridDim.x) {
    shared[i] = tile_part(f, t, job, i, from);
    PF_ROLLED for (int w = t.width / 2; w; w /= 2) {
      __syncthreads();
      if (column < w) shared[i] = f.join(shared[i], shared[i + w * step]);
    }
    if (column == 0) tile_finish(f, t, job, i, shared[i], to);
    __syncthreads();
  }
}
template <class F, class A>
pf_status run_tiles(pf_ctx *c, const F &f, const tiling &t, const A *from, A *to) {
  unsigned grid = (unsigned)least(t.jobs, (int64_t)1 << 20);
  tile_kernel<<<grid, THREADS, 0, stream_of(c)->cuda>>>(f, t, from, to);
  return check_cuda(c, cudaGetLastError(), "starting a reduction");
}
#endif
template <class F> pf_status reduce(pf_ctx *c, int64_t rows, int64_t cols, F f, rows_lie lie) {
  typedef decltype(f.zero()) A;
  if (rows <= 0) return PF_OK;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  tiling t = tile_rows(rows, cols, lie, false);
  if (t.pieces == 1) return run_tiles<F, A>(c, f, t, NULL, NULL);
  room partial(c);
  int64_t bytes;
  if (!mul_ok(rows * (int64_t)sizeof(A), t.pieces, &bytes))
    return INVALID(c, "the tensor is too large to reduce");
  PF_TRY(partial.take((uint64_t)bytes));
  PF_TRY((run_tiles<F, A>(c, f, t, NULL, (A *)partial.data)));
  tiling rest = tile_rows(rows, t.pieces, ROWS_APART, true);
  return run_tiles<F, A>(c, f, rest, (const A *)partial.data, NULL);
}

/* reduce where elements of type T live: int32 in host memory, all others on the device */
template <class T, class F>
pf_status reduce_of(pf_ctx *c, int64_t rows, int64_t cols, F f, rows_lie lie) {
  if constexpr (host_type<T>::value) return reduce_on_host(c, rows, cols, f);
  else return reduce(c, rows, cols, f, lie);
}

static inline pf_status fill_zero(pf_ctx *c, DLTensor *t, int64_t bytes) {
  if (bytes <= 0) return PF_OK;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  return check_cuda(c, cudaMemsetAsync(PF_DATA(char, t), 0, (size_t)bytes, stream_of(c)->cuda),
                    "cudaMemsetAsync");
}
#endif
