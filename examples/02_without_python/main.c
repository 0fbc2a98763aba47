/* main.c - a frozen digit classifier without Python: reads images from a file, writes logits to
 * another.
 *
 *     main PLUGIN GRAPH.pb IMAGES LOGITS THREADS       (IMAGES: n x 64 floats; LOGITS: n x 10 floats)
 */
#include <pyflow/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static char why[1024];
static void must(pf_status st, const char *what) {
  if (st == PF_OK) return;
  fprintf(stderr, "%s: %d: %s\n", what, st, why);
  exit(1);
}

int main(int argc, char **argv) {
  static const char *const feeds[] = {"x", 0}, *const fetches[] = {"scores", 0};
  pf_model *model;
  if (argc != 6) return 2;
  must(pf_rt_plugin(argv[1], why, sizeof why), "plugin");
  must(pf_rt_load_file(argv[2], feeds, fetches, atoi(argv[5]), &model, why, sizeof why), "graph");
  if (pf_rt_input_type(model, 0) != PF_FLOAT32 || pf_rt_output_type(model, 0) != PF_FLOAT32 ||
      pf_rt_input_type(model, 1))
    return 3;

  FILE *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
  if (!in || !out || fseek(in, 0, SEEK_END)) return 4;
  int64_t n = ftell(in) / (64 * (int64_t)sizeof(float)), shape[] = {n, 8, 8, 1};
  float *images = aligned_alloc(64, (size_t)n * 64 * sizeof(float));
  rewind(in);
  if (!images || fread(images, sizeof(float), (size_t)n * 64, in) != (size_t)n * 64) return 5;

  DLTensor x = {
    .data = images, .device = {kDLCPU, 0}, .ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  const DLTensor *inputs[] = {&x};
  DLManagedTensorVersioned *outputs[1];
  must(pf_rt_run(model, inputs, outputs, why, sizeof why), "run");
  const DLTensor *y = &outputs[0]->dl_tensor;
  if (y->ndim != 2 || y->shape[0] != n || y->shape[1] != 10) return 6;
  if (fwrite(PF_DATA(float, y), sizeof(float), (size_t)n * 10, out) != (size_t)n * 10 ||
      fclose(out))
    return 7;
  outputs[0]->deleter(outputs[0]);

  /* What is wrong is said in words. */
  const char *const nothing[] = {"nothing", 0};
  pf_model *none;
  if (pf_rt_load_file(argv[2], feeds, nothing, 1, &none, why, sizeof why) == PF_OK) return 8;
  printf("%s\n", why);
  if (pf_rt_load(images, 1000, feeds, fetches, 1, &none, why, sizeof why) == PF_OK) return 9;
  printf("%s\n", why);
  pf_rt_free(model);
  free(images);
  return 0;
}
