/* checkpoint_restore.c - RestoreV2, Restore, RestoreSlice: of pyflow's checkpoints; those of
 * TensorFlow: tf_restore.c.
 *
 * Invariants
 *   1. Files are untrusted: every size is checked against the file's real length before memory is
 *      taken for it.
 *   2. All missing names, or all types that differ, are told in one message.
 *   3. A tensor whose CRC differs is never given out.
 * Threads: the host's BLOCKING lane.
 */
#include "checkpoint/tf_bundle.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  char prefix[CK_PATH], folder[CK_PATH];
  ck_index x;
  const ck_tensor **want;
  int *fd;                 /* per file of the index; -1: not open */
  int64_t *start, *length; /* of its data section */
  int64_t n;
} restoring;

static void close_all(restoring *s) {
  for (int64_t i = 0; s->fd && i < s->x.n_files; i++)
    if (s->fd[i] >= 0) close(s->fd[i]);
  free(s->want);
  free(s->fd);
  free(s->start);
  free(s->length);
  ck_index_free(&s->x);
  s->want = NULL;
  s->fd = NULL;
  s->start = s->length = NULL;
}

/* ---------------------------------------------------------------- names and types */
static pf_status report(pf_ctx *c, pf_status code, pf_bytes *b) {
  pf_status r = b->failed ? pf_fail(c, code, "the checkpoint does not have what was asked for")
                          : c->host->fail(c, code, b->data, b->n);
  pf_bytes_free(b);
  return r;
}

static pf_status report_missing(pf_ctx *c, const char *prefix, const int32_t *types, int64_t n,
                                int64_t n_tensors, const char *const *first) {
  pf_bytes b = {0};
  const char *comma = "";
  pf_bytes_text(&b, "Key(s) not found in checkpoint '");
  pf_bytes_text(&b, prefix);
  pf_bytes_text(&b, "': ");
  for (int64_t i = 0; i < n; i++) {
    pf_str name;
    if (types[i]) continue;
    PF_TRY(c->host->str_get(c->in[1], i, &name));
    pf_bytes_text(&b, comma);
    pf_bytes_add(&b, name.data, name.len);
    comma = ", ";
  }
  pf_bytes_printf(&b, " (it has %" PRId64 " tensors", n_tensors);
  for (int64_t i = 0; i < PF_MIN(n_tensors, 3); i++) {
    pf_bytes_text(&b, i ? ", " : ", e.g. ");
    pf_bytes_text(&b, first[i]);
  }
  pf_bytes_text(&b, ")");
  return report(c, PF_NOT_FOUND, &b);
}

pf_status ck_check_asked(pf_ctx *c, const char *prefix, const int32_t *types, int64_t n,
                         int64_t n_tensors, const char *const *first) {
  int missing = 0, differ = 0;
  for (int64_t i = 0; i < n; i++) missing |= !types[i], differ |= types[i] != c->out_type[i];
  if (missing) return report_missing(c, prefix, types, n, n_tensors, first);
  if (!differ) return PF_OK;
  pf_bytes b = {0};
  const char *comma = "";
  pf_bytes_printf(&b, "types differ from the checkpoint's: ");
  for (int64_t i = 0; i < n; i++) {
    pf_str name;
    if (types[i] == c->out_type[i]) continue;
    PF_TRY(c->host->str_get(c->in[1], i, &name));
    pf_bytes_text(&b, comma);
    pf_bytes_add(&b, name.data, name.len);
    const char *there = ck_type_name(types[i]);
    pf_bytes_printf(&b, " is %s there, %s was asked for", there ? there : pf_type_name(types[i]),
                    pf_type_name(c->out_type[i]));
    comma = "; ";
  }
  return report(c, PF_INVALID_ARGUMENT, &b);
}

static pf_status find_all(pf_ctx *c, restoring *s) {
  const char *first[3];
  int32_t *types = calloc((size_t)s->n + 1, sizeof *types);
  if (!types) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to restore");
  pf_status r = PF_OK;
  for (int64_t i = 0; i < s->n && r == PF_OK; i++) {
    pf_str name;
    r = c->host->str_get(c->in[1], i, &name);
    if (r == PF_OK) s->want[i] = ck_index_find(&s->x, name.data, name.len);
    types[i] = s->want[i] ? s->want[i]->type : 0;
  }
  for (int64_t i = 0; i < 3; i++) first[i] = i < s->x.n_tensors ? s->x.tensors[i].name : "";
  if (r == PF_OK) r = ck_check_asked(c, s->prefix, types, s->n, s->x.n_tensors, first);
  free(types);
  return r;
}

/* ---------------------------------------------------------------- bytes */
static pf_status open_file(pf_ctx *c, restoring *s, int32_t i, const char *path) {
  struct stat st;
  unsigned char head[8];
  uint64_t header = 0;
  if (s->fd[i] >= 0) return PF_OK;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ck_errno(c, "open", path);
  s->fd[i] = fd;
  if (fstat(fd, &st)) return ck_errno(c, "stat", path);
  if (!S_ISREG(st.st_mode) || (int64_t)st.st_size != s->x.files[i].size || st.st_size < 8)
    return pf_failf(c, PF_DATA_LOSS, "%s has %lld bytes, its index says %" PRId64, path,
                    (long long)st.st_size, s->x.files[i].size);
  PF_TRY(ck_read_at(c, fd, path, head, 8, 0));
  for (int k = 7; k >= 0; k--) header = header << 8 | head[k];
  if (header > (uint64_t)CK_INDEX_LIMIT || (int64_t)header > (int64_t)st.st_size - 8)
    return pf_failf(c, PF_DATA_LOSS, "%s is not a safetensors file: header of %" PRIu64 " bytes",
                    path, header);
  s->start[i] = 8 + (int64_t)header;
  s->length[i] = (int64_t)st.st_size - s->start[i];
  return PF_OK;
}

static pf_status check_tensor(pf_ctx *c, const restoring *s, const ck_tensor *t, const char *path,
                              int64_t *count) {
  int64_t bytes = 0, size = pf_type_size(t->type), held = t->end - t->begin;
  int ok = pf_shape_numel(s->x.dims + t->dims_at, t->ndim, count);
  if (ok && t->type != PF_STRING) ok = pf_mul(*count, size, &bytes) && bytes == held;
  if (ok && t->type == PF_STRING)
    ok = pf_mul(*count, 8, &bytes) && bytes <= held && (*count > 0 || held == 0);
  if (ok && t->end <= s->length[t->file]) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "tensor '%s' of shape %s does not fit bytes %" PRId64 " to %" PRId64 " of %s",
                  t->name, pf_shape_text(s->x.dims + t->dims_at, t->ndim).s, t->begin, t->end,
                  path);
}

static pf_status read_checked(pf_ctx *c, const restoring *s, const ck_tensor *t, const char *path,
                              char *to) {
  uint32_t crc = 0;
  int64_t n = t->end - t->begin, at = s->start[t->file] + t->begin;
  for (int64_t done = 0; done < n; done += 1 << 20) {
    int64_t m = PF_MIN(1 << 20, n - done);
    PF_TRY(ck_read_at(c, s->fd[t->file], path, to + done, m, at + done));
    crc = ck_crc(crc, to + done, m);
  }
  if (crc == t->crc) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS, "tensor '%s' in '%s' is damaged: CRC %08x, expected %08x",
                  t->name, path, crc, t->crc);
}

static pf_status set_strings(pf_ctx *c, DLTensor *out, int64_t n, const char *bytes, int64_t held,
                             const ck_tensor *t, const char *path) {
  uint64_t at = (uint64_t)n * 8;
  for (int64_t i = 0; i < n; i++) {
    uint64_t len = 0;
    for (int k = 7; k >= 0; k--) len = len << 8 | (unsigned char)bytes[i * 8 + k];
    if (len > (uint64_t)held - at)
      return pf_failf(c, PF_DATA_LOSS, "strings of tensor '%s' in '%s' do not add up", t->name,
                      path);
    PF_TRY(c->host->str_set(out, i, (pf_str){bytes + at, (int64_t)len}));
    at += len;
  }
  if (at == (uint64_t)held) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS, "strings of tensor '%s' in '%s' do not add up", t->name, path);
}

/* The whole tensor, checked, into `out`. */
static pf_status read_into(pf_ctx *c, restoring *s, const ck_tensor *t, const char *path,
                           int64_t count, DLTensor *out) {
  if (t->type != PF_STRING) return read_checked(c, s, t, path, PF_DATA(char, out));
  char *bytes = malloc((size_t)(t->end - t->begin) + 1);
  if (!bytes) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for tensor '%s'", t->name);
  pf_status r = read_checked(c, s, t, path, bytes);
  if (r == PF_OK) r = set_strings(c, out, count, bytes, t->end - t->begin, t, path);
  free(bytes);
  return r;
}

/* Output i = the slice of the tensor that `text` names. */
static pf_status restore_slice(pf_ctx *c, restoring *s, int64_t i, const char *path, int64_t count,
                               pf_str text) {
  const ck_tensor *t = s->want[i];
  const int64_t *dims = s->x.dims + t->dims_at;
  ck_slice all, asked;
  int64_t sizes[PF_MAX_DIMS];
  if (!ck_slice_parse(text, t->ndim, &asked) || !pf_same_dims(asked.dims, t->ndim, dims, t->ndim))
    return PF_INVALID(c,
                      "shape_and_slices[%" PRId64 "] is '%.*s': no slice of tensor '%s' of "
                      "shape %s in checkpoint '%s'",
                      i, (int)PF_MIN(text.len, 200), text.data, t->name,
                      pf_shape_text(dims, t->ndim).s, s->prefix);
  for (int32_t d = 0; d < t->ndim; d++) sizes[d] = asked.place[2 * d + 1];
  DLTensor *out = c->host->output(c, (int32_t)i, sizes, t->ndim);
  PF_EXHAUSTED(out);
  if (!pf_numel(out)) return PF_OK;
  DLManagedTensorVersioned *whole =
      c->host->tensor_new(c->host, NULL, PF_MEM_HOST, t->type, dims, t->ndim);
  if (!whole) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for tensor '%s'", t->name);
  ck_slice_all(dims, t->ndim, &all);
  pf_status r = read_into(c, s, t, path, count, &whole->dl_tensor);
  ck_source from = {PF_DATA(const char, &whole->dl_tensor), NULL, &whole->dl_tensor};
  if (r == PF_OK)
    r = ck_copy_common(c, t->type, t->ndim, out, asked.place, &from, all.place, asked.place);
  whole->deleter(whole);
  return r;
}

static pf_status restore_one(pf_ctx *c, restoring *s, int64_t i) {
  const ck_tensor *t = s->want[i];
  char path[CK_PATH];
  int64_t count = 0;
  pf_str slice = {NULL, 0};
  PF_TRY(ck_path(c, path, s->folder, s->x.files[t->file].name));
  PF_TRY(open_file(c, s, t->file, path));
  PF_TRY(check_tensor(c, s, t, path, &count));
  if (c->n_in > 2) PF_TRY(c->host->str_get(c->in[2], i, &slice));
  if (slice.len) return restore_slice(c, s, i, path, count, slice);
  DLTensor *out = c->host->output(c, (int32_t)i, s->x.dims + t->dims_at, t->ndim);
  PF_EXHAUSTED(out);
  return read_into(c, s, t, path, count, out);
}

/* Opens every file that is wanted: PF_NOT_FOUND if one went away since the index was read. */
static pf_status open_wanted(pf_ctx *c, restoring *s) {
  PF_TRY(ck_index_read(c, s->prefix, &s->x));
  s->want = calloc((size_t)s->n + 1, sizeof *s->want);
  s->fd = malloc(sizeof *s->fd * (size_t)(s->x.n_files + 1));
  s->start = calloc((size_t)s->x.n_files + 1, 8);
  s->length = calloc((size_t)s->x.n_files + 1, 8);
  if (!s->want || !s->fd || !s->start || !s->length)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to restore");
  for (int64_t i = 0; i < s->x.n_files; i++) s->fd[i] = -1;
  PF_TRY(find_all(c, s));
  for (int64_t i = 0; i < s->n; i++) {
    char path[CK_PATH];
    PF_TRY(ck_path(c, path, s->folder, s->x.files[s->want[i]->file].name));
    PF_TRY(open_file(c, s, s->want[i]->file, path));
  }
  return PF_OK;
}

static pf_status check_strings(pf_ctx *c, int64_t n) {
  for (int32_t i = 1; i < 3; i++)
    if (c->in[i]->ndim != 1 || c->in[i]->shape[0] != n)
      return PF_INVALID(c, "%s must be a vector of %" PRId64 " strings, got shape %s",
                        i == 1 ? "tensor_names" : "shape_and_slices", n, PF_SHAPE(c->in[i]).s);
  return PF_OK;
}

static pf_status restore_steps(pf_ctx *c, restoring *s) {
  PF_TRY(ck_prefix(c, c->in[0], s->prefix));
  if (tb_kind_of(s->prefix)) return tb_restore(c, s->prefix, s->n);
  ck_folder(s->prefix, s->folder);
  pf_status r = open_wanted(c, s);
  if (r == PF_NOT_FOUND && s->fd) { /* a file went away: saved over meanwhile? */
    close_all(s);
    r = open_wanted(c, s);
  }
  PF_TRY(r);
  for (int64_t i = 0; i < s->n; i++) PF_TRY(restore_one(c, s, i));
  return PF_OK;
}

static pf_status restore_asked(pf_ctx *c) {
  restoring s = {.n = c->n_out};
  pf_status r = restore_steps(c, &s);
  close_all(&s);
  return r;
}

static pf_status restore(pf_ctx *c, const void *state) {
  (void)state;
  PF_TRY(check_strings(c, c->n_out));
  return restore_asked(c);
}

/* Restore, RestoreSlice: one tensor, its name and slice scalars; graphs of before TF 0.12. */
static pf_status restore_single(pf_ctx *c, const void *state) {
  (void)state;
  for (int32_t i = 1; i < c->n_in; i++)
    if (c->in[i]->ndim != 0)
      return PF_INVALID(c, "%s must be a scalar, got shape %s",
                        i == 1 ? "tensor_name" : "shape_and_slice", PF_SHAPE(c->in[i]).s);
  return restore_asked(c);
}

enum { FLAGS = PF_KERNEL_DETERMINISTIC | PF_KERNEL_BLOCKING | PF_KERNEL_EXPENSIVE };
const pf_kernel *const checkpoint_restore_kernels[] = {
  PF_CPU_FLAGS("RestoreV2", NULL, FLAGS, .compute = restore),
  PF_CPU_FLAGS("Restore", NULL, FLAGS, .compute = restore_single),
  PF_CPU_FLAGS("RestoreSlice", NULL, FLAGS, .compute = restore_single), NULL};
