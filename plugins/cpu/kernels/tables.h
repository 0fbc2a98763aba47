/* tables.h - the kernel tables of this plugin: one line per C file, beside its line in meson.build.
 * ONCE(x): x.c exports x_kernels.  ISA(x): x.c exports PF_ISA_NAME(x_kernels), compiled per instruction set. */
#define PF_TABLES_A(ONCE, ISA) \
  ISA(unary_float) ISA(binary_float) ISA(cast) ISA(reductions) \
  ONCE(elementwise_int) ONCE(elementwise_complex) \
  ONCE(shape) ONCE(slice) ONCE(layout) ONCE(join) ONCE(select) \
  ONCE(scan) ONCE(gather) ONCE(segment) ONCE(search) ONCE(strings) ONCE(linalg) ONCE(special)

#define PF_TABLES_B(ONCE, ISA) \
  ONCE(state) ONCE(checkpoint_restore) ONCE(checkpoint_save) ONCE(sendrecv) ONCE(logging) ONCE(tensor_array_bulk) ONCE(tensor_array) ONCE(stack) ONCE(scatter) \
  ISA(training) ISA(lrn) ISA(norm) ISA(random) ISA(pool) ISA(softmax) ISA(conv_layout) ISA(matmul)
