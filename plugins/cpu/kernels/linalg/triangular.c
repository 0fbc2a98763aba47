/* triangular.c - triangular.h: halves of the triangle, down to blocks whose rows are substituted
 * one after the other, several columns in registers; what is between the halves is a product
 * (gemm.h).
 *
 * A library's solver may multiply whole blocks by inverses or pad them, so that a row's infinity
 * shows in its neighbours, on one processor and not on another.  Here nothing but a row's own
 * numbers reaches it, and a diagonal divides.
 *
 * A row of complex numbers is a row of twice as many real ones to products (gemm_complex.c).
 */
#include "linalg/triangular.h"
#include "gemm/gemm.h"
#include "vec/simd.h"

enum { BLOCK = 32, WIDE = 4 }; /* rows of a block; most vectors of a tile (complex: half) */
enum { TURN = 8 };             /* rows of a square of a matrix that is turned */

#define TILE_F32
#include "gemm/tile_begin.h"
#include "linalg/triangular_body.h"
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#include "linalg/triangular_body.h"
#include "gemm/tile_end.h"

static int is_single(int32_t type) { return type == PF_FLOAT32 || type == PF_COMPLEX64; }

static uint64_t work_of(const pf_triangle *p) {
  if (p->n == 0 || p->k == 0) return 64;
  return is_single(p->type) ? work_of_f32(p) : work_of_f64(p);
}
static void solve(const pf_triangle *p, void *work) {
  if (p->n == 0 || p->k == 0) return;
  if (is_single(p->type)) solve_f32(p, work);
  else solve_f64(p, work);
}
extern const pf_triangular PF_ISA_NAME(pf_triangular);
const pf_triangular PF_ISA_NAME(pf_triangular) = {work_of, solve};
