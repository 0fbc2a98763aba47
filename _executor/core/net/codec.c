/* codec.c - tensors and errors as bytes of frames, and back.
 *
 * Invariants: frames.h.  What comes is not trusted: types, dimensions and lengths are checked
 * before anything is allocated, and what is wrong is a PF_DATA_LOSS that says so. Threads: any;
 * nothing is kept.
 */
#include "net/frames.h"

static int travels(int32_t type) {
  return pf_type_size(type) > 0 && type != PF_RESOURCE && type != PF_VARIANT;
}

pf_status pf_net_tensor_check(const pf_tensor *t, pf_error *err) {
  if (!t) return PF_OK;
  if (t->flags & PF_T_HANDLE || !travels(t->type))
    return pf_error_set(err, PF_INVALID_ARGUMENT,
                        "a %s is bound to its task: it cannot be sent to another one",
                        pf_type_name(t->type));
  if (t->device)
    return pf_error_set(
        err, PF_INVALID_ARGUMENT,
        "a tensor in the memory of %s has to be copied to the host before it is sent to another task",
        pf_device_name(t->device, "a device"));
  return PF_OK;
}

/* ---------------------------------------------------------------- tensors out */
static int64_t string_bytes(const pf_tensor *t) {
  const pf_str *s = t->m.dl_tensor.data;
  int64_t n = t->nbytes / (int64_t)sizeof(pf_str), bytes = 4 * n;
  for (int64_t k = 0; k < n; k++) bytes += s[k].len;
  return bytes;
}

static void put_dims(pf_net_out *o, const pf_tensor *t, uint32_t flags, int64_t bytes) {
  const DLTensor *d = &t->m.dl_tensor;
  pf_put32(o, (uint32_t)t->type), pf_put32(o, flags), pf_put32(o, (uint32_t)d->ndim),
      pf_put32(o, 0);
  for (int k = 0; k < d->ndim; k++) pf_put64(o, (uint64_t)d->shape[k]);
  pf_put64(o, (uint64_t)bytes);
}

static void put_strings(pf_net_out *o, const pf_tensor *t) {
  const pf_str *s = t->m.dl_tensor.data;
  int64_t n = t->nbytes / (int64_t)sizeof(pf_str), bytes = string_bytes(t);
  put_dims(o, t, 0, bytes);
  uint8_t *p = pf_put(o, bytes);
  for (int64_t k = 0; p && k < n; k++) {
    if (s[k].len > 0xffffffff) o->failed = 1;
    pf_to_le32(p, (uint32_t)s[k].len);
    if (s[k].len) memcpy(p + 4, s[k].data, (size_t)s[k].len);
    p += 4 + s[k].len;
  }
}

/* Large: its memory is sent as it is; a caller's or a step's is copied. */
static void splice(pf_net_out *o, const pf_tensor *t) {
  pf_splice *larger = realloc(o->splices, sizeof *larger * (size_t)(o->n_splices + 1));
  if (larger) o->splices = larger;
  pf_tensor_ref((pf_tensor *)t);
  pf_tensor *kept = larger ? pf_tensor_settled((pf_tensor *)t) : (pf_tensor *)t;
  if (larger && kept && kept->flags & PF_T_BORROWED) {
    pf_tensor *own = pf_tensor_copy(kept);
    pf_tensor_unref(kept);
    kept = own;
  }
  if (!larger || !kept) {
    if (!larger) pf_tensor_unref(kept);
    o->failed = 1;
    return;
  }
  put_dims(o, t, PF_TENSOR_PADDED, t->nbytes);
  uint32_t pad = (uint32_t)(-(o->n + o->spliced + 4 - PF_NET_HEAD) & 63);
  pf_put32(o, pad);
  uint8_t *p = pf_put(o, pad);
  if (p) memset(p, 0, pad);
  o->splices[o->n_splices++] = (pf_splice){o->n, kept};
  o->spliced += t->nbytes;
}

int64_t pf_net_tensor_bytes(const pf_tensor *t) {
  return !t ? 0 : t->type == PF_STRING ? string_bytes(t) : t->nbytes;
}

int32_t pf_net_too_large(pf_tensor *const *t, int32_t n) {
  int64_t left = (int64_t)0xffffffff - (1 << 20);
  int32_t largest = 0;
  for (int32_t k = 0; k < n; k++) {
    left -= pf_net_tensor_bytes(t[k]) + PF_NET_ENTRY;
    if (pf_net_tensor_bytes(t[k]) > pf_net_tensor_bytes(t[largest])) largest = k;
  }
  return left < 0 ? largest : -1;
}

pf_status pf_net_say_too_large(const char *what, int32_t k, const pf_tensor *t, pf_error *err) {
  pf_error_clear(err);
  return pf_error_set(
      err, PF_RESOURCE_EXHAUSTED,
      "%s %d has %lld bytes: a task's arguments, or results, of one step are less than 4 GB "
      "in all, where they go over a link",
      what, k, (long long)pf_net_tensor_bytes(t));
}

void pf_net_put_shape(pf_net_out *o, const pf_tensor *t, uint32_t flags) {
  put_dims(o, t, flags, pf_net_tensor_bytes(t));
}

void pf_net_put_tensor(pf_net_out *o, const pf_tensor *t, int32_t dead,
                       const pf_net_arenas *arenas) {
  uint32_t arena;
  uint64_t offset;
  if (dead || !t) {
    pf_put32(o, 0), pf_put32(o, PF_TENSOR_DEAD), pf_put64(o, 0), pf_put64(o, 0);
    return;
  }
  if (t->type == PF_STRING) {
    put_strings(o, t);
    return;
  }
  if (t->nbytes > PF_NET_PUSH && arenas && arenas->place(arenas->self, t, &arena, &offset)) {
    put_dims(o, t, PF_TENSOR_IN_ARENA, t->nbytes);
    pf_put32(o, arena), pf_put32(o, 0), pf_put64(o, offset);
    return;
  }
  if (t->nbytes > PF_NET_PUSH) {
    splice(o, t);
    return;
  }
  put_dims(o, t, 0, t->nbytes);
  uint8_t *p = pf_put(o, t->nbytes);
  if (p && t->nbytes) memcpy(p, t->m.dl_tensor.data, (size_t)t->nbytes);
}

/* ---------------------------------------------------------------- tensors in */
static pf_status broken(pf_error *err, const char *what) {
  return pf_error_set(err, PF_DATA_LOSS, "a peer sent a tensor %s", what);
}

pf_status pf_net_get_shape(pf_net_in *in, pf_net_shape *out, pf_error *err) {
  uint32_t type = pf_get32(in), flags = pf_get32(in), ndim = pf_get32(in);
  int64_t bytes = 0;
  pf_get32(in);
  if (in->bad || ndim > PF_MAX_NDIM)
    return broken(err, in->bad ? "that ends too early" : "of more than 254 dimensions");
  for (uint32_t k = 0; k < ndim; k++) out->dims[k] = (int64_t)pf_get64(in);
  out->type = (int32_t)(type & 0xffff), out->ndim = (int32_t)ndim, out->flags = flags;
  out->bytes = (int64_t)pf_get64(in);
  if (in->bad || out->bytes < 0) return broken(err, "that ends too early");
  if (flags & PF_TENSOR_DEAD) return PF_OK;
  if (type > 0xffff || !travels(out->type)) return broken(err, "of a type that cannot be sent");
  if (pf_checked_bytes(out->type, out->dims, out->ndim, &bytes))
    return broken(err, "whose size is negative, or beyond any memory");
  if (out->type != PF_STRING && bytes != out->bytes)
    return broken(err, "of other bytes than its shape has");
  return PF_OK;
}

static pf_status get_strings(pf_net_in *in, const pf_net_shape *s, pf_tensor **out, pf_error *err) {
  int64_t n = 0, k;
  pf_checked_bytes(PF_STRING, s->dims, s->ndim, &n);
  n /= (int64_t)sizeof(pf_str);
  pf_net_in part = {pf_get(in, s->bytes), s->bytes, 0, 0, NULL};
  if (in->bad || n > s->bytes / 4) return broken(err, "of fewer strings than its shape has");
  pf_tensor *t = pf_tensor_new(PF_STRING, s->dims, s->ndim);
  if (!t)
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor of %lld strings",
                        (long long)n);
  pf_str *to = t->m.dl_tensor.data;
  /* names the frame's memory, until the next line but one */
  for (k = 0; k < n; k++) to[k] = pf_get_text(&part, INT64_MAX);
  if (part.bad || part.n) memset(to, 0, (size_t)t->nbytes);
  pf_status st =
      part.bad || part.n ? broken(err, "whose strings do not add up") : pf_strings_own(t);
  if (st) {
    memset(to, 0, (size_t)t->nbytes);
    pf_tensor_unref(t);
    return pf_error_set(err, st, "out of memory for a tensor of strings");
  }
  *out = t;
  return PF_OK;
}

static void release_body(void *body) { pf_tensor_unref(body); }

pf_status pf_net_get_tensor(pf_net_in *in, const pf_net_arenas *arenas, pf_tensor **out,
                            int32_t *dead, pf_error *err) {
  pf_net_shape s;
  pf_status st = pf_net_get_shape(in, &s, err);
  *out = NULL, *dead = 0;
  if (st) return st;
  if (s.flags & PF_TENSOR_DEAD) {
    *dead = 1;
    return PF_OK;
  }
  if (s.flags & PF_TENSOR_ABSENT) return broken(err, "without its bytes");
  if (s.type == PF_STRING)
    return s.flags & PF_TENSOR_IN_ARENA ? broken(err, "of strings by reference")
                                        : get_strings(in, &s, out, err);
  if (s.flags & PF_TENSOR_IN_ARENA) {
    uint32_t arena = pf_get32(in);
    pf_get32(in);
    uint64_t offset = pf_get64(in);
    *out = in->bad || !arenas
               ? NULL
               : arenas->find(arenas->self, s.type, s.dims, s.ndim, s.bytes, arena, offset);
    return *out ? PF_OK : broken(err, "in memory that it does not share");
  }
  if (s.flags & PF_TENSOR_PADDED) pf_get(in, pf_get32(in));
  const uint8_t *p = pf_get(in, s.bytes);
  if (in->bad) return broken(err, "that ends too early");
  if (in->body && s.bytes > PF_NET_PUSH && ((uintptr_t)p & 63) == 0) {
    *out = pf_tensor_wrap(s.type, s.dims, s.ndim, (void *)p, PF_T_FOREIGN, release_body, in->body);
    if (*out) pf_tensor_ref(in->body);
    return *out ? PF_OK
                : pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor's header");
  }
  *out = pf_tensor_new(s.type, s.dims, s.ndim);
  if (!*out)
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor of %lld bytes",
                        (long long)s.bytes);
  if (s.bytes) memcpy((*out)->m.dl_tensor.data, p, (size_t)s.bytes);
  return PF_OK;
}

/* ---------------------------------------------------------------- errors */
void pf_net_put_error(pf_net_out *o, pf_status st, const pf_error *err) {
  pf_put32(o, (uint32_t)st), pf_put32(o, err ? (uint32_t)err->derived : 0);
  if (!err) {
    for (int k = 0; k < 5; k++) pf_put32(o, 0);
    return;
  }
  pf_put_text(o, pf_str_of(err->node)), pf_put_text(o, pf_str_of(err->op)),
      pf_put_text(o, pf_str_of(err->device));
  pf_put_text(o, pf_str_of(err->task)), pf_put_text(o, pf_str_of(err->message));
}

static void get_field(pf_net_in *in, char *to, size_t room) {
  pf_str s = pf_get_text(in, PF_NET_MAX_TEXT);
  pf_copy_text(to, room, s.data, s.len);
}

pf_status pf_net_get_error(pf_net_in *in, pf_error *out) {
  uint32_t code = pf_get32(in), derived = pf_get32(in);
  pf_error_clear(out);
  get_field(in, out->node, sizeof out->node), get_field(in, out->op, sizeof out->op);
  get_field(in, out->device, sizeof out->device), get_field(in, out->task, sizeof out->task);
  get_field(in, out->message, sizeof out->message);
  if (in->bad || code == 0 || code > 16) {
    pf_error_clear(out);
    return pf_error_set(out, PF_DATA_LOSS, "a peer sent an error that is none");
  }
  out->derived = derived != 0;
  return out->code = (pf_status)code;
}
