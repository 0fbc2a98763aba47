"""Which module has which public names in its table PUBLIC.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

PUBLIC = {
    "pyflow.ops.base.tensors":
        "cast concat concat_v2 dtypes.cast equal expand_dims gather imag linalg.matrix_transpose "
        "linalg.transpose math.equal math.imag math.real matrix_transpose ones ones_like range "
        "rank real reshape shape size slice squeeze stack transpose unstack zeros zeros_like",
    "pyflow.ops.containers.tensor_arrays":
        "TensorArray",
    "pyflow.ops.elementwise.activation_ops":
        "math.sigmoid math.softplus math.softsign math.tanh nn.elu nn.relu nn.relu6 nn.selu "
        "nn.sigmoid nn.softplus nn.softsign nn.tanh sigmoid tanh",
    "pyflow.ops.elementwise.binary_ops":
        "add atan2 bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor bitwise.left_shift "
        "bitwise.right_shift floor_div floormod math.add math.atan2 math.floormod math.maximum "
        "math.minimum math.mod math.multiply math.multiply_no_nan math.pow "
        "math.squared_difference math.subtract maximum minimum mod mul multiply pow realdiv "
        "squared_difference sub subtract truncatediv truncatemod",
    "pyflow.ops.elementwise.logic_ops":
        "approximate_equal greater greater_equal less less_equal logical_and logical_not "
        "logical_or math.approximate_equal math.greater math.greater_equal math.less "
        "math.less_equal math.logical_and math.logical_not math.logical_or select",
    "pyflow.ops.elementwise.special_ops":
        "betainc igamma igammac math.bessel_i0e math.bessel_i1e math.betainc math.erfinv "
        "math.igamma math.igammac math.ndtri math.nextafter",
    "pyflow.ops.elementwise.unary_ops":
        "acos acosh asin asinh atan atanh bitwise.invert ceil cos cosh debugging.is_finite "
        "debugging.is_inf debugging.is_nan digamma erf erfc exp expm1 floor inv is_finite is_inf "
        "is_nan lgamma log log1p math.acos math.acosh math.asin math.asinh math.atan math.atanh "
        "math.ceil math.cos math.cosh math.digamma math.erf math.erfc math.exp math.expm1 "
        "math.floor math.is_finite math.is_inf math.is_nan math.lgamma math.log math.log1p "
        "math.negative math.polygamma math.reciprocal math.rint math.rsqrt math.sign math.sin "
        "math.sinh math.sqrt math.square math.tan math.zeta neg negative polygamma reciprocal "
        "rint rsqrt sign sin sinh sqrt square tan zeta",
    "pyflow.ops.gemm.products":
        "linalg.matmul matmul",
    "pyflow.ops.linalg.solve_ops":
        "cholesky linalg.cholesky linalg.det matrix_determinant",
    "pyflow.ops.move.array_ops":
        "invert_permutation math.invert_permutation",
    "pyflow.ops.move.broadcast_ops":
        "broadcast_dynamic_shape broadcast_static_shape broadcast_to",
    "pyflow.ops.move.diag_ops":
        "cross diag diag_part linalg.band_part linalg.cross linalg.tensor_diag "
        "linalg.tensor_diag_part matrix_band_part",
    "pyflow.ops.move.join_ops":
        "manip.tile tile",
    "pyflow.ops.move.pad_ops":
        "batch_to_space_nd manip.batch_to_space_nd manip.space_to_batch_nd space_to_batch_nd",
    "pyflow.ops.move.partition_ops":
        "dynamic_stitch",
    "pyflow.ops.norm.softmax_ops":
        "nn.l2_loss",
    "pyflow.ops.parsing.audio_ops":
        "audio.decode_wav audio.encode_wav",
    "pyflow.ops.reduce.lookup_ops":
        "unravel_index",
    "pyflow.ops.reduce.segment_ops":
        "math.segment_max math.segment_mean math.segment_min math.segment_prod math.segment_sum "
        "math.unsorted_segment_max math.unsorted_segment_min math.unsorted_segment_prod "
        "math.unsorted_segment_sum segment_max segment_mean segment_min segment_prod segment_sum "
        "unsorted_segment_max unsorted_segment_min unsorted_segment_prod unsorted_segment_sum",
    "pyflow.lib.array.array_functions":
        "fill lin_space linspace shape_n",
    "pyflow.lib.array.diag_band_functions":
        "linalg.diag linalg.diag_part linalg.set_diag matrix_diag matrix_diag_part "
        "matrix_set_diag",
    "pyflow.lib.array.diag_functions":
        "eye linalg.eye linalg.trace trace",
    "pyflow.lib.array.gather_functions":
        "batch_gather gather_nd manip.gather_nd manip.scatter_nd one_hot scatter_nd "
        "sparse.to_dense sparse_tensor_to_dense sparse_to_dense tensor_scatter_nd_update "
        "tensor_scatter_update",
    "pyflow.lib.array.identity_functions":
        "check_numerics debugging.check_numerics ensure_shape identity identity_n placeholder "
        "placeholder_with_default sparse.placeholder sparse_placeholder stop_gradient",
    "pyflow.lib.array.join_functions":
        "meshgrid pack parallel_stack split unpack",
    "pyflow.lib.array.pad_functions":
        "batch_to_space depth_to_space nn.depth_to_space nn.space_to_batch nn.space_to_depth pad "
        "space_to_batch space_to_depth",
    "pyflow.lib.array.partition_functions":
        "bincount dynamic_partition listdiff math.bincount math.in_top_k math.top_k nn.in_top_k "
        "nn.top_k setdiff1d unique unique_with_counts",
    "pyflow.lib.array.slicing_functions":
        "manip.reverse manip.roll reverse reverse_sequence reverse_v2 roll strided_slice",
    "pyflow.lib.contrib.arg_scope":
        "contrib.framework.add_arg_scope contrib.framework.arg_scope "
        "contrib.framework.arg_scope_func_key contrib.framework.arg_scoped_arguments "
        "contrib.framework.current_arg_scope contrib.framework.has_arg_scope "
        "contrib.slim.add_arg_scope contrib.slim.arg_scope contrib.slim.arg_scoped_arguments "
        "contrib.slim.has_arg_scope",
    "pyflow.lib.contrib.compiler":
        "contrib.compiler.jit.experimental_jit_scope",
    "pyflow.lib.contrib.conv_layers":
        "contrib.layers.conv1d contrib.layers.conv2d contrib.layers.conv2d_in_plane "
        "contrib.layers.conv2d_transpose contrib.layers.conv3d contrib.layers.conv3d_transpose "
        "contrib.layers.convolution contrib.layers.convolution1d contrib.layers.convolution2d "
        "contrib.layers.convolution2d_in_plane contrib.layers.convolution2d_transpose "
        "contrib.layers.convolution3d contrib.layers.convolution3d_transpose "
        "contrib.layers.separable_conv2d contrib.layers.separable_convolution2d "
        "contrib.slim.conv1d contrib.slim.conv2d contrib.slim.conv2d_in_plane "
        "contrib.slim.conv2d_transpose contrib.slim.conv3d contrib.slim.conv3d_transpose "
        "contrib.slim.convolution contrib.slim.convolution1d contrib.slim.convolution2d "
        "contrib.slim.convolution2d_in_plane contrib.slim.convolution2d_transpose "
        "contrib.slim.convolution3d contrib.slim.convolution3d_transpose "
        "contrib.slim.separable_conv2d contrib.slim.separable_convolution2d",
    "pyflow.lib.contrib.core_layers":
        "contrib.layers.avg_pool2d contrib.layers.avg_pool3d contrib.layers.bias_add "
        "contrib.layers.dropout contrib.layers.elu contrib.layers.flatten "
        "contrib.layers.fully_connected contrib.layers.linear contrib.layers.max_pool2d "
        "contrib.layers.max_pool3d contrib.layers.maxout contrib.layers.one_hot_encoding "
        "contrib.layers.pool contrib.layers.relu contrib.layers.relu6 contrib.layers.repeat "
        "contrib.layers.scale_gradient contrib.layers.softmax contrib.layers.spatial_softmax "
        "contrib.layers.stack contrib.layers.unit_norm contrib.slim.avg_pool2d "
        "contrib.slim.avg_pool3d contrib.slim.bias_add contrib.slim.dropout contrib.slim.elu "
        "contrib.slim.flatten contrib.slim.fully_connected contrib.slim.linear "
        "contrib.slim.max_pool2d contrib.slim.max_pool3d contrib.slim.maxout "
        "contrib.slim.one_hot_encoding contrib.slim.pool contrib.slim.relu contrib.slim.relu6 "
        "contrib.slim.repeat contrib.slim.scale_gradient contrib.slim.softmax "
        "contrib.slim.spatial_softmax contrib.slim.stack contrib.slim.unit_norm",
    "pyflow.lib.contrib.crf":
        "contrib.crf.crf_binary_score contrib.crf.crf_decode contrib.crf.crf_log_likelihood "
        "contrib.crf.crf_log_norm contrib.crf.crf_sequence_score contrib.crf.crf_unary_score "
        "contrib.crf.viterbi_decode",
    "pyflow.lib.contrib.distributions":
        "contrib.distributions.Bernoulli contrib.distributions.Categorical "
        "contrib.distributions.Distribution contrib.distributions.Normal "
        "contrib.distributions.Uniform contrib.distributions.kl_divergence "
        "distributions.Bernoulli distributions.Categorical distributions.Distribution "
        "distributions.Normal distributions.Uniform distributions.kl_divergence",
    "pyflow.lib.contrib.embedding_layers":
        "contrib.layers.embed_sequence contrib.layers.embedding_lookup_unique "
        "contrib.layers.safe_embedding_lookup_sparse contrib.slim.embed_sequence",
    "pyflow.lib.contrib.framework":
        "contrib.framework.assert_same_float_dtype contrib.framework.assert_scalar_int "
        "contrib.framework.convert_to_tensor_or_sparse_tensor contrib.framework.is_numeric_tensor "
        "contrib.framework.is_tensor contrib.framework.reduce_sum_n "
        "contrib.framework.safe_embedding_lookup_sparse contrib.framework.with_same_shape "
        "contrib.framework.with_shape",
    "pyflow.lib.contrib.hparams":
        "contrib.training.HParams",
    "pyflow.lib.contrib.layer_summaries":
        "contrib.layers.summaries.summarize_activation "
        "contrib.layers.summaries.summarize_activations contrib.layers.summaries.summarize_biases "
        "contrib.layers.summaries.summarize_collection contrib.layers.summaries.summarize_tensor "
        "contrib.layers.summaries.summarize_tensors contrib.layers.summaries.summarize_variables "
        "contrib.layers.summaries.summarize_weights contrib.layers.summarize_activation "
        "contrib.layers.summarize_activations contrib.layers.summarize_biases "
        "contrib.layers.summarize_collection contrib.layers.summarize_tensor "
        "contrib.layers.summarize_tensors contrib.layers.summarize_variables "
        "contrib.layers.summarize_weights contrib.slim.summarize_activation "
        "contrib.slim.summarize_activations contrib.slim.summarize_biases "
        "contrib.slim.summarize_collection contrib.slim.summarize_tensor "
        "contrib.slim.summarize_tensors contrib.slim.summarize_variables "
        "contrib.slim.summarize_weights",
    "pyflow.lib.contrib.layer_tools":
        "contrib.layers.utils.append_tensor_alias contrib.layers.utils.channel_dimension "
        "contrib.layers.utils.collect_named_outputs contrib.layers.utils.constant_value "
        "contrib.layers.utils.convert_collection_to_dict "
        "contrib.layers.utils.gather_tensors_aliases contrib.layers.utils.get_tensor_aliases "
        "contrib.layers.utils.get_variable_collections contrib.layers.utils.last_dimension "
        "contrib.layers.utils.n_positive_integers contrib.layers.utils.smart_cond "
        "contrib.layers.utils.two_element_tuple contrib.slim.utils.append_tensor_alias "
        "contrib.slim.utils.channel_dimension contrib.slim.utils.collect_named_outputs "
        "contrib.slim.utils.constant_value contrib.slim.utils.convert_collection_to_dict "
        "contrib.slim.utils.gather_tensors_aliases contrib.slim.utils.get_tensor_aliases "
        "contrib.slim.utils.get_variable_collections contrib.slim.utils.last_dimension "
        "contrib.slim.utils.n_positive_integers contrib.slim.utils.smart_cond "
        "contrib.slim.utils.two_element_tuple",
    "pyflow.lib.contrib.legacy_seq2seq":
        "contrib.legacy_seq2seq.attention_decoder contrib.legacy_seq2seq.basic_rnn_seq2seq "
        "contrib.legacy_seq2seq.embedding_attention_decoder "
        "contrib.legacy_seq2seq.embedding_attention_seq2seq "
        "contrib.legacy_seq2seq.embedding_rnn_decoder "
        "contrib.legacy_seq2seq.embedding_rnn_seq2seq "
        "contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq "
        "contrib.legacy_seq2seq.one2many_rnn_seq2seq contrib.legacy_seq2seq.tied_rnn_seq2seq",
    "pyflow.lib.contrib.losses":
        "contrib.losses.absolute_difference contrib.losses.add_loss "
        "contrib.losses.compute_weighted_loss contrib.losses.cosine_distance "
        "contrib.losses.get_losses contrib.losses.get_regularization_losses "
        "contrib.losses.get_total_loss contrib.losses.hinge_loss contrib.losses.log_loss "
        "contrib.losses.mean_squared_error contrib.losses.sigmoid_cross_entropy "
        "contrib.losses.softmax_cross_entropy contrib.losses.sparse_softmax_cross_entropy",
    "pyflow.lib.contrib.metrics":
        "contrib.metrics.accuracy contrib.metrics.aggregate_metric_map "
        "contrib.metrics.aggregate_metrics contrib.metrics.streaming_accuracy "
        "contrib.metrics.streaming_auc contrib.metrics.streaming_false_negatives "
        "contrib.metrics.streaming_false_negatives_at_thresholds "
        "contrib.metrics.streaming_false_positives "
        "contrib.metrics.streaming_false_positives_at_thresholds contrib.metrics.streaming_mean "
        "contrib.metrics.streaming_mean_absolute_error "
        "contrib.metrics.streaming_mean_cosine_distance contrib.metrics.streaming_mean_iou "
        "contrib.metrics.streaming_mean_relative_error "
        "contrib.metrics.streaming_mean_squared_error contrib.metrics.streaming_mean_tensor "
        "contrib.metrics.streaming_percentage_less contrib.metrics.streaming_precision "
        "contrib.metrics.streaming_precision_at_thresholds contrib.metrics.streaming_recall "
        "contrib.metrics.streaming_recall_at_thresholds "
        "contrib.metrics.streaming_root_mean_squared_error "
        "contrib.metrics.streaming_sensitivity_at_specificity "
        "contrib.metrics.streaming_sparse_average_precision_at_k "
        "contrib.metrics.streaming_sparse_precision_at_k "
        "contrib.metrics.streaming_sparse_recall_at_k "
        "contrib.metrics.streaming_specificity_at_sensitivity "
        "contrib.metrics.streaming_true_negatives "
        "contrib.metrics.streaming_true_negatives_at_thresholds "
        "contrib.metrics.streaming_true_positives "
        "contrib.metrics.streaming_true_positives_at_thresholds",
    "pyflow.lib.contrib.model_analyzer":
        "contrib.slim.model_analyzer.analyze_ops contrib.slim.model_analyzer.analyze_vars "
        "contrib.slim.model_analyzer.tensor_description",
    "pyflow.lib.contrib.model_variables":
        "contrib.framework.add_model_variable contrib.framework.assign_from_values "
        "contrib.framework.assign_from_values_fn contrib.framework.filter_variables "
        "contrib.framework.get_local_variables contrib.framework.get_model_variables "
        "contrib.framework.get_trainable_variables contrib.framework.get_unique_variable "
        "contrib.framework.get_variable_full_name contrib.framework.get_variables "
        "contrib.framework.get_variables_by_name contrib.framework.get_variables_by_suffix "
        "contrib.framework.get_variables_to_restore contrib.framework.global_variable "
        "contrib.framework.model_variable contrib.framework.variable "
        "contrib.slim.add_model_variable contrib.slim.assign_from_values "
        "contrib.slim.assign_from_values_fn contrib.slim.filter_variables "
        "contrib.slim.get_local_variables contrib.slim.get_model_variables "
        "contrib.slim.get_trainable_variables contrib.slim.get_unique_variable "
        "contrib.slim.get_variable_full_name contrib.slim.get_variables "
        "contrib.slim.get_variables_by_name contrib.slim.get_variables_by_suffix "
        "contrib.slim.get_variables_to_restore contrib.slim.global_variable "
        "contrib.slim.local_variable contrib.slim.model_variable contrib.slim.variable",
    "pyflow.lib.contrib.norm_layers":
        "contrib.layers.batch_norm contrib.layers.group_norm contrib.layers.instance_norm "
        "contrib.layers.layer_norm contrib.slim.batch_norm contrib.slim.group_norm "
        "contrib.slim.instance_norm contrib.slim.layer_norm",
    "pyflow.lib.contrib.profiler":
        "profiler.ProfileOptionBuilder profiler.profile",
    "pyflow.lib.contrib.rnn_cells":
        "contrib.rnn.AttentionCellWrapper contrib.rnn.EmbeddingWrapper "
        "contrib.rnn.InputProjectionWrapper contrib.rnn.LayerNormBasicLSTMCell "
        "contrib.rnn.OutputProjectionWrapper contrib.rnn.UGRNNCell "
        "contrib.rnn.stack_bidirectional_dynamic_rnn contrib.rnn.stack_bidirectional_rnn "
        "contrib.rnn.transpose_batch_time",
    "pyflow.lib.contrib.tfprof":
        "contrib.tfprof.model_analyzer.FLOAT_OPS_OPTIONS "
        "contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS "
        "contrib.tfprof.model_analyzer.print_model_analysis",
    "pyflow.lib.contrib.vocabulary":
        "contrib.learn.preprocessing.CategoricalVocabulary "
        "contrib.learn.preprocessing.VocabularyProcessor contrib.learn.preprocessing.tokenizer",
    "pyflow.lib.control_flow.case":
        "case",
    "pyflow.lib.control_flow.check_functions":
        "add_check_numerics_ops assert_equal assert_greater assert_greater_equal assert_integer "
        "assert_less assert_less_equal assert_near assert_negative assert_non_negative "
        "assert_non_positive assert_none_equal assert_positive assert_proper_iterable assert_rank "
        "assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type "
        "debugging.assert_all_finite debugging.assert_equal debugging.assert_greater "
        "debugging.assert_greater_equal debugging.assert_integer debugging.assert_less "
        "debugging.assert_less_equal debugging.assert_near debugging.assert_negative "
        "debugging.assert_non_negative debugging.assert_non_positive debugging.assert_none_equal "
        "debugging.assert_positive debugging.assert_proper_iterable debugging.assert_rank "
        "debugging.assert_rank_at_least debugging.assert_rank_in "
        "debugging.assert_same_float_dtype debugging.assert_scalar debugging.assert_type "
        "debugging.is_non_decreasing debugging.is_numeric_tensor debugging.is_strictly_increasing "
        "is_non_decreasing is_numeric_tensor is_strictly_increasing math.is_non_decreasing "
        "math.is_strictly_increasing verify_tensor_all_finite",
    "pyflow.lib.control_flow.cond":
        "cond",
    "pyflow.lib.control_flow.eager_functions":
        "py_function",
    "pyflow.lib.control_flow.functional":
        "foldl foldr map_fn scan",
    "pyflow.lib.control_flow.grouping":
        "group no_op tuple",
    "pyflow.lib.control_flow.logging_functions":
        "Assert Print debugging.Assert",
    "pyflow.lib.control_flow.printing":
        "print",
    "pyflow.lib.control_flow.script_functions":
        "numpy_function py_func",
    "pyflow.lib.control_flow.smart_cond":
        "contrib.framework.smart_case contrib.framework.smart_cond "
        "contrib.framework.smart_constant_value",
    "pyflow.lib.control_flow.switch_case":
        "switch_case",
    "pyflow.lib.control_flow.while_loop":
        "while_loop",
    "pyflow.lib.data.dataset":
        "data.Dataset data.experimental.AUTOTUNE",
    "pyflow.lib.data.experimental":
        "contrib.data.AUTOTUNE contrib.data.Counter contrib.data.RandomDataset "
        "contrib.data.batch_and_drop_remainder contrib.data.bucket_by_sequence_length "
        "contrib.data.choose_from_datasets contrib.data.copy_to_device "
        "contrib.data.enumerate_dataset contrib.data.get_single_element "
        "contrib.data.group_by_window contrib.data.ignore_errors contrib.data.map_and_batch "
        "contrib.data.parallel_interleave contrib.data.prefetch_to_device "
        "contrib.data.sample_from_datasets contrib.data.scan contrib.data.shuffle_and_repeat "
        "contrib.data.take_while contrib.data.unbatch data.experimental.Counter "
        "data.experimental.RandomDataset data.experimental.bucket_by_sequence_length "
        "data.experimental.choose_from_datasets data.experimental.copy_to_device "
        "data.experimental.enumerate_dataset data.experimental.get_single_element "
        "data.experimental.group_by_window data.experimental.ignore_errors "
        "data.experimental.map_and_batch data.experimental.parallel_interleave "
        "data.experimental.prefetch_to_device data.experimental.sample_from_datasets "
        "data.experimental.scan data.experimental.shuffle_and_repeat data.experimental.take_while "
        "data.experimental.unbatch data.get_output_classes data.get_output_shapes "
        "data.get_output_types data.make_initializable_iterator data.make_one_shot_iterator",
    "pyflow.lib.data.iterator":
        "data.Iterator",
    "pyflow.lib.data.options":
        "data.Options data.experimental.OptimizationOptions data.experimental.ThreadingOptions",
    "pyflow.lib.data.parsed":
        "contrib.data.CsvDataset contrib.data.make_batched_features_dataset "
        "contrib.data.make_csv_dataset contrib.data.parse_example_dataset "
        "contrib.data.rejection_resample data.experimental.CsvDataset "
        "data.experimental.make_batched_features_dataset data.experimental.make_csv_dataset "
        "data.experimental.parse_example_dataset data.experimental.rejection_resample",
    "pyflow.lib.data.readers":
        "data.FixedLengthRecordDataset data.TFRecordDataset data.TextLineDataset",
    "pyflow.lib.files.io_functions":
        "io.matching_files io.read_file io.write_file matching_files read_file write_file",
    "pyflow.lib.files.record_files":
        "io.TFRecordCompressionType io.TFRecordOptions io.TFRecordWriter io.tf_record_iterator "
        "python_io.TFRecordCompressionType python_io.TFRecordOptions python_io.TFRecordWriter "
        "python_io.tf_record_iterator",
    "pyflow.lib.function.traced_function":
        "TensorSpec function",
    "pyflow.lib.image.image_box_functions":
        "image.crop_and_resize image.draw_bounding_boxes image.sample_distorted_bounding_box",
    "pyflow.lib.image.image_codec_functions":
        "image.adjust_jpeg_quality image.decode_and_crop_jpeg image.decode_bmp image.decode_gif "
        "image.decode_image image.decode_jpeg image.decode_png image.encode_jpeg image.encode_png "
        "image.extract_jpeg_shape image.is_jpeg image.random_jpeg_quality io.decode_and_crop_jpeg "
        "io.decode_bmp io.decode_gif io.decode_image io.decode_jpeg io.decode_png io.encode_jpeg "
        "io.encode_png io.extract_jpeg_shape io.is_jpeg",
    "pyflow.lib.image.image_color_functions":
        "image.adjust_brightness image.adjust_contrast image.adjust_gamma image.adjust_hue "
        "image.adjust_saturation image.grayscale_to_rgb image.hsv_to_rgb image.random_brightness "
        "image.random_contrast image.random_hue image.random_saturation image.rgb_to_grayscale "
        "image.rgb_to_hsv image.rgb_to_yiq image.rgb_to_yuv image.yiq_to_rgb image.yuv_to_rgb",
    "pyflow.lib.image.image_functions":
        "image.central_crop image.convert_image_dtype image.crop_to_bounding_box "
        "image.flip_left_right image.flip_up_down image.image_gradients image.pad_to_bounding_box "
        "image.per_image_standardization image.per_image_whitening image.random_flip_left_right "
        "image.random_flip_up_down image.resize_image_with_crop_or_pad "
        "image.resize_with_crop_or_pad image.rot90 image.sobel_edges image.total_variation "
        "image.transpose image.transpose_image",
    "pyflow.lib.image.image_nms_functions":
        "image.combined_non_max_suppression image.non_max_suppression "
        "image.non_max_suppression_overlaps image.non_max_suppression_padded "
        "image.non_max_suppression_with_scores",
    "pyflow.lib.image.image_patch_functions":
        "extract_image_patches extract_volume_patches image.extract_glimpse "
        "image.extract_image_patches image.extract_patches",
    "pyflow.lib.image.image_quality":
        "image.psnr image.ssim image.ssim_multiscale",
    "pyflow.lib.image.image_resize_functions":
        "image.ResizeMethod image.resize image.resize_area image.resize_bicubic "
        "image.resize_bilinear image.resize_image_with_pad image.resize_images "
        "image.resize_nearest_neighbor",
    "pyflow.lib.layers.base":
        "layers.InputSpec layers.Layer",
    "pyflow.lib.layers.convolutional":
        "layers.Conv1D layers.Conv2D layers.Conv2DTranspose layers.Conv3D layers.Conv3DTranspose "
        "layers.SeparableConv1D layers.SeparableConv2D layers.conv1d layers.conv2d "
        "layers.conv2d_transpose layers.conv3d layers.conv3d_transpose layers.separable_conv1d "
        "layers.separable_conv2d",
    "pyflow.lib.layers.core":
        "layers.Dense layers.Dropout layers.Flatten layers.dense layers.dropout layers.flatten",
    "pyflow.lib.layers.normalization":
        "layers.BatchNormalization layers.batch_normalization",
    "pyflow.lib.layers.pooling":
        "layers.AveragePooling1D layers.AveragePooling2D layers.AveragePooling3D "
        "layers.MaxPooling1D layers.MaxPooling2D layers.MaxPooling3D layers.average_pooling1d "
        "layers.average_pooling2d layers.average_pooling3d layers.max_pooling1d "
        "layers.max_pooling2d layers.max_pooling3d",
    "pyflow.lib.math.binary_functions":
        "accumulate_n add_n div div_no_nan divide floordiv math.accumulate_n math.add_n "
        "math.divide math.divide_no_nan math.floordiv math.truediv math.xdivy math.xlogy truediv",
    "pyflow.lib.math.cast_functions":
        "bitcast dtypes.saturate_cast saturate_cast to_bfloat16 to_complex128 to_complex64 "
        "to_double to_float to_int32 to_int64",
    "pyflow.lib.math.complex_functions":
        "abs angle complex complex_abs conj math.abs math.angle math.conj math.round round",
    "pyflow.lib.math.einsum_functions":
        "einsum linalg.einsum",
    "pyflow.lib.math.linalg_functions":
        "cholesky_solve linalg.adjoint linalg.cholesky_solve linalg.eigh linalg.eigvalsh "
        "linalg.expm linalg.logdet linalg.logm linalg.lstsq linalg.lu linalg.lu_matrix_inverse "
        "linalg.lu_reconstruct linalg.lu_solve linalg.matrix_rank linalg.norm linalg.normalize "
        "linalg.pinv linalg.qr linalg.slogdet linalg.sqrtm linalg.svd linalg.triangular_solve "
        "linalg.tridiagonal_matmul linalg.tridiagonal_solve matrix_solve_ls matrix_square_root "
        "matrix_triangular_solve norm qr self_adjoint_eig self_adjoint_eigvals svd",
    "pyflow.lib.math.logic_functions":
        "boolean_mask logical_xor math.logical_xor math.not_equal not_equal where where_v2",
    "pyflow.lib.math.lookup_functions":
        "argsort confusion_matrix histogram_fixed_width histogram_fixed_width_bins "
        "math.confusion_matrix searchsorted sort tensor_scatter_add tensor_scatter_nd_add "
        "tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_sub",
    "pyflow.lib.math.matmul_functions":
        "batch_matmul linalg.inv linalg.matvec linalg.solve linalg.tensordot matrix_inverse "
        "matrix_solve tensordot",
    "pyflow.lib.math.nth_element_functions":
        "contrib.nn.nth_element",
    "pyflow.lib.math.reductions":
        "arg_max arg_min argmax argmin count_nonzero cumprod cumsum math.argmax math.argmin "
        "math.count_nonzero math.cumprod math.cumsum math.reduce_all math.reduce_any "
        "math.reduce_euclidean_norm math.reduce_logsumexp math.reduce_max math.reduce_mean "
        "math.reduce_min math.reduce_prod math.reduce_std math.reduce_sum math.reduce_variance "
        "reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod "
        "reduce_sum",
    "pyflow.lib.math.segment_functions":
        "math.unsorted_segment_mean math.unsorted_segment_sqrt_n sparse.segment_mean "
        "sparse.segment_sqrt_n sparse.segment_sum sparse_segment_mean sparse_segment_sqrt_n "
        "sparse_segment_sum unsorted_segment_mean unsorted_segment_sqrt_n",
    "pyflow.lib.math.special_functions":
        "lbeta math.bessel_i0 math.bessel_i1 math.cumulative_logsumexp math.erfcinv math.lbeta "
        "math.polyval math.reciprocal_no_nan math.scalar_mul math.xlog1py repeat scalar_mul",
    "pyflow.lib.metrics.classes":
        "metrics.average_precision_at_k metrics.mean_iou metrics.mean_per_class_accuracy "
        "metrics.precision_at_k metrics.precision_at_top_k metrics.recall_at_k "
        "metrics.recall_at_top_k metrics.sparse_average_precision_at_k "
        "metrics.sparse_precision_at_k",
    "pyflow.lib.metrics.counts":
        "metrics.auc metrics.false_negatives metrics.false_negatives_at_thresholds "
        "metrics.false_positives metrics.false_positives_at_thresholds metrics.precision "
        "metrics.precision_at_thresholds metrics.recall metrics.recall_at_thresholds "
        "metrics.sensitivity_at_specificity metrics.specificity_at_sensitivity "
        "metrics.true_negatives metrics.true_negatives_at_thresholds metrics.true_positives "
        "metrics.true_positives_at_thresholds",
    "pyflow.lib.metrics.streaming":
        "metrics.accuracy metrics.mean metrics.mean_absolute_error metrics.mean_cosine_distance "
        "metrics.mean_relative_error metrics.mean_squared_error metrics.mean_tensor "
        "metrics.percentage_below metrics.root_mean_squared_error",
    "pyflow.lib.nn.activation_functions":
        "log_sigmoid math.log_sigmoid nn.crelu nn.leaky_relu nn.log_sigmoid nn.swish",
    "pyflow.lib.nn.candidate_sampling_functions":
        "nn.all_candidate_sampler nn.compute_accidental_hits nn.fixed_unigram_candidate_sampler "
        "nn.learned_unigram_candidate_sampler nn.log_uniform_candidate_sampler nn.nce_loss "
        "nn.sampled_softmax_loss nn.uniform_candidate_sampler random.all_candidate_sampler "
        "random.fixed_unigram_candidate_sampler random.learned_unigram_candidate_sampler "
        "random.log_uniform_candidate_sampler random.uniform_candidate_sampler",
    "pyflow.lib.nn.conv2d_functions":
        "nn.conv1d nn.conv2d nn.conv2d_backprop_filter nn.conv2d_backprop_input "
        "nn.conv2d_transpose nn.deconv2d nn.depthwise_conv2d nn.depthwise_conv2d_backprop_filter "
        "nn.depthwise_conv2d_backprop_input nn.depthwise_conv2d_native "
        "nn.depthwise_conv2d_native_backprop_filter nn.depthwise_conv2d_native_backprop_input "
        "nn.separable_conv2d",
    "pyflow.lib.nn.conv3d_functions":
        "nn.conv3d nn.conv3d_backprop_filter nn.conv3d_backprop_filter_v2 nn.conv3d_transpose",
    "pyflow.lib.nn.conv_functions":
        "nn.atrous_conv2d nn.atrous_conv2d_transpose nn.conv1d_transpose nn.conv_transpose "
        "nn.convolution",
    "pyflow.lib.nn.ctc_functions":
        "nn.collapse_repeated nn.ctc_beam_search_decoder nn.ctc_beam_search_decoder_v2 "
        "nn.ctc_greedy_decoder nn.ctc_loss nn.ctc_loss_v2 nn.ctc_unique_labels",
    "pyflow.lib.nn.dilation_functions":
        "nn.dilation2d nn.erosion2d",
    "pyflow.lib.nn.embedding_functions":
        "nn.embedding_lookup_sparse nn.safe_embedding_lookup_sparse",
    "pyflow.lib.nn.fractional_pool_functions":
        "nn.fractional_avg_pool nn.fractional_max_pool",
    "pyflow.lib.nn.loss_functions":
        "losses.Reduction losses.absolute_difference losses.add_loss losses.compute_weighted_loss "
        "losses.cosine_distance losses.get_losses losses.get_regularization_loss "
        "losses.get_regularization_losses losses.get_total_loss losses.hinge_loss "
        "losses.huber_loss losses.log_loss losses.mean_pairwise_squared_error "
        "losses.mean_squared_error losses.sigmoid_cross_entropy losses.softmax_cross_entropy "
        "losses.sparse_softmax_cross_entropy",
    "pyflow.lib.nn.nn_functions":
        "clip_by_average_norm clip_by_global_norm clip_by_norm clip_by_value global_norm "
        "linalg.global_norm linalg.l2_normalize math.l2_normalize math.zero_fraction nn.dropout "
        "nn.embedding_lookup nn.l2_normalize nn.sufficient_statistics nn.zero_fraction "
        "sequence_mask",
    "pyflow.lib.nn.norm_functions":
        "nn.batch_norm_with_global_normalization nn.batch_normalization nn.bias_add "
        "nn.bias_add_v1 nn.fused_batch_norm nn.moments nn.normalize_moments nn.relu_layer "
        "nn.xw_plus_b",
    "pyflow.lib.nn.pool2d_functions":
        "nn.avg_pool nn.avg_pool2d nn.local_response_normalization nn.lrn nn.max_pool "
        "nn.max_pool2d nn.max_pool_with_argmax",
    "pyflow.lib.nn.pool3d_functions":
        "nn.avg_pool3d nn.max_pool3d",
    "pyflow.lib.nn.pool_functions":
        "nn.avg_pool1d nn.avg_pool_v2 nn.max_pool1d nn.max_pool_v2 nn.pool",
    "pyflow.lib.nn.quantize_functions":
        "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient "
        "fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient "
        "fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient "
        "quantization.fake_quant_with_min_max_args "
        "quantization.fake_quant_with_min_max_args_gradient "
        "quantization.fake_quant_with_min_max_vars "
        "quantization.fake_quant_with_min_max_vars_gradient "
        "quantization.fake_quant_with_min_max_vars_per_channel "
        "quantization.fake_quant_with_min_max_vars_per_channel_gradient "
        "quantization.quantize_and_dequantize",
    "pyflow.lib.nn.softmax_functions":
        "math.log_softmax math.softmax nn.log_poisson_loss nn.log_softmax "
        "nn.sigmoid_cross_entropy_with_logits nn.softmax nn.softmax_cross_entropy_with_logits "
        "nn.softmax_cross_entropy_with_logits_v2 nn.sparse_softmax_cross_entropy_with_logits "
        "nn.weighted_cross_entropy_with_logits",
    "pyflow.lib.nn.space_to_batch":
        "nn.with_space_to_batch",
    "pyflow.lib.nn.weighted_functions":
        "nn.compute_average_loss nn.scale_regularization_loss nn.silu nn.weighted_moments",
    "pyflow.lib.parsing.features":
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature io.FixedLenFeature "
        "io.FixedLenSequenceFeature io.SparseFeature io.VarLenFeature",
    "pyflow.lib.parsing.parsing":
        "decode_json_example io.decode_json_example io.parse_example io.parse_sequence_example "
        "io.parse_single_example io.parse_single_sequence_example io.parse_tensor "
        "io.serialize_tensor parse_example parse_single_example parse_single_sequence_example "
        "parse_tensor serialize_tensor",
    "pyflow.lib.queue.accumulators":
        "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator "
        "sparse.SparseConditionalAccumulator",
    "pyflow.lib.queue.queues":
        "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue queue.FIFOQueue "
        "queue.PaddingFIFOQueue queue.PriorityQueue queue.QueueBase queue.RandomShuffleQueue",
    "pyflow.lib.queue.staging":
        "contrib.staging.MapStagingArea contrib.staging.StagingArea",
    "pyflow.lib.random.random_functions":
        "image.random_crop multinomial random.categorical random.multinomial random.normal "
        "random.shuffle random.truncated_normal random.uniform random_crop random_normal "
        "random_shuffle random_uniform truncated_normal",
    "pyflow.lib.random.stateless_random_functions":
        "random.gamma random.poisson random.stateless_categorical random.stateless_multinomial "
        "random.stateless_normal random.stateless_truncated_normal random.stateless_uniform "
        "random_gamma random_poisson",
    "pyflow.lib.random.stateless_variate_functions":
        "random.stateless_binomial random.stateless_gamma random.stateless_poisson",
    "pyflow.lib.reader.readers":
        "FixedLengthRecordReader IdentityReader ReaderBase TFRecordReader TextLineReader "
        "WholeFileReader",
    "pyflow.lib.rnn.legacy_seq2seq":
        "contrib.legacy_seq2seq.model_with_buckets contrib.legacy_seq2seq.rnn_decoder "
        "contrib.legacy_seq2seq.sequence_loss contrib.legacy_seq2seq.sequence_loss_by_example",
    "pyflow.lib.rnn.rnn":
        "nn.bidirectional_dynamic_rnn nn.dynamic_rnn nn.raw_rnn",
    "pyflow.lib.rnn.rnn_cell":
        "contrib.rnn.BasicLSTMCell contrib.rnn.BasicRNNCell contrib.rnn.GRUCell "
        "contrib.rnn.LSTMCell contrib.rnn.LSTMStateTuple contrib.rnn.RNNCell "
        "nn.rnn_cell.BasicLSTMCell nn.rnn_cell.BasicRNNCell nn.rnn_cell.GRUCell "
        "nn.rnn_cell.LSTMCell nn.rnn_cell.LSTMStateTuple nn.rnn_cell.RNNCell",
    "pyflow.lib.rnn.rnn_cell_wrappers":
        "contrib.rnn.DeviceWrapper contrib.rnn.DropoutWrapper contrib.rnn.MultiRNNCell "
        "contrib.rnn.ResidualWrapper nn.rnn_cell.DeviceWrapper nn.rnn_cell.DropoutWrapper "
        "nn.rnn_cell.MultiRNNCell nn.rnn_cell.ResidualWrapper",
    "pyflow.lib.rnn.rnn_fused_cells":
        "contrib.rnn.GRUBlockCell contrib.rnn.GRUBlockCellV2 contrib.rnn.LSTMBlockCell "
        "contrib.rnn.LSTMBlockFusedCell",
    "pyflow.lib.rnn.rnn_static":
        "contrib.rnn.static_bidirectional_rnn contrib.rnn.static_rnn "
        "contrib.rnn.static_state_saving_rnn nn.static_bidirectional_rnn nn.static_rnn "
        "nn.static_state_saving_rnn",
    "pyflow.lib.seq2seq.attention":
        "contrib.seq2seq.AttentionMechanism contrib.seq2seq.AttentionWrapper "
        "contrib.seq2seq.AttentionWrapperState contrib.seq2seq.BahdanauAttention "
        "contrib.seq2seq.LuongAttention contrib.seq2seq.hardmax",
    "pyflow.lib.seq2seq.beam_search":
        "contrib.seq2seq.BeamSearchDecoder contrib.seq2seq.BeamSearchDecoderOutput "
        "contrib.seq2seq.BeamSearchDecoderState contrib.seq2seq.FinalBeamSearchDecoderOutput "
        "contrib.seq2seq.gather_tree contrib.seq2seq.tile_batch",
    "pyflow.lib.seq2seq.decoders":
        "contrib.seq2seq.BasicDecoder contrib.seq2seq.BasicDecoderOutput contrib.seq2seq.Decoder "
        "contrib.seq2seq.dynamic_decode",
    "pyflow.lib.seq2seq.helpers":
        "contrib.seq2seq.CustomHelper contrib.seq2seq.GreedyEmbeddingHelper "
        "contrib.seq2seq.Helper contrib.seq2seq.InferenceHelper "
        "contrib.seq2seq.SampleEmbeddingHelper contrib.seq2seq.ScheduledEmbeddingTrainingHelper "
        "contrib.seq2seq.TrainingHelper",
    "pyflow.lib.seq2seq.loss":
        "contrib.seq2seq.sequence_loss",
    "pyflow.lib.signal.fft_functions":
        "fft fft2d fft3d ifft ifft2d ifft3d signal.fft signal.fft2d signal.fft3d signal.fftshift "
        "signal.ifft signal.ifft2d signal.ifft3d signal.ifftshift signal.irfft signal.irfft2d "
        "signal.irfft3d signal.rfft signal.rfft2d signal.rfft3d spectral.fft spectral.fft2d "
        "spectral.fft3d spectral.ifft spectral.ifft2d spectral.ifft3d spectral.irfft "
        "spectral.irfft2d spectral.irfft3d spectral.rfft spectral.rfft2d spectral.rfft3d",
    "pyflow.lib.signal.signal_functions":
        "signal.dct signal.frame signal.hamming_window signal.hann_window signal.idct "
        "signal.inverse_stft signal.inverse_stft_window_fn signal.linear_to_mel_weight_matrix "
        "signal.mfccs_from_log_mel_spectrograms signal.overlap_and_add signal.stft spectral.dct "
        "spectral.idct",
    "pyflow.lib.signal.signal_windows":
        "signal.inverse_mdct signal.kaiser_bessel_derived_window signal.kaiser_window signal.mdct "
        "signal.vorbis_window",
    "pyflow.lib.sparse.ragged":
        "RaggedTensor ragged.RaggedTensorValue ragged.constant ragged.constant_value "
        "ragged.map_flat_values ragged.row_splits_to_segment_ids ragged.segment_ids_to_row_splits",
    "pyflow.lib.sparse.sparse_cross_functions":
        "sparse.cross sparse.cross_hashed",
    "pyflow.lib.sparse.sparse_functions":
        "convert_to_tensor_or_sparse_tensor deserialize_many_sparse edit_distance "
        "io.deserialize_many_sparse io.deserialize_sparse io.serialize_many_sparse "
        "io.serialize_sparse serialize_many_sparse serialize_sparse sets.difference "
        "sets.intersection sets.set_difference sets.set_intersection sets.set_size sets.set_union "
        "sets.size sets.union sparse.SparseTensor sparse.add sparse.concat sparse.expand_dims "
        "sparse.eye sparse.fill_empty_rows sparse.from_dense sparse.mask sparse.matmul "
        "sparse.maximum sparse.merge sparse.minimum sparse.reduce_max sparse.reduce_max_sparse "
        "sparse.reduce_sum sparse.reduce_sum_sparse sparse.reorder sparse.reset_shape "
        "sparse.reshape sparse.retain sparse.slice sparse.softmax sparse.sparse_dense_matmul "
        "sparse.split sparse.to_indicator sparse.transpose sparse_add sparse_concat "
        "sparse_fill_empty_rows sparse_mask sparse_matmul sparse_maximum sparse_merge "
        "sparse_minimum sparse_reduce_max sparse_reduce_max_sparse sparse_reduce_sum "
        "sparse_reduce_sum_sparse sparse_reorder sparse_reset_shape sparse_reshape sparse_retain "
        "sparse_slice sparse_softmax sparse_split sparse_tensor_dense_matmul sparse_to_indicator "
        "sparse_transpose",
    "pyflow.lib.strings.string_data_functions":
        "decode_base64 decode_csv decode_raw encode_base64 io.decode_base64 io.decode_compressed "
        "io.decode_csv io.decode_raw io.encode_base64 string_to_hash_bucket "
        "string_to_hash_bucket_fast string_to_hash_bucket_strong strings.to_hash_bucket "
        "strings.to_hash_bucket_fast strings.to_hash_bucket_strong strings.unicode_transcode",
    "pyflow.lib.strings.string_functions":
        "as_string dtypes.as_string reduce_join string_join string_to_number strings.as_string "
        "strings.join strings.reduce_join strings.to_number",
    "pyflow.lib.strings.string_text_functions":
        "regex_replace string_split string_strip strings.format strings.length strings.lower "
        "strings.regex_full_match strings.regex_replace strings.split strings.strip "
        "strings.substr strings.unsorted_segment_join strings.upper substr",
    "pyflow.lib.strings.unicode_functions":
        "strings.unicode_decode strings.unicode_decode_with_offsets strings.unicode_encode "
        "strings.unicode_script strings.unicode_split strings.unicode_split_with_offsets",
    "pyflow.lib.summary.file_writer":
        "summary.FileWriter summary.FileWriterCache train.summary_iterator",
    "pyflow.lib.summary.projector":
        "contrib.tensorboard.plugins.projector.visualize_embeddings",
    "pyflow.lib.summary.summary_functions":
        "summary.audio summary.get_summary_description summary.histogram summary.image "
        "summary.merge summary.merge_all summary.scalar summary.tensor_summary summary.text",
    "pyflow.lib.variables.critical_section":
        "CriticalSection",
    "pyflow.lib.variables.initializers":
        "constant_initializer contrib.layers.variance_scaling_initializer "
        "contrib.layers.xavier_initializer contrib.layers.xavier_initializer_conv2d "
        "contrib.slim.variance_scaling_initializer contrib.slim.xavier_initializer "
        "contrib.slim.xavier_initializer_conv2d glorot_normal_initializer "
        "glorot_uniform_initializer initializers.constant initializers.glorot_normal "
        "initializers.glorot_uniform initializers.he_normal initializers.he_uniform "
        "initializers.identity initializers.lecun_normal initializers.lecun_uniform "
        "initializers.ones initializers.orthogonal initializers.random_normal "
        "initializers.random_uniform initializers.truncated_normal "
        "initializers.uniform_unit_scaling initializers.variance_scaling initializers.zeros "
        "ones_initializer orthogonal_initializer random_normal_initializer "
        "random_uniform_initializer truncated_normal_initializer uniform_unit_scaling_initializer "
        "variance_scaling_initializer zeros_initializer",
    "pyflow.lib.variables.lookup_tables":
        "initialize_all_tables initializers.tables_initializer lookup.KeyValueTensorInitializer "
        "lookup.StaticHashTable lookup.StaticVocabularyTable lookup.TextFileIndex "
        "lookup.TextFileInitializer lookup.experimental.MutableHashTable tables_initializer",
    "pyflow.lib.variables.partitioned_variables":
        "fixed_size_partitioner min_max_variable_partitioner variable_axis_size_partitioner",
    "pyflow.lib.variables.regularizers":
        "contrib.layers.apply_regularization contrib.layers.l1_l2_regularizer "
        "contrib.layers.l1_regularizer contrib.layers.l2_regularizer "
        "contrib.layers.sum_regularizer contrib.slim.apply_regularization "
        "contrib.slim.l1_l2_regularizer contrib.slim.l1_regularizer contrib.slim.l2_regularizer "
        "contrib.slim.sum_regularizer",
    "pyflow.lib.variables.session_functions":
        "delete_session_tensor get_session_handle get_session_tensor",
    "pyflow.lib.variables.state_functions":
        "assign assign_add assign_sub count_up_to is_variable_initialized scatter_add scatter_div "
        "scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub scatter_nd_update "
        "scatter_sub scatter_update",
    "pyflow.lib.variables.template":
        "make_template",
    "pyflow.lib.variables.variable_scope":
        "AUTO_REUSE VariableScope contrib.framework.local_variable create_partitioned_variables "
        "disable_resource_variables enable_resource_variables get_local_variable get_variable "
        "get_variable_scope no_regularizer resource_variables_enabled variable_op_scope "
        "variable_scope",
    "pyflow.lib.variables.variables":
        "Variable VariableAggregation VariableSynchronization all_variables "
        "assert_variables_initialized global_variables global_variables_initializer "
        "initialize_all_variables initialize_local_variables initialize_variables local_variables "
        "local_variables_initializer model_variables moving_average_variables "
        "report_uninitialized_variables trainable_variables variables_initializer",
    "pyflow.framework.nest":
        "contrib.framework.nest.flatten contrib.framework.nest.map_structure "
        "contrib.framework.nest.pack_sequence_as nest.assert_same_structure nest.flatten "
        "nest.map_structure nest.pack_sequence_as",
    "pyflow.gradients.backprop":
        "AggregationMethod UnconnectedGradients gradients",
    "pyflow.gradients.higher_order":
        "custom_gradient hessians",
    "pyflow.distributed.run.server":
        "train.Server",
    "pyflow.train.optimizer":
        "train.Optimizer",
    "pyflow.train.gradient_descent":
        "train.GradientDescentOptimizer",
    "pyflow.train.momentum":
        "train.MomentumOptimizer",
    "pyflow.train.adam":
        "train.AdamOptimizer",
    "pyflow.train.rmsprop":
        "train.RMSPropOptimizer",
    "pyflow.train.adagrad":
        "train.AdadeltaOptimizer train.AdagradOptimizer",
    "pyflow.train.ftrl":
        "train.FtrlOptimizer",
    "pyflow.train.proximal":
        "train.ProximalAdagradOptimizer train.ProximalGradientDescentOptimizer",
    "pyflow.train.adagrad_da":
        "train.AdagradDAOptimizer",
    "pyflow.train.adam_variants":
        "contrib.opt.AdaMaxOptimizer contrib.opt.LazyAdamOptimizer contrib.opt.NadamOptimizer",
    "pyflow.train.sign_optimizers":
        "contrib.opt.AddSignOptimizer contrib.opt.PowerSignOptimizer "
        "contrib.opt.get_cosine_decay_fn contrib.opt.get_linear_decay_fn "
        "contrib.opt.get_restart_decay_fn",
    "pyflow.train.weight_decay":
        "contrib.opt.AdamWOptimizer contrib.opt.DecoupledWeightDecayExtension "
        "contrib.opt.LARSOptimizer contrib.opt.MomentumWOptimizer "
        "contrib.opt.extend_with_decoupled_weight_decay",
    "pyflow.train.training_util":
        "contrib.framework.create_global_step contrib.framework.get_global_step "
        "contrib.framework.get_or_create_global_step train.assert_global_step "
        "train.create_global_step train.get_global_step train.get_or_create_global_step "
        "train.global_step",
    "pyflow.train.learning_rate_decay":
        "train.cosine_decay train.cosine_decay_restarts train.exponential_decay "
        "train.inverse_time_decay train.linear_cosine_decay train.natural_exp_decay "
        "train.noisy_linear_cosine_decay train.piecewise_constant train.piecewise_constant_decay "
        "train.polynomial_decay",
    "pyflow.train.moving_averages":
        "train.ExponentialMovingAverage",
    "pyflow.train.checkpoint":
        "train.CheckpointReader train.NewCheckpointReader train.checkpoint_exists "
        "train.remove_checkpoint",
    "pyflow.train.checkpoint_state":
        "train.CheckpointState train.generate_checkpoint_state_proto train.get_checkpoint_mtimes "
        "train.get_checkpoint_state train.latest_checkpoint train.update_checkpoint_state",
    "pyflow.train.checkpoint_values":
        "train.list_variables train.load_checkpoint train.load_variable",
    "pyflow.train.device_setter":
        "contrib.training.GreedyLoadBalancingStrategy contrib.training.RandomStrategy "
        "contrib.training.byte_size_load_fn train.replica_device_setter",
    "pyflow.train.cluster_spec":
        "train.ClusterSpec",
    "pyflow.train.iterator_saveable":
        "contrib.data.make_saveable_from_iterator data.experimental.make_saveable_from_iterator",
    "pyflow.train.saver":
        "train.Saver train.SaverDef train.export_meta_graph train.import_meta_graph",
    "pyflow.train.wrapping_optimizers":
        "contrib.opt.MovingAverageOptimizer contrib.opt.VariableClippingOptimizer",
    "pyflow.train.external_optimizer":
        "contrib.opt.ExternalOptimizerInterface contrib.opt.ScipyOptimizerInterface",
    "pyflow.train.initial_values":
        "train.init_from_checkpoint",
    "pyflow.train.contrib_checkpoints":
        "contrib.framework.assign_from_checkpoint contrib.framework.assign_from_checkpoint_fn "
        "contrib.framework.init_from_checkpoint contrib.framework.list_variables "
        "contrib.framework.load_checkpoint contrib.framework.load_variable "
        "contrib.slim.assign_from_checkpoint contrib.slim.assign_from_checkpoint_fn",
    "pyflow.train.contrib_optimizers":
        "contrib.layers.OPTIMIZER_CLS_NAMES contrib.layers.OPTIMIZER_SUMMARIES "
        "contrib.layers.adaptive_clipping_fn contrib.layers.optimize_loss "
        "contrib.slim.optimize_loss",
    "pyflow.train.slim_learning":
        "contrib.slim.learning.add_gradients_summaries contrib.slim.learning.clip_gradient_norms "
        "contrib.slim.learning.create_train_op contrib.slim.learning.multiply_gradients "
        "contrib.slim.learning.train contrib.slim.learning.train_step "
        "contrib.training.add_gradients_summaries contrib.training.clip_gradient_norms "
        "contrib.training.clip_gradient_norms_fn contrib.training.create_train_op "
        "contrib.training.multiply_gradients",
    "pyflow.train.slim_evaluation":
        "contrib.slim.evaluation.checkpoints_iterator contrib.slim.evaluation.evaluate_once "
        "contrib.slim.evaluation.evaluation_loop contrib.slim.evaluation.wait_for_new_checkpoint "
        "contrib.training.checkpoints_iterator contrib.training.wait_for_new_checkpoint "
        "train.checkpoints_iterator",
    "pyflow.train.coordinator":
        "train.Coordinator train.LooperThread",
    "pyflow.train.queue_runners":
        "train.QueueRunner train.add_queue_runner train.queue_runner.QueueRunner "
        "train.queue_runner.add_queue_runner train.queue_runner.start_queue_runners "
        "train.start_queue_runners",
    "pyflow.train.input":
        "io.match_filenames_once train.batch train.batch_join train.input_producer "
        "train.limit_epochs train.match_filenames_once train.maybe_batch train.maybe_batch_join "
        "train.maybe_shuffle_batch train.maybe_shuffle_batch_join train.range_input_producer "
        "train.shuffle_batch train.shuffle_batch_join train.slice_input_producer "
        "train.string_input_producer",
    "pyflow.train.bucketing":
        "contrib.training.bucket contrib.training.bucket_by_sequence_length",
    "pyflow.train.session_run_hook":
        "train.SessionRunArgs train.SessionRunContext train.SessionRunHook train.SessionRunValues",
    "pyflow.train.session_manager":
        "train.SessionManager",
    "pyflow.train.scaffold":
        "train.Scaffold",
    "pyflow.train.hooks":
        "train.CheckpointSaverHook train.CheckpointSaverListener train.FeedFnHook "
        "train.FinalOpsHook train.GlobalStepWaiterHook train.LoggingTensorHook "
        "train.NanLossDuringTrainingError train.NanTensorHook train.ProfilerHook "
        "train.SecondOrStepTimer train.StepCounterHook train.StopAtStepHook "
        "train.SummarySaverHook",
    "pyflow.train.monitored_session":
        "train.ChiefSessionCreator train.MonitoredSession train.MonitoredTrainingSession "
        "train.SessionCreator train.SingularMonitoredSession train.WorkerSessionCreator",
    "pyflow.train.evaluation":
        "contrib.training.StopAfterNEvalsHook contrib.training.evaluate_once "
        "contrib.training.get_or_create_eval_step",
    "pyflow.train.supervisor":
        "train.Supervisor",
    "pyflow.train.sync_replicas":
        "train.SyncReplicasOptimizer",
    "pyflow.saved_model.folders":
        "saved_model.contains_saved_model saved_model.loader.maybe_saved_model_directory "
        "saved_model.maybe_saved_model_directory",
    "pyflow.saved_model.keys":
        "saved_model.ASSETS_DIRECTORY saved_model.ASSETS_KEY saved_model.CLASSIFY_INPUTS "
        "saved_model.CLASSIFY_METHOD_NAME saved_model.CLASSIFY_OUTPUT_CLASSES "
        "saved_model.CLASSIFY_OUTPUT_SCORES saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY "
        "saved_model.EVAL saved_model.GPU saved_model.LEGACY_INIT_OP_KEY saved_model.MAIN_OP_KEY "
        "saved_model.PREDICT_INPUTS saved_model.PREDICT_METHOD_NAME saved_model.PREDICT_OUTPUTS "
        "saved_model.REGRESS_INPUTS saved_model.REGRESS_METHOD_NAME saved_model.REGRESS_OUTPUTS "
        "saved_model.SAVED_MODEL_FILENAME_PB saved_model.SAVED_MODEL_FILENAME_PBTXT "
        "saved_model.SAVED_MODEL_SCHEMA_VERSION saved_model.SERVING saved_model.TPU "
        "saved_model.TRAINING saved_model.VARIABLES_DIRECTORY saved_model.VARIABLES_FILENAME "
        "saved_model.constants.ASSETS_DIRECTORY saved_model.constants.ASSETS_KEY "
        "saved_model.constants.LEGACY_INIT_OP_KEY saved_model.constants.MAIN_OP_KEY "
        "saved_model.constants.SAVED_MODEL_FILENAME_PB "
        "saved_model.constants.SAVED_MODEL_FILENAME_PBTXT "
        "saved_model.constants.SAVED_MODEL_SCHEMA_VERSION "
        "saved_model.constants.VARIABLES_DIRECTORY saved_model.constants.VARIABLES_FILENAME "
        "saved_model.signature_constants.CLASSIFY_INPUTS "
        "saved_model.signature_constants.CLASSIFY_METHOD_NAME "
        "saved_model.signature_constants.CLASSIFY_OUTPUT_CLASSES "
        "saved_model.signature_constants.CLASSIFY_OUTPUT_SCORES "
        "saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY "
        "saved_model.signature_constants.PREDICT_INPUTS "
        "saved_model.signature_constants.PREDICT_METHOD_NAME "
        "saved_model.signature_constants.PREDICT_OUTPUTS "
        "saved_model.signature_constants.REGRESS_INPUTS "
        "saved_model.signature_constants.REGRESS_METHOD_NAME "
        "saved_model.signature_constants.REGRESS_OUTPUTS saved_model.tag_constants.EVAL "
        "saved_model.tag_constants.GPU saved_model.tag_constants.SERVING "
        "saved_model.tag_constants.TPU saved_model.tag_constants.TRAINING",
    "pyflow.saved_model.reading":
        "saved_model.load saved_model.loader.load saved_model.main_op.main_op "
        "saved_model.main_op.main_op_with_restore saved_model.main_op_with_restore",
    "pyflow.saved_model.signatures":
        "saved_model.build_signature_def saved_model.build_tensor_info "
        "saved_model.classification_signature_def saved_model.get_tensor_from_tensor_info "
        "saved_model.is_valid_signature saved_model.predict_signature_def "
        "saved_model.regression_signature_def saved_model.signature_def_utils.build_signature_def "
        "saved_model.signature_def_utils.classification_signature_def "
        "saved_model.signature_def_utils.is_valid_signature "
        "saved_model.signature_def_utils.predict_signature_def "
        "saved_model.signature_def_utils.regression_signature_def "
        "saved_model.utils.build_tensor_info saved_model.utils.get_tensor_from_tensor_info",
    "pyflow.saved_model.writing":
        "saved_model.Builder saved_model.builder.SavedModelBuilder saved_model.simple_save",
    "pyflow.feature_column.categorical":
        "feature_column.categorical_column_with_hash_bucket "
        "feature_column.categorical_column_with_identity "
        "feature_column.categorical_column_with_vocabulary_file "
        "feature_column.categorical_column_with_vocabulary_list feature_column.crossed_column "
        "feature_column.weighted_categorical_column",
    "pyflow.feature_column.dense":
        "feature_column.embedding_column feature_column.indicator_column "
        "feature_column.shared_embedding_columns",
    "pyflow.feature_column.layers":
        "feature_column.input_layer feature_column.linear_model "
        "feature_column.make_parse_example_spec",
    "pyflow.feature_column.numeric":
        "feature_column.bucketized_column feature_column.numeric_column",
    "pyflow.feature_column.sequences":
        "contrib.feature_column.sequence_categorical_column_with_hash_bucket "
        "contrib.feature_column.sequence_categorical_column_with_identity "
        "contrib.feature_column.sequence_categorical_column_with_vocabulary_file "
        "contrib.feature_column.sequence_categorical_column_with_vocabulary_list "
        "contrib.feature_column.sequence_input_layer "
        "contrib.feature_column.sequence_numeric_column "
        "feature_column.sequence_categorical_column_with_hash_bucket "
        "feature_column.sequence_categorical_column_with_identity "
        "feature_column.sequence_categorical_column_with_vocabulary_file "
        "feature_column.sequence_categorical_column_with_vocabulary_list "
        "feature_column.sequence_numeric_column",
    "pyflow.estimator.added_metrics":
        "contrib.estimator.add_metrics estimator.add_metrics",
    "pyflow.estimator.array_inputs":
        "estimator.inputs.numpy_input_fn estimator.inputs.pandas_input_fn",
    "pyflow.estimator.baseline":
        "estimator.BaselineClassifier estimator.BaselineEstimator estimator.BaselineRegressor",
    "pyflow.estimator.contrib_columns":
        "contrib.layers.bucketized_column contrib.layers.create_feature_spec_for_parsing "
        "contrib.layers.crossed_column contrib.layers.embedding_column "
        "contrib.layers.input_from_feature_columns contrib.layers.one_hot_column "
        "contrib.layers.real_valued_column contrib.layers.sparse_column_with_hash_bucket "
        "contrib.layers.sparse_column_with_integerized_feature "
        "contrib.layers.sparse_column_with_keys contrib.layers.sparse_column_with_vocabulary_file "
        "contrib.layers.weighted_sparse_column",
    "pyflow.estimator.contrib_datasets":
        "contrib.learn.datasets.base.Dataset contrib.learn.datasets.base.Datasets "
        "contrib.learn.datasets.base.load_boston contrib.learn.datasets.base.load_csv_with_header "
        "contrib.learn.datasets.base.load_csv_without_header "
        "contrib.learn.datasets.base.load_iris contrib.learn.datasets.base.shrink_csv "
        "contrib.learn.datasets.load_boston contrib.learn.datasets.load_iris",
    "pyflow.estimator.contrib_experiment":
        "contrib.learn.Experiment contrib.learn.learn_runner.run",
    "pyflow.estimator.contrib_learn":
        "contrib.learn.DNNClassifier contrib.learn.DNNLinearCombinedClassifier "
        "contrib.learn.DNNLinearCombinedRegressor contrib.learn.DNNRegressor "
        "contrib.learn.Estimator contrib.learn.LinearClassifier contrib.learn.LinearRegressor "
        "contrib.learn.MetricSpec contrib.learn.ModeKeys contrib.learn.ModelFnOps "
        "contrib.learn.RunConfig contrib.learn.SKCompat "
        "contrib.learn.infer_real_valued_columns_from_input "
        "contrib.learn.infer_real_valued_columns_from_input_fn",
    "pyflow.estimator.dnn":
        "estimator.DNNClassifier estimator.DNNEstimator estimator.DNNRegressor",
    "pyflow.estimator.dnn_linear_combined":
        "estimator.DNNLinearCombinedClassifier estimator.DNNLinearCombinedEstimator "
        "estimator.DNNLinearCombinedRegressor",
    "pyflow.estimator.early_stopping":
        "contrib.estimator.make_early_stopping_hook contrib.estimator.stop_if_higher_hook "
        "contrib.estimator.stop_if_lower_hook contrib.estimator.stop_if_no_decrease_hook "
        "contrib.estimator.stop_if_no_increase_hook "
        "estimator.experimental.make_early_stopping_hook "
        "estimator.experimental.stop_if_higher_hook estimator.experimental.stop_if_lower_hook "
        "estimator.experimental.stop_if_no_decrease_hook "
        "estimator.experimental.stop_if_no_increase_hook",
    "pyflow.estimator.estimators":
        "estimator.Estimator",
    "pyflow.estimator.exporters":
        "estimator.BestExporter estimator.Exporter estimator.FinalExporter "
        "estimator.LatestExporter",
    "pyflow.estimator.heads":
        "contrib.estimator.binary_classification_head contrib.estimator.logistic_regression_head "
        "contrib.estimator.multi_class_head contrib.estimator.multi_label_head "
        "contrib.estimator.poisson_regression_head contrib.estimator.regression_head "
        "estimator.BinaryClassHead estimator.Head estimator.LogisticRegressionHead "
        "estimator.MultiClassHead estimator.MultiLabelHead estimator.PoissonRegressionHead "
        "estimator.RegressionHead",
    "pyflow.estimator.input_checkpoints":
        "contrib.data.CheckpointInputPipelineHook data.experimental.CheckpointInputPipelineHook",
    "pyflow.estimator.kmeans":
        "contrib.factorization.COSINE_DISTANCE contrib.factorization.KMEANS_PLUS_PLUS_INIT "
        "contrib.factorization.KMeans contrib.factorization.KMeansClustering "
        "contrib.factorization.RANDOM_INIT contrib.factorization.SQUARED_EUCLIDEAN_DISTANCE "
        "estimator.experimental.KMeans",
    "pyflow.estimator.linear":
        "estimator.LinearClassifier estimator.LinearEstimator estimator.LinearRegressor",
    "pyflow.estimator.local_training":
        "estimator.EvalSpec estimator.TrainSpec estimator.train_and_evaluate",
    "pyflow.estimator.modes":
        "estimator.ModeKeys",
    "pyflow.estimator.outputs":
        "estimator.export.ClassificationOutput estimator.export.ExportOutput "
        "estimator.export.PredictOutput estimator.export.RegressionOutput",
    "pyflow.estimator.parse_specs":
        "estimator.classifier_parse_example_spec estimator.regressor_parse_example_spec",
    "pyflow.estimator.receivers":
        "estimator.export.ServingInputReceiver estimator.export.TensorServingInputReceiver "
        "estimator.export.build_parsing_serving_input_receiver_fn "
        "estimator.export.build_raw_serving_input_receiver_fn",
    "pyflow.estimator.run_config":
        "estimator.RunConfig",
    "pyflow.estimator.spec":
        "estimator.EstimatorSpec",
    "pyflow.estimator.trees":
        "estimator.BoostedTreesClassifier estimator.BoostedTreesRegressor",
    "pyflow.estimator.warm_starting":
        "estimator.VocabInfo estimator.WarmStartSettings train.VocabInfo train.warm_start",
}
