/* fused_program.h - programs of element-wise ops, run over blocks of elements that stay in
 * registers.
 *
 * `_FusedElementwise` computes a small program: instruction k makes value n_in + k from earlier
 * values (the inputs are values 0 .. n_in - 1).  Three forms of it:
 *
 *     text      "Mul 0 1;Add 2 3;Relu 4"     the attribute; parsed once (fused_program.c)
 *     program   fused_program                numbers, and a plan of steps, per node
 *     steps     fused_step[]                 per call, when it is known which inputs are scalars
 *
 * Steps are threaded code for a machine with one accumulator of NV vectors: each step works on the
 * accumulator and at most two operands in memory, and calls the next.  The accumulator is passed in
 * vector registers, so a chain of ops touches memory only for its operands.
 *
 * Invariants
 *   1. A step computes the expression of elementwise_exprs.h, as the op's own kernel does: equal
 *      bits.  half and bfloat16 are computed as float and rounded after every instruction; they
 *      become floats in the step that loads them, or in one before the step that reads them.
 *   2. `at[slot]` of a frame points to the block of a value: an input, a temporary or a result;
 *      or to one element, for scalars.
 *   3. A wide block is 8 vectors, a narrow one a single vector; both give equal results.
 * Threads: programs and steps are read-only; each thread has a frame.
 *
 * Fast path: chain_1048576 (docs/paths.md).
 */
#ifndef PF_CPU_FUSED_PROGRAM_H
#define PF_CPU_FUSED_PROGRAM_H
#include "base/common.h"
#include "base/isa.h"

enum {
  FUSED_INSTRUCTIONS = 64,
  FUSED_INPUTS = 32,
  FUSED_RESULTS = 8,
  FUSED_VALUES = FUSED_INPUTS + FUSED_INSTRUCTIONS,
  FUSED_SLOTS = FUSED_VALUES + FUSED_RESULTS,
  FUSED_STEPS = FUSED_INSTRUCTIONS * 4 + FUSED_RESULTS + 1 + FUSED_INPUTS,
  FUSED_BLOCK_BYTES = 512 /* the widest accumulator: 8 vectors of 64 bytes */
};

/* The accumulator's element type. */
enum { FUSED_F32 = 0, FUSED_F64 = 1, FUSED_I32 = 2, FUSED_KINDS = 3 };

#define FUSED_EACH_UNARY(X) \
  X(Abs) X(Neg) X(Sign) X(Square) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Floor) X(Ceil) X(Round) \
  X(Softsign) X(Relu) X(Relu6) X(LeakyRelu) X(Exp) X(Expm1) X(Log) X(Log1p) X(Tanh) X(Sigmoid) \
  X(Softplus) X(Elu) X(Selu) X(Erf) X(LogicalNot)
#define FUSED_EACH_BINARY(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(FloorDiv) X(Maximum) X(Minimum) X(SquaredDifference) X(DivNoNan) \
  X(MulNoNan) X(Xdivy) X(Xlogy) X(Equal) X(NotEqual) X(Less) X(LessEqual) X(Greater) \
  X(GreaterEqual) X(LogicalAnd) X(LogicalOr)
#define FUSED_EACH_GRAD(X) \
  X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad) X(ReluGrad) X(Relu6Grad) \
  X(LeakyReluGrad) X(EluGrad) X(SeluGrad) X(SoftplusGrad) X(SoftsignGrad)

#define FUSED_OPCODE(NAME) FUSED_##NAME,
enum {
  FUSED_EACH_UNARY(FUSED_OPCODE) FUSED_EACH_BINARY(FUSED_OPCODE) FUSED_EACH_GRAD(FUSED_OPCODE)
      FUSED_AddSame,
  FUSED_Select,
  FUSED_OPCODES,
  /* steps that are no instruction */
  FUSED_load = FUSED_OPCODES,
  FUSED_store,
  FUSED_stream,
  FUSED_store_half,
  FUSED_store_bfloat16,
  FUSED_store_bool,
  FUSED_round_half,
  FUSED_round_bfloat16,
  FUSED_MaximumPlain,
  FUSED_MinimumPlain,
  FUSED_load_half,
  FUSED_load_bfloat16,
  FUSED_widen_half,
  FUSED_widen_bfloat16,
  FUSED_stream_half,
  FUSED_stream_bfloat16,
  FUSED_fetch_bool,
  FUSED_exp_half,
  FUSED_tanh_half,
  FUSED_sigmoid_half,
  FUSED_end,
  FUSED_CODES
};

/* Where the operands of a step are: M in memory, S a scalar; R: the accumulator is the second one.
 * Of Select the accumulator is the condition, and the letters are those of the two others. */
enum {
  FUSED_M = 0,
  FUSED_S = 1,
  FUSED_RM = 2,
  FUSED_RS = 3,
  FUSED_VARIANTS = 4,
  FUSED_MM = 0,
  FUSED_SM = 1,
  FUSED_MS = 2,
  FUSED_SS = 3
};

/* A pointer that goes on by `step` from block to block.  The first FUSED_MOVED go without a loop:
 * the end of one of a few turns is predicted badly, which takes as long as a block (a * b + a in
 * the nearest caches: 1.7 times). */
typedef struct {
  void **at;
  int64_t step;
} fused_moving;
enum { FUSED_MOVED = 6, FUSED_POINTERS = FUSED_INPUTS + FUSED_RESULTS + 2 };
typedef struct {
  void *at[FUSED_SLOTS];
  void *halves[FUSED_INPUTS]; /* of inputs that steps make floats of, in `at` or registers */
  void *ahead[2];             /* `stream`: two inputs' next blocks, fetched; or NULL */
  int64_t left;               /* blocks to run, one after the other */
  int64_t n_moving;
  fused_moving moving[FUSED_POINTERS]; /* FUSED_MOVED at least */
  void *unused[FUSED_MOVED];           /* what moves where there are fewer */
} fused_frame;
typedef struct {
  void (*run)(void);   /* a fused_<kind>_run of the instruction set */
  int16_t slot, slot2; /* operands */
  int32_t pad;
  double p; /* the op's attribute */
} fused_step;
/* Two instructions with a scalar each make one step, where the machine has it: half the jumps. */
#define FUSED_EACH_PAIRED(X, A) X(A, Add) X(A, Sub) X(A, Mul) X(A, MaximumPlain) X(A, MinimumPlain)
#define FUSED_EACH_PAIR(X) \
  FUSED_EACH_PAIRED(X, Add) FUSED_EACH_PAIRED(X, Sub) FUSED_EACH_PAIRED(X, Mul) \
  FUSED_EACH_PAIRED(X, MaximumPlain) FUSED_EACH_PAIRED(X, MinimumPlain)
enum { PAIRED_Add, PAIRED_Sub, PAIRED_Mul, PAIRED_MaximumPlain, PAIRED_MinimumPlain, PAIRED_CODES };

/* n elements of y, at a multiple of 64 bytes, past the caches: a program of one instruction of a,
 * or of a and b, all of one type */
typedef void (*fused_past)(const void *a, const void *b, void *y, int64_t n);
typedef struct {
  int32_t elements; /* of a block */
  void (*run[FUSED_CODES][FUSED_VARIANTS])(void);
  void (*pair[PAIRED_CODES][PAIRED_CODES])(void); /* slot, slot2: the scalars, in order */
  void (*of_halves[PAIRED_Mul + 1][2])(void); /* Add, Sub, Mul: the operand is one of `halves` */
  void (*enter)(const fused_step *, fused_frame *);
  /* [type][op], types: float, half, bfloat16 */
  const fused_past (*past)[FUSED_OPCODES];
} fused_machine;

typedef struct {
  int16_t op, n, arg[3], strict;
  double p;
} fused_instruction;
typedef struct {
  int16_t code, variant, slot, slot2;
  double p;
} fused_plan_step;
typedef struct {
  int32_t n_in, n_instructions, n_results, strict; /* strict: an op wants equal shapes */
  int32_t unread;                                  /* there is an input that no result needs */
  int32_t n_steps, n_temporaries; /* slots FUSED_INPUTS + t; results: FUSED_VALUES + r */
  int16_t result[FUSED_RESULTS];  /* values */
  fused_instruction code[FUSED_INSTRUCTIONS];
  fused_plan_step steps[FUSED_STEPS]; /* as if no input was a scalar */
} fused_program;

typedef struct {
  pf_str text; /* attributes */
  pf_list params, results, nodes;
  int32_t type;
  int32_t kind;                              /* FUSED_F32, ... */
  const fused_machine *const (*machines)[2]; /* of this instruction set: [kind][wide] */
  fused_program program;
} fused_state;

/* text, params, results -> program; an error names what is wrong and where */
pf_status fused_parse(pf_ctx *c, fused_state *s);

/* Which inputs are scalars, and how results are stored -> steps. */
enum { FUSED_PLAIN = 2 }; /* a scalar that is neither NaN nor zero */
typedef struct {
  const fused_machine *machine;
  const uint8_t *scalar; /* per input: 0, 1 or FUSED_PLAIN */
  const int16_t *store;  /* per result: the storing code, or -1: not wanted */
  const uint8_t *halves; /* per input: read from the frame's `halves` */
  int32_t type;          /* of the elements */
} fused_choice;
void fused_specialise(const fused_program *p, const fused_choice *how, fused_step *steps);

pf_status fused_init(pf_ctx *c, fused_state *s, const fused_machine *const (*machines)[2]);
pf_status fused_compute(pf_ctx *c, const void *state);
#endif
