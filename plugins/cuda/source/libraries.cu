/* libraries.cu - finds cuBLAS and cuDNN at run time.
 *
 * Searched in order, each library by its known version numbers, newest first:
 *   1. the folders in PYFLOW_CUDA_LIB_DIR (separated by ':')
 *   2. what the process has open already (a framework beside pyflow)
 *   3. the nvidia wheels beside this plugin: <site-packages>/nvidia/<name>/lib and nvidia/cu13/lib,
 *      nvidia/cu12/lib
 *   4. the system's search path (LD_LIBRARY_PATH, ld.so.cache) None is needed to load the plugin:
 *      without cuBLAS, MatMul runs in a plain kernel; without cuDNN, so does Conv2D. Nothing is
 *      ever closed.  Threads: each library is looked for once, under a lock.
 */
#include "libraries.h"
#include <dlfcn.h>

bool option(const char *name) {
  const char *v = getenv(name);
  return v && (!strcmp(v, "1") || !strcmp(v, "on") || !strcmp(v, "true"));
}

/* ---------------------------------------------------------------- searching */
static void *open_in(const char *folder, int folder_len, const char *below, const char *file,
                     int flags) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%.*s%s%s%s", folder_len, folder, folder_len ? "/" : "",
                   below, file);
  return n > 0 && n < (int)sizeof path ? dlopen(path, flags) : NULL;
}
static void *open_in_list(const char *list, const char *file) {
  while (list && *list) {
    const char *end = strchr(list, ':');
    int n = end ? (int)(end - list) : (int)strlen(list);
    void *lib = n ? open_in(list, n, "", file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (lib) return lib;
    list = end ? end + 1 : NULL;
  }
  return NULL;
}
static void *open_beside(const char *name, const char *file) {
  Dl_info here;
  char folder[4096], below[64];
  if (!dladdr((const void *)&option, &here) || !here.dli_fname ||
      strlen(here.dli_fname) >= sizeof folder)
    return NULL;
  strcpy(folder, here.dli_fname);
  for (int up = 0; up < 2; up++) { /* .../site-packages/pyflow_cuda/libpyflow_cuda.so */
    char *slash = strrchr(folder, '/');
    if (!slash) return NULL;
    *slash = 0;
  }
  const char *const places[] = {name, "cu13", "cu12"};
  for (int i = 0; i < 3; i++) {
    snprintf(below, sizeof below, "nvidia/%s/lib/", places[i]);
    void *lib = open_in(folder, (int)strlen(folder), below, file, RTLD_NOW | RTLD_LOCAL);
    if (lib) return lib;
  }
  return NULL;
}
/* `files`: newest first, ended by NULL */
static void *find_library(const char *name, const char *const *files) {
  const char *dirs = getenv("PYFLOW_CUDA_LIB_DIR");
  for (int i = 0; files[i]; i++) {
    void *lib = open_in_list(dirs, files[i]);
    if (lib) return lib;
  }
  for (int i = 0; files[i]; i++) {
    void *lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (lib) return lib;
  }
  for (int i = 0; files[i]; i++) {
    void *lib = open_beside(name, files[i]);
    if (!lib) lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (lib) return lib;
  }
  return NULL;
}
typedef struct {
  const char *name;
  void **to;
} symbol;
static bool take_symbols(void *lib, const symbol *s, int n) {
  for (int i = 0; i < n; i++)
    if (!(*s[i].to = dlsym(lib, s[i].name))) return false;
  return true;
}

/* ---------------------------------------------------------------- the two libraries */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int blas_state, dnn_state; /* 0: not looked for; 1: there; -1: absent */
static blas_library blas_table;
static dnn_library dnn_table;

const blas_library *blas(void) {
  static const char *const files[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                                      NULL};
  pthread_mutex_lock(&lock);
  if (!blas_state) {
    blas_library *t = &blas_table;
    const symbol all[] = {{"cublasCreate_v2", (void **)&t->create},
                          {"cublasDestroy_v2", (void **)&t->destroy},
                          {"cublasSetStream_v2", (void **)&t->set_stream},
                          {"cublasGemmEx", (void **)&t->gemm},
                          {"cublasGemmStridedBatchedEx", (void **)&t->gemm_batched}};
    void *lib = find_library("cublas", files);
    blas_state = lib && take_symbols(lib, all, 5) ? 1 : -1;
    if (lib) *(void **)&t->status_name = dlsym(lib, "cublasGetStatusName");
  }
  pthread_mutex_unlock(&lock);
  return blas_state > 0 ? &blas_table : NULL;
}

const dnn_library *dnn(void) {
  static const char *const files[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
  pthread_mutex_lock(&lock);
  if (!dnn_state) {
    dnn_library *t = &dnn_table;
#define DNN(name, field)             \
  {                                  \
    "cudnn" name, (void **)&t->field \
  }
    const symbol all[] = {DNN("Create", create),
                          DNN("Destroy", destroy),
                          DNN("SetStream", set_stream),
                          DNN("GetErrorString", error_string),
                          DNN("CreateTensorDescriptor", tensor_new),
                          DNN("DestroyTensorDescriptor", tensor_del),
                          DNN("SetTensor4dDescriptor", tensor_4d),
                          DNN("CreateFilterDescriptor", filter_new),
                          DNN("DestroyFilterDescriptor", filter_del),
                          DNN("SetFilter4dDescriptor", filter_4d),
                          DNN("CreateConvolutionDescriptor", conv_new),
                          DNN("DestroyConvolutionDescriptor", conv_del),
                          DNN("SetConvolution2dDescriptor", conv_2d),
                          DNN("SetConvolutionGroupCount", conv_groups),
                          DNN("SetConvolutionMathType", conv_math),
                          DNN("FindConvolutionForwardAlgorithmEx", forward_find),
                          DNN("FindConvolutionBackwardDataAlgorithmEx", input_find),
                          DNN("FindConvolutionBackwardFilterAlgorithmEx", filter_find),
                          DNN("GetConvolutionForwardAlgorithm_v7", forward_guess),
                          DNN("GetConvolutionBackwardDataAlgorithm_v7", input_guess),
                          DNN("GetConvolutionBackwardFilterAlgorithm_v7", filter_guess),
                          DNN("ConvolutionForward", forward),
                          DNN("ConvolutionBackwardData", input),
                          DNN("ConvolutionBackwardFilter", filter)};
#undef DNN
    void *lib = find_library("cudnn", files);
    dnn_state = lib && take_symbols(lib, all, (int)(sizeof all / sizeof all[0])) ? 1 : -1;
  }
  pthread_mutex_unlock(&lock);
  return dnn_state > 0 ? &dnn_table : NULL;
}

/* ---------------------------------------------------------------- handles */
enum { WARNED_BLAS = 1, WARNED_DNN = 2 };
static void note(gpu_device *d, int bit, const char *text) {
  if (__atomic_fetch_or(&d->warned, bit, __ATOMIC_RELAXED) & bit) return;
  d->host->log(PF_LOG_INFO, text, (int64_t)strlen(text));
}
blas_handle blas_of(gpu_stream *s) {
  const blas_library *b = blas();
  if (!b)
    note(s->dev, WARNED_BLAS,
         "cuBLAS was not found: MatMul runs in a plain kernel (pip install nvidia-cublas, or "
         "set PYFLOW_CUDA_LIB_DIR)");
  if (b && !s->cublas && b->create(&s->cublas)) s->cublas = NULL;
  if (b && s->cublas && b->set_stream(s->cublas, s->cuda)) return NULL;
  return s->cublas;
}
dnn_handle dnn_of(gpu_stream *s) {
  const dnn_library *b = dnn();
  if (!b)
    note(s->dev, WARNED_DNN,
         "cuDNN was not found: Conv2D runs in a plain kernel (pip install nvidia-cudnn-cu13, or "
         "set PYFLOW_CUDA_LIB_DIR)");
  if (b && !s->cudnn && b->create(&s->cudnn)) s->cudnn = NULL;
  if (b && s->cudnn && b->set_stream(s->cudnn, s->cuda)) return NULL;
  return s->cudnn;
}
void libraries_drop(gpu_stream *s) {
  if (s->cublas) blas_table.destroy(s->cublas);
  if (s->cudnn) dnn_table.destroy(s->cudnn);
  s->cublas = s->cudnn = NULL;
}

/* ---------------------------------------------------------------- handles for third parties */
static const void *current_context(void) {
  void *get = NULL, *context = NULL;
  cudaDriverEntryPointQueryResult found;
  cudaError_t e =
      cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &get, 4000, cudaEnableDefault, &found);
  if (e != cudaSuccess || found != cudaDriverEntryPointSuccess) return NULL;
  return ((int (*)(void **))get)(&context) ? NULL : context;
}
const void *gpu_native(void *dev, void *stream, const char *what) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  select_device(d);
  if (!strcmp(what, "cuda.context")) return current_context();
  if (!s) return NULL;
  if (!strcmp(what, "cuda.stream")) return s->cuda;
  const void *handle = NULL;
  pthread_mutex_lock(&s->lock);
  if (!strcmp(what, "cublas.handle")) handle = blas_of(s);
  if (!strcmp(what, "cudnn.handle")) handle = dnn_of(s);
  pthread_mutex_unlock(&s->lock);
  return handle;
}
