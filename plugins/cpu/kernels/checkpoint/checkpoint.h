/* checkpoint.h - the pieces of a checkpoint: files, the index in memory, CRC-32.
 *
 * A checkpoint `dir/base` is a safetensors file with the bytes and `dir/base.index`, one JSON
 * object that names it; renaming the index into place is the only commit point.  Everything read
 * from files is untrusted: sizes are checked before they are used, nesting and memory are bounded.
 */
#ifndef PF_CPU_CHECKPOINT_H
#define PF_CPU_CHECKPOINT_H
#include "base/bytes.h"

#define CK_FORMAT "pyflow.checkpoint/1"
#define CK_INDEX_LIMIT ((int64_t)256 << 20)
enum { CK_PATH = 4096 };

typedef struct {
  const char *name;
  int64_t size;
} ck_file;
typedef struct {
  const char *name; /* NUL-terminated; no NUL inside */
  int32_t type, file, ndim;
  uint32_t crc;
  int64_t dims_at; /* its first dimension in ck_index.dims */
  int64_t begin, end;
} ck_tensor;
typedef struct {
  char *text; /* owns every name */
  ck_file *files;
  ck_tensor *tensors; /* by ascending name */
  int64_t *dims;
  int64_t n_files, n_tensors, n_dims, room_files, room_tensors, room_dims;
} ck_index;

uint32_t ck_crc(uint32_t crc, const void *data, int64_t n); /* CRC-32 IEEE; begin with 0 */
/* "float32"; NULL: cannot be saved */
const char *ck_type_name(int32_t type);
int32_t ck_type_of(const char *name, int64_t len);          /* 0: unknown */
const char *ck_safe_type(int32_t type);                     /* safetensors' name */
void ck_add_json(pf_bytes *b, const char *text, int64_t n); /* a quoted JSON string */
int ck_utf8(const char *s, int64_t n);                      /* 1: valid, and without NUL */

/* Reads and checks dir/base.index.  Errors name the path. */
pf_status ck_index_read(pf_ctx *c, const char *prefix, ck_index *x);
void ck_index_free(ck_index *x);
const ck_tensor *ck_index_find(const ck_index *x, const char *name, int64_t len);
/* Writes the index of `x` to prefix.index: temporary file, fsync, rename, fsync of the folder. */
pf_status ck_index_write(pf_ctx *c, const char *prefix, ck_index *x);

/* A slice of a tensor: the whole's sizes; start and size of each dimension. */
typedef struct {
  int64_t dims[PF_MAX_DIMS], place[2 * PF_MAX_DIMS];
  int whole;
} ck_slice;
/* what SaveV2 is given */
typedef struct {
  const char *name;
  const DLTensor *t;
  int32_t type;
  uint32_t crc;
  int64_t unit, bytes, begin;
  const ck_slice *part;             /* NULL: the tensor is there as a whole; else as this slice */
  DLManagedTensorVersioned *joined; /* what slices were joined in */
} ck_item;
/* Values of a part: bytes, or strings here or in a tensor. */
typedef struct {
  const char *data;
  const pf_str *strings;
  const DLTensor *tensor;
} ck_source;
/* "20 30 0,10:-": sizes, then start and size, or -, of each dimension.  0: malformed. */
int ck_slice_parse(pf_str text, int32_t ndim, ck_slice *s);
void ck_slice_all(const int64_t *dims, int32_t ndim, ck_slice *s);
/* What two places have in common; how many elements that is. */
int64_t ck_overlap(int32_t ndim, const int64_t *a, const int64_t *b, int64_t *common);
/* The values at `common`, not empty, from a part at place `part` to `out`, which is at `to`. */
pf_status ck_copy_common(pf_ctx *c, int32_t type, int32_t ndim, DLTensor *out, const int64_t *to,
                         const ck_source *from, const int64_t *part, const int64_t *common);

/* PF_OK, or one message for all names of input 1 that are missing (type 0) or of another type than
 * the outputs'; first: up to three names that are there. */
pf_status ck_check_asked(pf_ctx *c, const char *prefix, const int32_t *types, int64_t n,
                         int64_t n_tensors, const char *const *first);

/* tf_save.c: `items`, by ascending names, and slices of one tensor by ascending places, as a
 * checkpoint of TensorFlow's */
pf_status tb_save(pf_ctx *c, const char *prefix, ck_item *items, int64_t n);

/* input `prefix`, checked, into CK_PATH bytes */
pf_status ck_prefix(pf_ctx *c, const DLTensor *t, char *out);
pf_status ck_errno(pf_ctx *c, const char *what, const char *path); /* from errno */
pf_status ck_write_all(pf_ctx *c, int fd, const char *path, const void *data, int64_t n);
pf_status ck_read_at(pf_ctx *c, int fd, const char *path, void *data, int64_t n, int64_t at);
/* a new path.tmp-<pid>-<n> */
pf_status ck_create(pf_ctx *c, const char *path, char *temporary, int *fd);
/* fsync, close, rename */
pf_status ck_commit(pf_ctx *c, int fd, const char *temporary, const char *path);
/* the folder that holds `prefix` */
pf_status ck_sync_folder(pf_ctx *c, const char *prefix);
void ck_folder(const char *prefix, char *folder); /* "." if it names none */
const char *ck_base(const char *prefix);
pf_status ck_path(pf_ctx *c, char *out, const char *folder, const char *name);
#endif
