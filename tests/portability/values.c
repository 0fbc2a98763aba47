/* values.c - runs a graph without Python and writes all it fetches.
 *
 *     values PLUGIN GRAPH.pb NAMES OUT       (NAMES: a line for each tensor)
 *
 * OUT has, for each: element type, number of dimensions, dimensions (8 bytes each), elements.
 */
#include <pyflow/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };
static char why[1024], lines[1 << 20];
static const char *names[MOST + 1], *const feeds[] = {0};
static DLManagedTensorVersioned *found[MOST];

static void must(pf_status st, const char *what) {
  if (st == PF_OK) return;
  fprintf(stderr, "%s: %d: %s\n", what, st, why);
  exit(1);
}

int main(int argc, char **argv) {
  pf_model *model;
  int n = 0;
  if (argc != 5) return 2;
  FILE *in = fopen(argv[3], "r"), *out = fopen(argv[4], "wb");
  if (!in || !out) return 3;
  size_t size = fread(lines, 1, sizeof lines - 1, in);
  for (char *s = strtok(lines, "\n"); s && n < MOST; s = strtok(NULL, "\n")) names[n++] = s;
  must(size ? PF_OK : PF_INVALID_ARGUMENT, "names");
  must(pf_rt_plugin(argv[1], why, sizeof why), "plugin");
  must(pf_rt_load_file(argv[2], feeds, names, 2, &model, why, sizeof why), "graph");
  must(pf_rt_run(model, NULL, found, why, sizeof why), "run");
  for (int i = 0; i < n; i++) {
    const DLTensor *t = &found[i]->dl_tensor;
    int64_t head[2] = {pf_rt_output_type(model, i), t->ndim}, bytes = t->dtype.bits / 8;
    for (int d = 0; d < t->ndim; d++) bytes *= t->shape[d];
    fwrite(head, sizeof head, 1, out);
    fwrite(t->shape, 8, (size_t)t->ndim, out);
    fwrite((const char *)t->data + t->byte_offset, 1, (size_t)bytes, out);
    found[i]->deleter(found[i]);
  }
  pf_rt_free(model);
  return fclose(out) ? 4 : 0;
}
