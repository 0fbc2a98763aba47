"""What functions and classes of TensorFlow's modules are called in `tf`, where the module's row in
paths.py does not find them by their own name: reduce_sum_v1 of python.ops.math_ops is
tf.math.reduce_sum.  Recorded from TensorFlow 1.15.0's @tf_export by
tests/tf_tests/record_exported.py.
"""

_TABLE = """
python.compat.compat
 forward_compatible=compat.forward_compatible
 forward_compatibility_horizon=compat.forward_compatibility_horizon
python.compat.v2_compat
 enable_v2_behavior=enable_v2_behavior disable_v2_behavior=disable_v2_behavior
python.compiler.xla.jit
 experimental_jit_scope=xla.experimental.jit_scope
python.compiler.xla.xla
 compile=xla.experimental.compile
python.data.experimental.ops.batching
 dense_to_sparse_batch=data.experimental.dense_to_sparse_batch
 map_and_batch_with_legacy_function=data.experimental.map_and_batch_with_legacy_function
 map_and_batch=data.experimental.map_and_batch unbatch=data.experimental.unbatch
python.data.experimental.ops.cardinality
 INFINITE=data.experimental.INFINITE_CARDINALITY UNKNOWN=data.experimental.UNKNOWN_CARDINALITY
 cardinality=data.experimental.cardinality
python.data.experimental.ops.counter
 CounterV1=data.experimental.Counter
python.data.experimental.ops.distribute_options
 DistributeOptions=data.experimental.DistributeOptions
python.data.experimental.ops.enumerate_ops
 enumerate_dataset=data.experimental.enumerate_dataset
python.data.experimental.ops.error_ops
 ignore_errors=data.experimental.ignore_errors
python.data.experimental.ops.get_single_element
 get_single_element=data.experimental.get_single_element
python.data.experimental.ops.grouping
 group_by_reducer=data.experimental.group_by_reducer
 group_by_window=data.experimental.group_by_window
 bucket_by_sequence_length=data.experimental.bucket_by_sequence_length
 Reducer=data.experimental.Reducer
python.data.experimental.ops.interleave_ops
 parallel_interleave=data.experimental.parallel_interleave
 sample_from_datasets_v1=data.experimental.sample_from_datasets
 choose_from_datasets_v1=data.experimental.choose_from_datasets
python.data.experimental.ops.iterator_ops
 make_saveable_from_iterator=data.experimental.make_saveable_from_iterator
 CheckpointInputPipelineHook=data.experimental.CheckpointInputPipelineHook
python.data.experimental.ops.optimization_options
 MapVectorizationOptions=data.experimental.MapVectorizationOptions
 OptimizationOptions=data.experimental.OptimizationOptions
python.data.experimental.ops.parsing_ops
 parse_example_dataset=data.experimental.parse_example_dataset
python.data.experimental.ops.prefetching_ops
 prefetch_to_device=data.experimental.prefetch_to_device
 copy_to_device=data.experimental.copy_to_device
python.data.experimental.ops.random_ops
 RandomDatasetV1=data.experimental.RandomDataset
python.data.experimental.ops.readers
 make_csv_dataset_v1=data.experimental.make_csv_dataset CsvDatasetV1=data.experimental.CsvDataset
 make_batched_features_dataset_v1=data.experimental.make_batched_features_dataset
 SqlDatasetV1=data.experimental.SqlDataset
python.data.experimental.ops.resampling
 rejection_resample=data.experimental.rejection_resample
python.data.experimental.ops.scan_ops
 scan=data.experimental.scan
python.data.experimental.ops.shuffle_ops
 shuffle_and_repeat=data.experimental.shuffle_and_repeat
python.data.experimental.ops.stats_aggregator
 StatsAggregatorV1=data.experimental.StatsAggregator
python.data.experimental.ops.stats_ops
 bytes_produced_stats=data.experimental.bytes_produced_stats
 latency_stats=data.experimental.latency_stats
python.data.experimental.ops.stats_options
 StatsOptions=data.experimental.StatsOptions
python.data.experimental.ops.take_while_ops
 take_while=data.experimental.take_while
python.data.experimental.ops.threading_options
 ThreadingOptions=data.experimental.ThreadingOptions
python.data.experimental.ops.unique
 unique=data.experimental.unique
python.data.experimental.ops.writers
 TFRecordWriter=data.experimental.TFRecordWriter
python.data.ops.dataset_ops
 AUTOTUNE=data.experimental.AUTOTUNE DatasetV1=data.Dataset
 get_structure=data.experimental.get_structure get_legacy_output_classes=data.get_output_classes
 get_legacy_output_shapes=data.get_output_shapes get_legacy_output_types=data.get_output_types
 from_variant=data.experimental.from_variant to_variant=data.experimental.to_variant
 DatasetSpec=data.DatasetSpec
python.data.ops.iterator_ops
 get_next_as_optional=data.experimental.get_next_as_optional
python.data.ops.optional_ops
 Optional=data.experimental.Optional OptionalSpec=OptionalSpec
python.data.ops.readers
 TextLineDatasetV1=data.TextLineDataset TFRecordDatasetV1=data.TFRecordDataset
 FixedLengthRecordDatasetV1=data.FixedLengthRecordDataset
python.data.util.structure
 _TensorStructure=data.experimental.TensorStructure
 _SparseTensorStructure=data.experimental.SparseTensorStructure
 _TensorArrayStructure=data.experimental.TensorArrayStructure
 _RaggedTensorStructure=data.experimental.RaggedTensorStructure
python.framework.config
 get_intra_op_parallelism_threads=config.threading.get_intra_op_parallelism_threads
 set_intra_op_parallelism_threads=config.threading.set_intra_op_parallelism_threads
 get_inter_op_parallelism_threads=config.threading.get_inter_op_parallelism_threads
 set_inter_op_parallelism_threads=config.threading.set_inter_op_parallelism_threads
 get_optimizer_jit=config.optimizer.get_jit set_optimizer_jit=config.optimizer.set_jit
 get_optimizer_experimental_options=config.optimizer.get_experimental_options
 set_optimizer_experimental_options=config.optimizer.set_experimental_options
 get_soft_device_placement=config.get_soft_device_placement
 set_soft_device_placement=config.set_soft_device_placement
 get_device_policy=config.experimental.get_device_policy
 set_device_policy=config.experimental.set_device_policy
 get_synchronous_execution=config.experimental.get_synchronous_execution
 set_synchronous_execution=config.experimental.set_synchronous_execution
 list_physical_devices=config.experimental.list_physical_devices
 list_logical_devices=config.experimental.list_logical_devices
 get_visible_devices=config.experimental.get_visible_devices
 set_visible_devices=config.experimental.set_visible_devices
 get_memory_growth=config.experimental.get_memory_growth
 set_memory_growth=config.experimental.set_memory_growth
 get_virtual_device_configuration=config.experimental.get_virtual_device_configuration
 set_virtual_device_configuration=config.experimental.set_virtual_device_configuration
python.framework.constant_op
 constant_v1=constant
python.framework.device_spec
 DeviceSpecV1=DeviceSpec
python.framework.errors
 raise_exception_on_not_ok_status=errors.raise_exception_on_not_ok_status
python.framework.errors_impl
 raise_exception_on_not_ok_status=errors.raise_exception_on_not_ok_status
python.framework.framework_lib
 DType=dtypes.DType resource=dtypes.resource variant=dtypes.variant float16=dtypes.float16
 half=dtypes.half float32=dtypes.float32 float64=dtypes.float64 double=dtypes.double
 int32=dtypes.int32 uint8=dtypes.uint8 uint16=dtypes.uint16 uint32=dtypes.uint32
 uint64=dtypes.uint64 int16=dtypes.int16 int8=dtypes.int8 string=dtypes.string
 complex64=dtypes.complex64 complex128=dtypes.complex128 int64=dtypes.int64 bool=dtypes.bool
 qint8=dtypes.qint8 quint8=dtypes.quint8 qint16=dtypes.qint16 quint16=dtypes.quint16
 qint32=dtypes.qint32 bfloat16=dtypes.bfloat16 QUANTIZED_DTYPES=dtypes.QUANTIZED_DTYPES
 as_dtype=dtypes.as_dtype load_op_library=load_op_library
 load_file_system_library=load_file_system_library load_library=load_library
python.framework.graph_util_impl
 must_run_on_cpu=graph_util.must_run_on_cpu
python.framework.indexed_slices
 IndexedSlicesSpec=IndexedSlicesSpec
python.framework.load_library
 load_file_system_library=load_file_system_library
python.framework.ops
 enable_tensor_equality=enable_tensor_equality disable_tensor_equality=disable_tensor_equality
 no_gradient=no_gradient _colocate_with=colocate_with
 enable_eager_execution=enable_eager_execution
python.framework.sparse_tensor
 SparseTensorSpec=SparseTensorSpec
python.framework.tensor_conversion_registry
 register_tensor_conversion_function=register_tensor_conversion_function
python.framework.tensor_shape
 enable_v2_tensorshape=enable_v2_tensorshape disable_v2_tensorshape=disable_v2_tensorshape
 dimension_at_index=dimension_at_index
python.framework.tensor_util
 MakeNdarray=make_ndarray constant_value=get_static_value
python.framework.test_util
 assert_equal_graph_def_v1=test.assert_equal_graph_def TensorFlowTestCase=test.TestCase
 create_local_cluster=test.create_local_cluster
python.framework.type_spec
 TypeSpec=TypeSpec
python.layers.base
 keras_style_scope=layers.experimental.keras_style_scope
 set_keras_style=layers.experimental.set_keras_style
python.lib.io.file_io
 file_exists=gfile.Exists file_exists_v2=io.gfile.exists delete_file=gfile.Remove
 delete_file_v2=io.gfile.remove get_matching_files=gfile.Glob get_matching_files_v2=io.gfile.glob
 create_dir=gfile.MkDir create_dir_v2=io.gfile.mkdir recursive_create_dir=gfile.MakeDirs
 recursive_create_dir_v2=io.gfile.makedirs copy=gfile.Copy copy_v2=io.gfile.copy
 rename=gfile.Rename rename_v2=io.gfile.rename delete_recursively=gfile.DeleteRecursively
 delete_recursively_v2=io.gfile.rmtree is_directory=gfile.IsDirectory
 is_directory_v2=io.gfile.isdir list_directory=gfile.ListDirectory
 list_directory_v2=io.gfile.listdir walk=gfile.Walk walk_v2=io.gfile.walk stat=gfile.Stat
 stat_v2=io.gfile.stat
python.module.module
 Module=Module
python.ops.array_ops
 sparse_mask=sparse.mask matrix_transpose=linalg.transpose matrix_diag=linalg.diag
 matrix_diag_part=linalg.diag_part matrix_set_diag=linalg.set_diag
 sparse_placeholder=sparse.placeholder
 required_space_to_batch_paddings=required_space_to_batch_paddings quantize_v2=quantize_v2
 quantize=quantization.quantize extract_image_patches_v2=image.extract_patches
 fingerprint=fingerprint
python.ops.batch_ops
 batch_function=nondifferentiable_batch_function
python.ops.check_ops
 assert_shapes=debugging.assert_shapes
python.ops.confusion_matrix
 confusion_matrix_v1=math.confusion_matrix
python.ops.control_flow_grad
 Assert=debugging.Assert cond=cond while_loop=while_loop group=group tuple=tuple case=case
 switch_case=switch_case
python.ops.control_flow_v2_toggles
 enable_control_flow_v2=enable_control_flow_v2 disable_control_flow_v2=disable_control_flow_v2
 control_flow_v2_enabled=control_flow_v2_enabled
 output_all_intermediates=experimental.output_all_intermediates
python.ops.critical_section_ops
 CriticalSection=CriticalSection
python.ops.custom_gradient
 grad_pass_through=grad_pass_through
python.ops.distributions.beta
 Beta=distributions.Beta
python.ops.distributions.dirichlet
 Dirichlet=distributions.Dirichlet
python.ops.distributions.dirichlet_multinomial
 DirichletMultinomial=distributions.DirichletMultinomial
python.ops.distributions.distribution
 ReparameterizationType=distributions.ReparameterizationType
 FULLY_REPARAMETERIZED=distributions.FULLY_REPARAMETERIZED
 NOT_REPARAMETERIZED=distributions.NOT_REPARAMETERIZED
python.ops.distributions.exponential
 Exponential=distributions.Exponential
python.ops.distributions.gamma
 Gamma=distributions.Gamma
python.ops.distributions.kullback_leibler
 RegisterKL=distributions.RegisterKL
python.ops.distributions.laplace
 Laplace=distributions.Laplace
python.ops.distributions.multinomial
 Multinomial=distributions.Multinomial
python.ops.distributions.student_t
 StudentT=distributions.StudentT
python.ops.gradients_util
 AggregationMethod=AggregationMethod
python.ops.image_ops
 resize_image_with_crop_or_pad=image.resize_with_crop_or_pad ResizeMethodV1=image.ResizeMethod
 resize_image_with_pad_v1=image.resize_image_with_pad
 non_max_suppression_with_overlaps=image.non_max_suppression_overlaps
 crop_and_resize_v1=image.crop_and_resize
python.ops.image_ops_impl
 resize_image_with_crop_or_pad=image.resize_with_crop_or_pad ResizeMethodV1=image.ResizeMethod
 resize_image_with_pad_v1=image.resize_image_with_pad
 non_max_suppression_with_overlaps=image.non_max_suppression_overlaps
 crop_and_resize_v1=image.crop_and_resize
python.ops.init_ops
 Zeros=initializers.zeros Ones=initializers.ones Constant=initializers.constant
 RandomUniform=initializers.random_uniform RandomNormal=initializers.random_normal
 TruncatedNormal=initializers.truncated_normal
 UniformUnitScaling=initializers.uniform_unit_scaling
 VarianceScaling=initializers.variance_scaling Orthogonal=initializers.orthogonal
 Identity=initializers.identity GlorotUniform=glorot_uniform_initializer
 GlorotNormal=glorot_normal_initializer
python.ops.io_ops
 LMDBReader=LMDBReader
python.ops.linalg.linalg
 matrix_exponential=linalg.expm LinearOperator=linalg.LinearOperator
 LinearOperatorBlockDiag=linalg.LinearOperatorBlockDiag
 LinearOperatorCirculant=linalg.LinearOperatorCirculant
 LinearOperatorCirculant2D=linalg.LinearOperatorCirculant2D
 LinearOperatorCirculant3D=linalg.LinearOperatorCirculant3D
 LinearOperatorComposition=linalg.LinearOperatorComposition
 LinearOperatorDiag=linalg.LinearOperatorDiag
 LinearOperatorFullMatrix=linalg.LinearOperatorFullMatrix
 LinearOperatorIdentity=linalg.LinearOperatorIdentity
 LinearOperatorScaledIdentity=linalg.LinearOperatorScaledIdentity
 LinearOperatorKronecker=linalg.LinearOperatorKronecker
 LinearOperatorLowRankUpdate=linalg.LinearOperatorLowRankUpdate
 LinearOperatorLowerTriangular=linalg.LinearOperatorLowerTriangular
 LinearOperatorToeplitz=linalg.LinearOperatorToeplitz
 LinearOperatorZeros=linalg.LinearOperatorZeros
python.ops.linalg.linalg_impl
 matrix_exponential=linalg.expm
python.ops.linalg.linear_operator
 LinearOperator=linalg.LinearOperator
python.ops.linalg.linear_operator_adjoint
 LinearOperatorAdjoint=linalg.LinearOperatorAdjoint
python.ops.linalg.linear_operator_block_diag
 LinearOperatorBlockDiag=linalg.LinearOperatorBlockDiag
python.ops.linalg.linear_operator_circulant
 LinearOperatorCirculant=linalg.LinearOperatorCirculant
 LinearOperatorCirculant2D=linalg.LinearOperatorCirculant2D
 LinearOperatorCirculant3D=linalg.LinearOperatorCirculant3D
python.ops.linalg.linear_operator_composition
 LinearOperatorComposition=linalg.LinearOperatorComposition
python.ops.linalg.linear_operator_diag
 LinearOperatorDiag=linalg.LinearOperatorDiag
python.ops.linalg.linear_operator_full_matrix
 LinearOperatorFullMatrix=linalg.LinearOperatorFullMatrix
python.ops.linalg.linear_operator_householder
 LinearOperatorHouseholder=linalg.LinearOperatorHouseholder
python.ops.linalg.linear_operator_identity
 LinearOperatorIdentity=linalg.LinearOperatorIdentity
 LinearOperatorScaledIdentity=linalg.LinearOperatorScaledIdentity
python.ops.linalg.linear_operator_inversion
 LinearOperatorInversion=linalg.LinearOperatorInversion
python.ops.linalg.linear_operator_kronecker
 LinearOperatorKronecker=linalg.LinearOperatorKronecker
python.ops.linalg.linear_operator_low_rank_update
 LinearOperatorLowRankUpdate=linalg.LinearOperatorLowRankUpdate
python.ops.linalg.linear_operator_lower_triangular
 LinearOperatorLowerTriangular=linalg.LinearOperatorLowerTriangular
python.ops.linalg.linear_operator_toeplitz
 LinearOperatorToeplitz=linalg.LinearOperatorToeplitz
python.ops.linalg.linear_operator_zeros
 LinearOperatorZeros=linalg.LinearOperatorZeros
python.ops.linalg_ops
 matrix_solve_ls=linalg.lstsq self_adjoint_eig=linalg.eigh self_adjoint_eigvals=linalg.eigvalsh
python.ops.logging_ops
 print_v2=print
python.ops.lookup_ops
 StaticHashTableV1=lookup.StaticHashTable StaticVocabularyTableV1=lookup.StaticVocabularyTable
 DenseHashTable=lookup.experimental.DenseHashTable
python.ops.math_ops
 div_no_nan=math.divide_no_nan reduce_sum_v1=math.reduce_sum reduce_mean_v1=math.reduce_mean
 reduce_prod_v1=math.reduce_prod reduce_min_v1=math.reduce_min reduce_max_v1=math.reduce_max
 reduce_all_v1=math.reduce_all reduce_any_v1=math.reduce_any
 reduce_logsumexp_v1=math.reduce_logsumexp matvec=linalg.matvec bincount_v1=math.bincount
 sparse_segment_sum=sparse.segment_sum sparse_segment_mean=sparse.segment_mean
 sparse_segment_sqrt_n=sparse.segment_sqrt_n
python.ops.nn
 normalize=linalg.normalize dilation2d_v1=nn.dilation2d conv3d_v1=nn.conv3d
 softmax_cross_entropy_with_logits_v2_helper=nn.softmax_cross_entropy_with_logits_v2
 max_pool_with_argmax_v1=nn.max_pool_with_argmax
python.ops.nn_impl
 normalize=linalg.normalize
python.ops.nn_ops
 dilation2d_v1=nn.dilation2d conv3d_v1=nn.conv3d
 softmax_cross_entropy_with_logits_v2_helper=nn.softmax_cross_entropy_with_logits_v2
 max_pool_with_argmax_v1=nn.max_pool_with_argmax
python.ops.numerics
 verify_tensor_all_finite=debugging.assert_all_finite
python.ops.parallel_for.control_flow_ops
 vectorized_map=vectorized_map
python.ops.parsing_ops
 decode_raw_v1=decode_raw
python.ops.proto_ops
 decode_proto=io.decode_proto encode_proto=io.encode_proto
python.ops.ragged.ragged_array_ops
 stack_dynamic_partitions=ragged.stack_dynamic_partitions
python.ops.ragged.ragged_string_ops
 string_bytes_split=strings.bytes_split unicode_encode=strings.unicode_encode
 unicode_decode=strings.unicode_decode
 unicode_decode_with_offsets=strings.unicode_decode_with_offsets
 unicode_split=strings.unicode_split unicode_split_with_offsets=strings.unicode_split_with_offsets
 strings_split_v1=strings.split ngrams=strings.ngrams
python.ops.ragged.ragged_tensor
 RaggedTensorSpec=RaggedTensorSpec
python.ops.random_ops
 random_normal=random.normal random_uniform=random.uniform random_shuffle=random.shuffle
 random_gamma=random.gamma random_poisson=random.poisson
python.ops.script_ops
 eager_py_func=py_function
python.ops.sets
 set_size=sets.size set_intersection=sets.intersection set_difference=sets.difference
 set_union=sets.union
python.ops.sets_impl
 set_size=sets.size set_intersection=sets.intersection set_difference=sets.difference
 set_union=sets.union
python.ops.sparse_ops
 sparse_expand_dims=sparse.expand_dims sparse_eye=sparse.eye sparse_concat=sparse.concat
 sparse_add=sparse.add sparse_cross=sparse.cross sparse_cross_hashed=sparse.cross_hashed
 sparse_reorder=sparse.reorder sparse_reshape=sparse.reshape sparse_split=sparse.split
 sparse_slice=sparse.slice sparse_reduce_max=sparse.reduce_max
 sparse_reduce_max_sparse=sparse.reduce_max_sparse sparse_reduce_sum=sparse.reduce_sum
 sparse_reduce_sum_sparse=sparse.reduce_sum_sparse sparse_tensor_to_dense=sparse.to_dense
 sparse_to_indicator=sparse.to_indicator sparse_merge=sparse.merge sparse_retain=sparse.retain
 sparse_reset_shape=sparse.reset_shape sparse_fill_empty_rows=sparse.fill_empty_rows
 sparse_tensor_dense_matmul=sparse.sparse_dense_matmul sparse_softmax=sparse.softmax
 sparse_maximum=sparse.maximum sparse_minimum=sparse.minimum sparse_transpose=sparse.transpose
python.ops.standard_ops
 sparse_mask=sparse.mask matrix_transpose=linalg.transpose matrix_diag=linalg.diag
 matrix_diag_part=linalg.diag_part matrix_set_diag=linalg.set_diag
 sparse_placeholder=sparse.placeholder
 required_space_to_batch_paddings=required_space_to_batch_paddings quantize_v2=quantize_v2
 quantize=quantization.quantize extract_image_patches_v2=image.extract_patches
 fingerprint=fingerprint assert_shapes=debugging.assert_shapes
 batch_function=nondifferentiable_batch_function Zeros=initializers.zeros Ones=initializers.ones
 Constant=initializers.constant RandomUniform=initializers.random_uniform
 RandomNormal=initializers.random_normal TruncatedNormal=initializers.truncated_normal
 UniformUnitScaling=initializers.uniform_unit_scaling
 VarianceScaling=initializers.variance_scaling Orthogonal=initializers.orthogonal
 Identity=initializers.identity GlorotUniform=glorot_uniform_initializer
 GlorotNormal=glorot_normal_initializer lecun_normal=initializers.lecun_normal
 lecun_uniform=initializers.lecun_uniform he_normal=initializers.he_normal
 he_uniform=initializers.he_uniform LMDBReader=LMDBReader matrix_solve_ls=linalg.lstsq
 self_adjoint_eig=linalg.eigh self_adjoint_eigvals=linalg.eigvalsh div_no_nan=math.divide_no_nan
 multiply_no_nan=math.multiply_no_nan reduce_sum_v1=math.reduce_sum
 reduce_euclidean_norm=math.reduce_euclidean_norm reduce_mean_v1=math.reduce_mean
 reduce_variance=math.reduce_variance reduce_std=math.reduce_std reduce_prod_v1=math.reduce_prod
 reduce_min_v1=math.reduce_min reduce_max_v1=math.reduce_max reduce_all_v1=math.reduce_all
 reduce_any_v1=math.reduce_any reduce_logsumexp_v1=math.reduce_logsumexp matvec=linalg.matvec
 bincount_v1=math.bincount sparse_segment_sum=sparse.segment_sum
 sparse_segment_mean=sparse.segment_mean sparse_segment_sqrt_n=sparse.segment_sqrt_n
 polyval=math.polyval reciprocal_no_nan=math.reciprocal_no_nan
 verify_tensor_all_finite=debugging.assert_all_finite decode_raw_v1=decode_raw
 decode_proto=io.decode_proto encode_proto=io.encode_proto random_normal=random.normal
 random_uniform=random.uniform random_shuffle=random.shuffle categorical=random.categorical
 random_gamma=random.gamma random_poisson=random.poisson from_dense=sparse.from_dense
 sparse_expand_dims=sparse.expand_dims sparse_eye=sparse.eye sparse_concat=sparse.concat
 sparse_add=sparse.add sparse_cross=sparse.cross sparse_cross_hashed=sparse.cross_hashed
 sparse_reorder=sparse.reorder sparse_reshape=sparse.reshape sparse_split=sparse.split
 sparse_slice=sparse.slice sparse_reduce_max=sparse.reduce_max
 sparse_reduce_max_sparse=sparse.reduce_max_sparse sparse_reduce_sum=sparse.reduce_sum
 sparse_reduce_sum_sparse=sparse.reduce_sum_sparse sparse_tensor_to_dense=sparse.to_dense
 sparse_to_indicator=sparse.to_indicator sparse_merge=sparse.merge sparse_retain=sparse.retain
 sparse_reset_shape=sparse.reset_shape sparse_fill_empty_rows=sparse.fill_empty_rows
 sparse_tensor_dense_matmul=sparse.sparse_dense_matmul sparse_softmax=sparse.softmax
 sparse_maximum=sparse.maximum sparse_minimum=sparse.minimum sparse_transpose=sparse.transpose
 stateless_random_uniform=random.stateless_uniform stateless_random_normal=random.stateless_normal
 stateless_categorical=random.stateless_categorical string_format=strings.format
 string_length=strings.length substr_deprecated=substr string_to_number_v1=strings.to_number
 string_to_hash_bucket_v1=strings.to_hash_bucket TensorArraySpec=TensorArraySpec
 variable_creator_scope_v1=variable_creator_scope VariableV1=Variable
 variables_initializer=initializers.variables
 global_variables_initializer=initializers.global_variables
 local_variables_initializer=initializers.local_variables
python.ops.state_ops
 batch_scatter_update=batch_scatter_update
python.ops.stateful_random_ops
 create_rng_state=random.experimental.create_rng_state Generator=random.experimental.Generator
 get_global_generator=random.experimental.get_global_generator
 set_global_generator=random.experimental.set_global_generator
python.ops.stateless_random_ops
 stateless_random_uniform=random.stateless_uniform stateless_random_normal=random.stateless_normal
python.ops.string_ops
 string_format=strings.format string_length=strings.length substr_deprecated=substr
 string_to_number_v1=strings.to_number string_to_hash_bucket_v1=strings.to_hash_bucket
python.ops.summary_ops_v2
 initialize=summary.initialize all_v2_summary_ops=summary.all_v2_summary_ops
python.ops.tensor_array_ops
 TensorArraySpec=TensorArraySpec
python.ops.unconnected_gradients
 UnconnectedGradients=UnconnectedGradients
python.ops.variable_scope
 variable_creator_scope_v1=variable_creator_scope
python.ops.variables
 VariableV1=Variable variables_initializer=initializers.variables
 global_variables_initializer=initializers.global_variables
 local_variables_initializer=initializers.local_variables
python.platform.benchmark
 TensorFlowBenchmark=test.Benchmark
python.platform.googletest
 StubOutForTesting=test.StubOutForTesting
python.platform.sysconfig
 get_lib=sysconfig.get_lib get_compile_flags=sysconfig.get_compile_flags
 get_link_flags=sysconfig.get_link_flags
python.platform.tf_logging
 get_logger=get_logger
python.profiler.model_analyzer
 Profiler=profiler.Profiler profile=profiler.profile advise=profiler.advise
python.profiler.option_builder
 ProfileOptionBuilder=profiler.ProfileOptionBuilder
python.profiler.profiler
 GraphNodeProto=profiler.GraphNodeProto MultiGraphNodeProto=profiler.MultiGraphNodeProto
 AdviceProto=profiler.AdviceProto OpLogProto=profiler.OpLogProto
python.profiler.tfprof_logger
 write_op_log=profiler.write_op_log
python.saved_model.builder_impl
 SavedModelBuilder=saved_model.Builder
python.saved_model.load
 load=saved_model.load_v2
python.saved_model.loader_impl
 maybe_saved_model_directory=saved_model.contains_saved_model
python.saved_model.save
 save=saved_model.save
python.training.basic_loops
 basic_train_loop=train.basic_train_loop
python.training.checkpoint_management
 CheckpointManager=train.CheckpointManager
python.training.distribute
 get_loss_reduction=distribute.get_loss_reduction
 InputReplicationMode=distribute.InputReplicationMode InputContext=distribute.InputContext
 StrategyV1=distribute.Strategy StrategyExtendedV1=distribute.StrategyExtended
 ReplicaContext=distribute.ReplicaContext
python.training.distribution_strategy_context
 get_replica_context=distribute.get_replica_context
 in_cross_replica_context=distribute.in_cross_replica_context get_strategy=distribute.get_strategy
 has_strategy=distribute.has_strategy
 experimental_set_strategy=distribute.experimental_set_strategy
python.training.experimental.loss_scale
 LossScale=train.experimental.LossScale FixedLossScale=train.experimental.FixedLossScale
 DynamicLossScale=train.experimental.DynamicLossScale
python.training.experimental.loss_scale_optimizer
 MixedPrecisionLossScaleOptimizer=train.experimental.MixedPrecisionLossScaleOptimizer
python.training.experimental.mixed_precision
 enable_mixed_precision_graph_rewrite_v1=train.experimental.enable_mixed_precision_graph_rewrite
 disable_mixed_precision_graph_rewrite_v1=train.experimental.disable_mixed_precision_graph_rewrite
python.training.learning_rate_decay
 piecewise_constant=train.piecewise_constant_decay
python.training.tracking.python_state
 PythonState=train.experimental.PythonState
python.training.tracking.util
 CheckpointV1=train.Checkpoint
python.training.training
 piecewise_constant=train.piecewise_constant_decay
python.user_ops.user_ops
 my_fact=user_ops.my_fact
"""


def _rows():
    found = {}
    for line in _TABLE.split("\n"):
        if line.startswith(" "):
            found[module] |= dict(word.split("=") for word in line.split())
        elif line:
            module = line
            found[module] = {}
    return found


ROWS = _rows()


def public_name(path):
    """The dotted name in tf of what lies at a path of TensorFlow's, or None."""
    module, _, name = path.rpartition(".")
    return ROWS.get(module, {}).get(name)
