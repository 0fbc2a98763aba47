/* fused_program.c - programs of fused_program.h: from text to numbers, from numbers to steps.
 *
 *     program  =  instruction { ";" instruction }
 *     instruction  =  op { " " value }          "Mul 0 1"
 *
 * Op names are TensorFlow's op types; AddSame is an addition of equal shapes (a piece of AddN).
 * The text comes out of a GraphDef, so nothing about it is believed: names, numbers of operands,
 * and that values exist before they are used, are checked here, and nowhere later.
 *
 * Fast path: chain_1048576 (docs/paths.md).
 */
#include "fused/fused_program.h"

static void fused_plan(fused_program *p, int32_t type);

/* ---------------------------------------------------------------- the ops */
typedef struct {
  const char *name;
  int16_t op, n, strict;
} op_entry;
#define UNARY_ENTRY(NAME) {#NAME, FUSED_##NAME, 1, 0},
#define BINARY_ENTRY(NAME) {#NAME, FUSED_##NAME, 2, 0},
#define GRAD_ENTRY(NAME) {#NAME, FUSED_##NAME, 2, 1},
static const op_entry ops[] = {FUSED_EACH_UNARY(UNARY_ENTRY) FUSED_EACH_BINARY(BINARY_ENTRY)
                                   FUSED_EACH_GRAD(GRAD_ENTRY){"AddSame", FUSED_AddSame, 2, 1},
                               {"Select", FUSED_Select, 3, 1},
                               {"SelectV2", FUSED_Select, 3, 0},
                               {"AddV2", FUSED_Add, 2, 0},
                               {"BiasAdd", FUSED_Add, 2, 0},
                               {"RealDiv", FUSED_Div, 2, 0},
                               {"Inv", FUSED_Reciprocal, 1, 0},
                               {"Rint", FUSED_Round, 1, 0},
                               {"InvGrad", FUSED_ReciprocalGrad, 2, 1}};

static const op_entry *find_op(const char *name, int64_t len) {
  for (int64_t i = 0; i < PF_LEN(ops); i++)
    if ((int64_t)strlen(ops[i].name) == len && !memcmp(ops[i].name, name, (size_t)len))
      return &ops[i];
  return NULL;
}

/* ---------------------------------------------------------------- text -> program */
typedef struct { const char *at, *end; } cursor;
static int64_t word(cursor *t, const char **start) { /* up to the next space or semicolon */
  while (t->at < t->end && *t->at == ' ') t->at++;
  *start = t->at;
  while (t->at < t->end && *t->at != ' ' && *t->at != ';') t->at++;
  return t->at - *start;
}
static int32_t number(const char *text, int64_t len) { /* -1: none, or too large */
  int32_t n = 0;
  if (len < 1 || len > 3) return -1;
  for (int64_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9') return -1;
    n = 10 * n + (text[i] - '0');
  }
  return n;
}

static pf_status parse_instruction(pf_ctx *c, fused_program *p, cursor *t) {
  const char *text;
  int64_t len = word(t, &text);
  int32_t k = p->n_instructions;
  const op_entry *op = find_op(text, len);
  if (!op)
    return PF_INVALID(c, "program: instruction %d has the unknown op '%.*s'", k,
                      (int)PF_MIN(len, 64), text);
  if (k == FUSED_INSTRUCTIONS)
    return PF_INVALID(c, "program: more than %d instructions", FUSED_INSTRUCTIONS);
  fused_instruction *i = &p->code[p->n_instructions++];
  i->op = op->op, i->n = op->n, i->strict = op->strict;
  p->strict |= op->strict;
  for (int32_t a = 0; a < op->n; a++) {
    len = word(t, &text);
    int32_t value = number(text, len);
    if (value < 0 || value >= p->n_in + k)
      return PF_INVALID(c,
                        "program: operand %d of instruction %d (%s) must be a value from 0 to "
                        "%d, got '%.*s'",
                        a, k, op->name, p->n_in + k - 1, (int)PF_MIN(len, 64), text);
    i->arg[a] = (int16_t)value;
  }
  if (word(t, &text))
    return PF_INVALID(c, "program: instruction %d (%s) takes %d operands", k, op->name, op->n);
  return PF_OK;
}

static pf_status parse_results(pf_ctx *c, fused_state *s) {
  fused_program *p = &s->program;
  const int64_t *values = (const int64_t *)s->results.items;
  if (s->results.n < 1 || s->results.n > FUSED_RESULTS || s->results.n != c->n_out)
    return PF_INVALID(
        c, "results: from 1 to %d values, one per output, got %" PRId64 " for %d outputs",
        FUSED_RESULTS, s->results.n, c->n_out);
  p->n_results = c->n_out;
  for (int32_t r = 0; r < c->n_out; r++) {
    if (values[r] < p->n_in || values[r] >= p->n_in + p->n_instructions)
      return PF_INVALID(c, "results: must be values of instructions, %d to %d, got %" PRId64,
                        p->n_in, p->n_in + p->n_instructions - 1, values[r]);
    p->result[r] = (int16_t)values[r];
  }
  return PF_OK;
}

static int32_t has_unread_input(const fused_program *p) {
  uint8_t needed[FUSED_VALUES] = {0};
  int32_t unread = 0;
  for (int32_t r = 0; r < p->n_results; r++) needed[p->result[r]] = 1;
  for (int32_t k = p->n_instructions - 1; k >= 0; k--)
    for (int32_t a = 0; a < p->code[k].n && needed[p->n_in + k]; a++) needed[p->code[k].arg[a]] = 1;
  for (int32_t i = 0; i < p->n_in; i++) unread |= !needed[i];
  return unread;
}

pf_status fused_parse(pf_ctx *c, fused_state *s) {
  fused_program *p = &s->program;
  cursor t = {s->text.data, s->text.data + s->text.len};
  if (c->n_in < 1 || c->n_in > FUSED_INPUTS)
    return PF_INVALID(c, "inputs: from 1 to %d, got %d", FUSED_INPUTS, c->n_in);
  p->n_in = c->n_in;
  do { PF_TRY(parse_instruction(c, p, &t)); } while (t.at < t.end && t.at++);
  if (s->params.n && s->params.n != p->n_instructions)
    return PF_INVALID(c, "params: one per instruction or none, got %" PRId64 " for %d", s->params.n,
                      p->n_instructions);
  for (int32_t i = 0; i < s->params.n; i++) p->code[i].p = ((const double *)s->params.items)[i];
  PF_TRY(parse_results(c, s));
  p->unread = has_unread_input(p);
  fused_plan(p, s->type);
  return PF_OK;
}

/* ---------------------------------------------------------------- program -> steps */
typedef struct {
  fused_program *p;
  int32_t round, acc;         /* the rounding code or 0; the accumulator's value or -1 */
  int16_t uses[FUSED_VALUES]; /* operands that still want the value */
  int16_t slot[FUSED_VALUES]; /* where it lies in memory; -1: nowhere */
  uint8_t busy[FUSED_INSTRUCTIONS];
} compiler;

static fused_plan_step *emit(compiler *m, int32_t code, int32_t variant, int32_t slot, double p) {
  fused_plan_step *s = &m->p->steps[m->p->n_steps++];
  *s = (fused_plan_step){(int16_t)code, (int16_t)variant, (int16_t)slot, -1, p};
  return s;
}
static int32_t new_temporary(compiler *m) {
  int32_t t = 0;
  while (m->busy[t]) t++;
  m->busy[t] = 1;
  m->p->n_temporaries = PF_MAX(m->p->n_temporaries, t + 1);
  return FUSED_INPUTS + t;
}
static void used(compiler *m, int32_t value) { /* the last use frees a temporary */
  if (--m->uses[value] == 0 && value >= m->p->n_in && m->slot[value] >= 0)
    m->busy[m->slot[value] - FUSED_INPUTS] = 0;
}
static void load(compiler *m, int32_t value) {
  if (m->acc != value) emit(m, FUSED_load, 0, m->slot[value], 0);
  m->acc = value;
}

static void instruction(compiler *m, const fused_instruction *i) {
  int32_t a = i->arg[0], b = i->arg[1];
  if (i->n == 2 && m->acc == b && m->acc != a) {
    emit(m, i->op, FUSED_RM, m->slot[a], i->p);
  } else {
    load(m, a);
    fused_plan_step *s = emit(m, i->op, 0, i->n > 1 ? m->slot[b] : -1, i->p);
    if (i->n == 3) s->slot2 = m->slot[i->arg[2]];
  }
  for (int32_t k = 0; k < i->n; k++) used(m, i->arg[k]);
}

/* Results are exact in half precision when they are one of the operands, or a small integer. */
static int rounds(int32_t op) {
  switch (op) {
    case FUSED_Abs:
    case FUSED_Neg:
    case FUSED_Sign:
    case FUSED_Floor:
    case FUSED_Ceil:
    case FUSED_Round:
    case FUSED_Relu:
    case FUSED_Relu6:
    case FUSED_Maximum:
    case FUSED_Minimum:
    case FUSED_ReluGrad:
    case FUSED_Relu6Grad:
    case FUSED_Select:
    case FUSED_Equal:
    case FUSED_NotEqual:
    case FUSED_Less:
    case FUSED_LessEqual:
    case FUSED_Greater:
    case FUSED_GreaterEqual:
    case FUSED_LogicalAnd:
    case FUSED_LogicalOr:
    case FUSED_LogicalNot: return 0;
    default: return 1;
  }
}

/* Is value n_in + k wanted from memory: by an instruction that does not follow at once, as its
 * second or third operand, or twice? */
static int wants_memory(const compiler *m, int32_t k) {
  int32_t value = m->p->n_in + k;
  if (m->uses[value] != 1) return m->uses[value] > 1;
  const fused_instruction *next = &m->p->code[k + 1];
  return !(next->arg[0] == value || (next->n == 2 && next->arg[1] == value));
}

static void fused_plan(fused_program *p, int32_t type) {
  compiler m;
  memset(&m, 0, sizeof m);
  m.p = p, m.acc = -1;
  m.round = type == PF_FLOAT16 ? FUSED_round_half : type == PF_BFLOAT16 ? FUSED_round_bfloat16 : 0;
  for (int32_t v = 0; v < FUSED_VALUES; v++) m.slot[v] = (int16_t)(v < p->n_in ? v : -1);
  for (int32_t k = 0; k < p->n_instructions; k++)
    for (int32_t a = 0; a < p->code[k].n; a++) m.uses[p->code[k].arg[a]]++;
  for (int32_t k = 0; k < p->n_instructions; k++) {
    int32_t value = p->n_in + k;
    instruction(&m, &p->code[k]);
    m.acc = value;
    if (m.round && rounds(p->code[k].op) && m.uses[value]) emit(&m, m.round, 0, -1, 0);
    for (int32_t r = 0; r < p->n_results; r++)
      if (p->result[r] == value) emit(&m, FUSED_store, 0, FUSED_VALUES + r, 0);
    if (wants_memory(&m, k)) {
      m.slot[value] = (int16_t)new_temporary(&m);
      emit(&m, FUSED_store, 0, m.slot[value], 0);
    }
  }
  emit(&m, FUSED_end, 0, -1, 0);
}

/* Among the codes that may be one of a pair, or -1. */
static int32_t paired_code(int32_t code, int32_t variant) {
  if (variant != FUSED_S) return -1;
  switch (code) {
    case FUSED_Add: return PAIRED_Add;
    case FUSED_Sub: return PAIRED_Sub;
    case FUSED_Mul: return PAIRED_Mul;
    case FUSED_MaximumPlain: return PAIRED_MaximumPlain;
    case FUSED_MinimumPlain: return PAIRED_MinimumPlain;
    default: return -1;
  }
}
typedef struct {
  const fused_choice *how;
  int32_t bfloat16;
  uint32_t widened; /* a bit per input */
} widener;
/* Is the input in `slot` one of halves that are not yet floats in its block? */
static int is_half(const widener *w, const fused_program *p, int32_t slot) {
  return slot >= 0 && slot < p->n_in && w->how->halves[slot] && !(w->widened >> slot & 1);
}
/* Operands in memory are floats: a step before makes them so. */
static fused_step *widen(widener *w, const fused_program *p, const fused_plan_step *s,
                         fused_step *out) {
  const int16_t slots[2] = {s->slot, s->slot2};
  for (int32_t k = 0; k < 2; k++)
    if (is_half(w, p, slots[k])) {
      w->widened |= 1u << slots[k];
      out->run = w->how->machine->run[FUSED_widen_half + w->bfloat16][0];
      out->slot = slots[k], out++;
    }
  return out;
}
/* A function's code, or that of its short way for halves where the machine has one. */
static int32_t of_halves(const fused_machine *m, int32_t code) {
  int32_t shorter = code == FUSED_Exp       ? FUSED_exp_half
                    : code == FUSED_Tanh    ? FUSED_tanh_half
                    : code == FUSED_Sigmoid ? FUSED_sigmoid_half
                                            : code;
  return m->run[shorter][0] ? shorter : code;
}
/* The step that reads its operand as halves, or NULL. */
static void (*step_of_halves(const widener *w, const fused_program *p,
                             const fused_plan_step *s))(void) {
  int32_t op = s->code == FUSED_AddSame ? FUSED_Add : s->code;
  if (op < FUSED_Add || op > FUSED_Mul || s->variant != FUSED_M || !is_half(w, p, s->slot))
    return NULL;
  return w->how->machine->of_halves[op - FUSED_Add][w->bfloat16];
}
/* The step's form for operands that are scalars; results go where `store` says. */
void fused_specialise(const fused_program *p, const fused_choice *how, fused_step *out) {
  const fused_machine *m = how->machine;
  widener w = {how, how->type == PF_BFLOAT16, 0};
  int32_t before = -1; /* paired_code of the step before, if it is still alone */
  for (const fused_plan_step *s = p->steps, *end = s + p->n_steps; s < end; s++, out++) {
    int32_t code = s->code, variant = s->variant;
    if (code == FUSED_load && is_half(&w, p, s->slot)) code = FUSED_load_half + w.bfloat16;
    void (*direct)(void) = step_of_halves(&w, p, s);
    if (direct) {
      out->run = direct, out->slot = s->slot, before = -1;
      continue;
    }
    if (code == s->code) out = widen(&w, p, s, out);
    if (pf_is_half(how->type)) code = of_halves(m, code);
    if (s->slot >= 0 && s->slot < p->n_in && how->scalar[s->slot]) {
      variant++;
      if (how->scalar[s->slot] == FUSED_PLAIN && variant == FUSED_S && code <= FUSED_Minimum &&
          code >= FUSED_Maximum && m->run[FUSED_MaximumPlain][FUSED_S])
        code += FUSED_MaximumPlain - FUSED_Maximum;
    } else if (s->slot >= FUSED_VALUES) {
      code = how->store[s->slot - FUSED_VALUES];
      if (code < 0) {
        out--;
        continue;
      }
    }
    if (s->slot2 >= 0 && s->slot2 < p->n_in) variant += 2 * (how->scalar[s->slot2] != 0);
    int32_t paired = paired_code(code, variant);
    if (before >= 0 && paired >= 0 && m->pair[before][paired]) {
      out--;
      out->run = m->pair[before][paired], out->slot2 = s->slot;
      before = -1;
      continue;
    }
    before = paired;
    out->run = m->run[code][variant];
    out->slot = s->slot, out->slot2 = s->slot2, out->p = s->p;
  }
}
