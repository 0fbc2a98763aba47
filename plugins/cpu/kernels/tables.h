/* tables.h - the kernel tables of this plugin: one line per C file, beside its line in meson.build.
 * ONCE(x): x.c exports x_kernels.  ISA(x): x.c exports PF_ISA_NAME(x_kernels), compiled per instruction set. */
#define PF_TABLES_A(ONCE, ISA) \
  ISA(unary_float) ISA(binary_float) ISA(cast) ISA(clip) ISA(reductions) ISA(fused_machines) \
  ONCE(elementwise_int) ONCE(elementwise_complex) \
  ONCE(shape) ONCE(slice) ONCE(layout) ONCE(join) ONCE(select) \
  ONCE(scan) ONCE(gather) ONCE(segment) ONCE(search) ONCE(top_k) ONCE(strings) ONCE(linalg) ONCE(factor) ISA(special) \
  ONCE(sparse) ONCE(sparse_math) ONCE(sparse_serial) ONCE(sparse_cross) ONCE(sets) \
  ONCE(special_more) ONCE(segment_sparse) ONCE(lookup) ONCE(lookup_table) ONCE(quantize) ONCE(einsum) ISA(random_gamma) ONCE(random_binomial) ONCE(mutex) ONCE(diag_band) \
  ONCE(strings_text) ONCE(strings_hash) ONCE(strings_bytes) ONCE(strings_regex) \
  ONCE(strings_unicode) ONCE(strings_properties) ONCE(strings_format) ISA(image_resize) ISA(image_color) ISA(fft) ONCE(image_patches) ONCE(image_boxes) ONCE(crop_resize) ONCE(scale_translate) ONCE(audio_wav) ONCE(nms)

#define PF_TABLES_B(ONCE, ISA) \
  ONCE(state) ONCE(scatter) ONCE(stack) ONCE(tensor_array) ONCE(tensor_array_bulk) ONCE(tensor_list) ONCE(tensor_list_bulk) ONCE(switch_n) ONCE(optional) ONCE(bincount) \
  ONCE(logging) ONCE(sendrecv) ONCE(checkpoint_save) ONCE(checkpoint_restore) ONCE(files) \
  ISA(lstm) ISA(gru) ONCE(ctc) ONCE(ctc_beam) ONCE(nth_element) ONCE(fractional_pool) ISA(pool3d) ONCE(candidate_unigram) ONCE(candidate) \
  ISA(matmul) ISA(matmul_fused) ISA(conv_layout) ISA(conv_depth_layout) ISA(conv3d) ONCE(conv_dilation) ISA(pool) ISA(softmax) ISA(norm) ISA(moments) ISA(lrn) ISA(argmax) ISA(scan_rows) ISA(random) ISA(training)
