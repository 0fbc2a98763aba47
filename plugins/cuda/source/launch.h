/* launch.h - the three shapes every own kernel has: for each index, for each index with loads
 * first, one result per row.
 *
 *     each(c, n, f)            f(i) for i in [0, n)
 *     map(c, n, f)             f.store(i, f.load(i)): several loads are under way before the first
 * store reduce(c, rows, cols, f, lie) for each row: a = f.zero(); a = f.add(a, row, col) for its
 * columns; f.finish(row, a)
 *
 * f is a small struct of numbers and pointers with __host__ __device__ members, passed by value. On
 * the device these run on the call's stream; on_host variants run in parallel_for of the host, for
 * kernels whose arguments live in host memory; and with PF_CUDA_EMULATED everything does, in a
 * loop.
 *
 * Invariants
 *   1. Indices are 64-bit.
 *   2. `reduce` joins in an order fixed by the sizes alone: equal inputs give equal bits.
 *   3. Scratch (room) is the host's: freed in stream order after the call, so that work enqueued
 * before may still use it.
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
enum rows_lie {
  ROWS_APART,
  ROWS_SIDE_BY_SIDE
}; /* neighbouring columns, or neighbouring rows, are neighbours in memory */
template <class F> pf_status reduce_on_host(pf_ctx *, int64_t rows, int64_t cols, F f) {
  for (int64_t r = 0; r < rows; r++) {
    auto a = f.zero();
    for (int64_t k = 0; k < cols; k++) a = f.add(a, r, k);
    f.finish(r, a);
  }
  return PF_OK;
}

#ifdef PF_CUDA_EMULATED
template <class F> pf_status each(pf_ctx *, int64_t n, F f) {
  for (int64_t i = 0; i < n; i++) f(i);
  return PF_OK;
}
template <class F> pf_status map(pf_ctx *, int64_t n, F f) {
  for (int64_t i = 0; i < n; i++) f.store(i, f.load(i));
  return PF_OK;
}
/* in pieces that are joined, as on the device */
template <class F> pf_status reduce(pf_ctx *, int64_t rows, int64_t cols, F f, rows_lie) {
  for (int64_t r = 0; r < rows; r++) {
    auto all = f.zero();
    for (int64_t first = 0; first < cols; first += 7) {
      auto a = f.zero();
      for (int64_t k = first; k < least(cols, first + 7); k++) a = f.add(a, r, k);
      all = f.join(all, a);
    }
    f.finish(r, all);
  }
  return PF_OK;
}
#else

enum { THREADS = 256, ITEMS = 4, COLUMN_WIDTH = 32, COLUMN_HEIGHT = 8 };
template <class F> __global__ void __launch_bounds__(THREADS) each_kernel(F f, int64_t n) {
  int64_t step = (int64_t)gridDim.x * THREADS;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) f(i);
}
template <class F> __global__ void __launch_bounds__(THREADS) map_kernel(F f, int64_t n) {
  int64_t step = (int64_t)gridDim.x * THREADS;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step * ITEMS) {
    typename F::value v[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
      if (i + k * step < n) v[k] = f.load(i + k * step);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
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
  map_kernel<<<blocks_for(c, n, THREADS * ITEMS), THREADS, 0, stream_of(c)->cuda>>>(f, n);
  return check_cuda(c, cudaGetLastError(), "starting a kernel");
}

/* ---------------------------------------------------------------- reduce
 * Columns are cut into `pieces`; a block makes the partial result of one (row, piece), or of 32
 * rows and one piece; pieces are joined in order by a second kernel. */
template <class F, class A> __global__ void __launch_bounds__(THREADS)
    apart_kernel(F f, int64_t rows, int64_t cols, int64_t piece, int64_t pieces, A *part) {
  __shared__ A shared[THREADS];
  for (int64_t job = blockIdx.x; job < rows * pieces; job += gridDim.x) {
    int64_t row = job / pieces, p = job % pieces, end = least(cols, (p + 1) * piece);
    A a = f.zero();
    for (int64_t k = p * piece + threadIdx.x; k < end; k += THREADS) a = f.add(a, row, k);
    shared[threadIdx.x] = a;
    __syncthreads();
    for (int w = THREADS / 2; w; w /= 2) {
      if ((int)threadIdx.x < w)
        shared[threadIdx.x] = f.join(shared[threadIdx.x], shared[threadIdx.x + w]);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      if (part) part[job] = shared[0];
      else f.finish(row, shared[0]);
    }
    __syncthreads();
  }
}
/* short rows: a thread each */
template <class F> __global__ void __launch_bounds__(THREADS)
    short_kernel(F f, int64_t rows, int64_t cols) {
  int64_t step = (int64_t)gridDim.x * THREADS;
  for (int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x; row < rows; row += step) {
    auto a = f.zero();
    for (int64_t k = 0; k < cols; k++) a = f.add(a, row, k);
    f.finish(row, a);
  }
}
template <class F, class A> __global__ void __launch_bounds__(THREADS)
    side_kernel(F f, int64_t rows, int64_t cols, int64_t piece, int64_t pieces, A *part) {
  __shared__ A shared[COLUMN_HEIGHT][COLUMN_WIDTH];
  int64_t groups = (rows + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
  int x = threadIdx.x % COLUMN_WIDTH, y = threadIdx.x / COLUMN_WIDTH;
  for (int64_t job = blockIdx.x; job < groups * pieces; job += gridDim.x) {
    int64_t row = job / pieces * COLUMN_WIDTH + x, p = job % pieces,
            end = least(cols, (p + 1) * piece);
    A a = f.zero();
    if (row < rows)
      for (int64_t k = p * piece + y; k < end; k += COLUMN_HEIGHT) a = f.add(a, row, k);
    shared[y][x] = a;
    __syncthreads();
    if (y == 0 && row < rows) {
      for (int k = 1; k < COLUMN_HEIGHT; k++) a = f.join(a, shared[k][x]);
      if (part) part[row * pieces + p] = a;
      else f.finish(row, a);
    }
    __syncthreads();
  }
}
template <class F, class A> __global__ void __launch_bounds__(THREADS)
    join_kernel(F f, int64_t rows, int64_t pieces, const A *part) {
  int64_t step = (int64_t)gridDim.x * THREADS;
  for (int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x; row < rows; row += step) {
    A a = part[row * pieces];
    for (int64_t p = 1; p < pieces; p++) a = f.join(a, part[row * pieces + p]);
    f.finish(row, a);
  }
}
/* enough pieces to fill a large GPU, each worth a block: from the sizes alone, so that results do
 * not depend on the machine */
static inline int64_t pieces_for(int64_t blocks, int64_t cols, int64_t smallest) {
  int64_t wanted = (1024 + blocks - 1) / blocks;
  return most((int64_t)1, least(wanted, cols / smallest));
}
template <class F> pf_status reduce(pf_ctx *c, int64_t rows, int64_t cols, F f, rows_lie lie) {
  typedef decltype(f.zero()) A;
  if (rows <= 0) return PF_OK;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  cudaStream_t s = stream_of(c)->cuda;
  if (cols <= 16 || (lie == ROWS_APART && cols <= 64 && rows >= 65536)) {
    short_kernel<<<blocks_for(c, rows, THREADS), THREADS, 0, s>>>(f, rows, cols);
    return check_cuda(c, cudaGetLastError(), "starting a kernel");
  }
  int64_t blocks = lie == ROWS_APART ? rows : (rows + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
  int64_t pieces = pieces_for(blocks, cols, lie == ROWS_APART ? 4096 : 64),
          piece = (cols + pieces - 1) / pieces;
  room partial(c);
  int64_t bytes;
  pieces = (cols + piece - 1) / piece;
  if (pieces > 1) {
    if (!mul_ok(rows * (int64_t)sizeof(A), pieces, &bytes))
      return INVALID(c, "the tensor is too large to reduce");
    PF_TRY(partial.take((uint64_t)bytes));
  }
  unsigned grid = (unsigned)least(blocks * pieces, (int64_t)1 << 20);
  if (lie == ROWS_APART)
    apart_kernel<<<grid, THREADS, 0, s>>>(f, rows, cols, piece, pieces, (A *)partial.data);
  else side_kernel<<<grid, THREADS, 0, s>>>(f, rows, cols, piece, pieces, (A *)partial.data);
  if (pieces > 1)
    join_kernel<<<blocks_for(c, rows, THREADS), THREADS, 0, s>>>(f, rows, pieces,
                                                                   (const A *)partial.data);
  return check_cuda(c, cudaGetLastError(), "starting a reduction");
}
#endif

/* map and reduce where elements of type T live: int32 in host memory, all others on the device */
template <class T, class F> pf_status map_of(pf_ctx *c, int64_t n, F f) {
  if constexpr (host_type<T>::value) return each_on_host(c, n, f);
  else return map(c, n, f);
}
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
