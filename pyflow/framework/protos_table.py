"""The schema of every message pyflow reads or writes, one entry per message; see protos.py.

An entry is `Name: number name type [@oneof]; ...`; `*type` is repeated, `<key,value>` a map, a
dotted name nests. Names and numbers are TensorFlow's, so the bytes are too. DataType comes from
dtypes.py. Fields that are not listed survive parsing and writing as unknown fields.
"""

TABLE = """
enum OptimizerOptions.GlobalJitLevel: 0 DEFAULT; -1 OFF; 1 ON_1; 2 ON_2
enum OptimizerOptions.Level: 0 L1; -1 L0
enum RewriterConfig.CpuLayout: 0 NO_CONVERSION_ON_CPU; 1 NCHW_TO_NHWC; 2 NHWC_TO_NCHW
enum RewriterConfig.MemOptType: 0 DEFAULT_MEM_OPT; 1 NO_MEM_OPT; 2 MANUAL; 3 HEURISTICS; 4
    SWAPPING_HEURISTICS; 5 RECOMPUTATION_HEURISTICS; 6 SCHEDULING_HEURISTICS
enum RewriterConfig.NumIterationsType: 0 DEFAULT_NUM_ITERS; 1 ONE; 2 TWO
enum RewriterConfig.Toggle: 0 DEFAULT; 1 ON; 2 OFF; 3 AGGRESSIVE; 4 EXPERIMENTAL_MLIR; 5
    EXPERIMENTAL_BOTH
enum VerifierConfig.Toggle: 0 DEFAULT; 1 ON; 2 OFF
enum RunOptions.TraceLevel: 0 NO_TRACE; 1 SOFTWARE_TRACE; 2 HARDWARE_TRACE; 3 FULL_TRACE
enum SaverDef.CheckpointFormatVersion: 0 LEGACY; 1 V1; 2 V2
enum SessionLog.SessionStatus: 0 STATUS_UNSPECIFIED; 1 START; 2 STOP; 3 CHECKPOINT
enum VariableAggregation: 0 VARIABLE_AGGREGATION_NONE; 1 VARIABLE_AGGREGATION_SUM; 2
    VARIABLE_AGGREGATION_MEAN; 3 VARIABLE_AGGREGATION_ONLY_FIRST_REPLICA
enum VariableSynchronization: 0 VARIABLE_SYNCHRONIZATION_AUTO; 1 VARIABLE_SYNCHRONIZATION_NONE; 2
    VARIABLE_SYNCHRONIZATION_ON_WRITE; 3 VARIABLE_SYNCHRONIZATION_ON_READ
enum DataClass: 0 DATA_CLASS_UNKNOWN; 1 DATA_CLASS_SCALAR; 2 DATA_CLASS_TENSOR; 3
    DATA_CLASS_BLOB_SEQUENCE
enum ErrorCode: 0 OK; 1 CANCELLED; 2 UNKNOWN; 3 INVALID_ARGUMENT; 4 DEADLINE_EXCEEDED; 5
    NOT_FOUND; 6 ALREADY_EXISTS; 7 PERMISSION_DENIED; 16 UNAUTHENTICATED; 8 RESOURCE_EXHAUSTED; 9
    FAILED_PRECONDITION; 10 ABORTED; 11 OUT_OF_RANGE; 12 UNIMPLEMENTED; 13 INTERNAL; 14
    UNAVAILABLE; 15 DATA_LOSS
GraphDef: 1 node *NodeDef; 2 library FunctionDefLibrary; 3 version int32; 4 versions VersionDef
NodeDef: 1 name string; 2 op string; 3 input *string; 4 device string; 5 attr <string,AttrValue>;
    6 experimental_debug_info NodeDef.ExperimentalDebugInfo
AttrValue: 1 list AttrValue.ListValue @value; 2 s bytes @value; 3 i int64 @value; 4 f float
    @value; 5 b bool @value; 6 type DataType @value; 7 shape TensorShapeProto @value; 8 tensor
    TensorProto @value; 9 placeholder string @value; 10 func NameAttrList @value
AttrValue.ListValue: 2 s *bytes; 3 i *int64; 4 f *float; 5 b *bool; 6 type *DataType; 7 shape
    *TensorShapeProto; 8 tensor *TensorProto; 9 func *NameAttrList
TensorShapeProto: 2 dim *TensorShapeProto.Dim; 3 unknown_rank bool
TensorShapeProto.Dim: 1 size int64; 2 name string
TensorProto: 1 dtype DataType; 2 tensor_shape TensorShapeProto; 3 version_number int32; 4
    tensor_content bytes; 5 float_val *float; 6 double_val *double; 7 int_val *int32; 8 string_val
    *bytes; 9 scomplex_val *float; 10 int64_val *int64; 11 bool_val *bool; 12 dcomplex_val
    *double; 13 half_val *int32; 14 resource_handle_val *ResourceHandleProto; 15 variant_val
    *VariantTensorDataProto; 16 uint32_val *uint32; 17 uint64_val *uint64; 18 float8_val bytes
ResourceHandleProto: 1 device string; 2 container string; 3 name string; 4 hash_code uint64; 5
    maybe_type_name string
VariantTensorDataProto: 1 type_name string; 2 metadata bytes; 3 tensors *TensorProto
NameAttrList: 1 name string; 2 attr <string,AttrValue>
NodeDef.ExperimentalDebugInfo: 1 original_node_names *string; 2 original_func_names *string
FunctionDefLibrary: 1 function *FunctionDef; 2 gradient *GradientDef; 3 registered_gradients
    *RegisteredGradient
FunctionDef: 1 signature OpDef; 3 node_def *NodeDef; 4 ret <string,string>; 5 attr
    <string,AttrValue>; 6 control_ret <string,string>; 7 arg_attr <uint32,FunctionDef.ArgAttrs>; 8
    resource_arg_unique_id <uint32,uint32>
OpDef: 1 name string; 2 input_arg *OpDef.ArgDef; 3 output_arg *OpDef.ArgDef; 4 attr
    *OpDef.AttrDef; 5 summary string; 6 description string; 8 deprecation OpDeprecation; 16
    is_aggregate bool; 17 is_stateful bool; 18 is_commutative bool; 19 allows_uninitialized_input
    bool; 20 control_output *string; 21 is_distributed_communication bool
OpDef.ArgDef: 1 name string; 2 description string; 3 type DataType; 4 type_attr string; 5
    number_attr string; 6 type_list_attr string; 16 is_ref bool
OpDef.AttrDef: 1 name string; 2 type string; 3 default_value AttrValue; 4 description string; 5
    has_minimum bool; 6 minimum int64; 7 allowed_values AttrValue
OpDeprecation: 1 version int32; 2 explanation string
FunctionDef.ArgAttrs: 1 attr <string,AttrValue>
GradientDef: 1 function_name string; 2 gradient_func string
RegisteredGradient: 1 gradient_func string; 2 registered_op_type string
VersionDef: 1 producer int32; 2 min_consumer int32; 3 bad_consumers *int32
OpList: 1 op *OpDef
KernelList: 1 kernel *KernelDef
KernelDef: 1 op string; 2 device_type string; 3 constraint *KernelDef.AttrConstraint; 4
    host_memory_arg *string; 5 label string; 6 priority int32
KernelDef.AttrConstraint: 1 name string; 2 allowed_values AttrValue
ConfigProto: 1 device_count <string,int32>; 2 intra_op_parallelism_threads int32; 3
    placement_period int32; 4 device_filters *string; 5 inter_op_parallelism_threads int32; 6
    gpu_options GPUOptions; 7 allow_soft_placement bool; 8 log_device_placement bool; 9
    use_per_session_threads bool; 10 graph_options GraphOptions; 11 operation_timeout_in_ms int64;
    12 session_inter_op_thread_pool *ThreadPoolOptionProto; 13 rpc_options RPCOptions; 14
    cluster_def ClusterDef; 15 isolate_session_state bool; 16 experimental
    ConfigProto.Experimental; 17 share_cluster_devices_in_session bool; 18
    pluggable_device_options GPUOptions; 7001 send_recv_pairs *string
ConfigProto.Experimental: 1 collective_group_leader string; 3 executor_type string; 4
    recv_buf_max_chunk int32; 5 use_numa_affinity bool; 6
    collective_deterministic_sequential_execution bool; 7 collective_nccl bool; 8
    share_session_state_in_clusterspec_propagation bool; 9 disable_thread_spinning bool; 10
    share_cluster_devices_in_session bool; 11 session_metadata SessionMetadata; 12
    optimize_for_static_graph bool; 13 enable_mlir_bridge bool; 14 disable_output_partition_graphs
    bool; 15 xla_fusion_autotuner_thresh int64; 16 enable_mlir_graph_optimization bool; 18
    use_tfrt bool; 21 disable_functional_ops_lowering bool; 22 xla_prefer_single_graph_cluster bool
SessionMetadata: 1 name string; 2 version int64
RPCOptions: 1 use_rpc_for_inprocess_master bool; 2 compression_algorithm string; 3
    compression_level int32; 4 cache_rpc_response bool; 5 disable_session_connection_sharing bool;
    6 num_channels_per_target int32
GPUOptions: 1 per_process_gpu_memory_fraction double; 2 allocator_type string; 3
    deferred_deletion_bytes int64; 4 allow_growth bool; 5 visible_device_list string; 6
    polling_active_delay_usecs int32; 7 polling_inactive_delay_msecs int32; 8 force_gpu_compatible
    bool; 9 experimental GPUOptions.Experimental
GPUOptions.Experimental: 1 virtual_devices *GPUOptions.Experimental.VirtualDevices; 2
    use_unified_memory bool; 3 num_dev_to_dev_copy_streams int32; 4 collective_ring_order string; 5
    timestamped_allocator bool; 7 kernel_tracker_max_interval int32; 8 kernel_tracker_max_bytes
    int32; 9 kernel_tracker_max_pending int32; 10 internal_fragmentation_fraction double; 11
    use_cuda_malloc_async bool; 12 disallow_retry_on_allocation_failure bool
GPUOptions.Experimental.VirtualDevices: 1 memory_limit_mb *float; 2 priority *int32
GraphOptions: 2 enable_recv_scheduling bool; 3 optimizer_options OptimizerOptions; 4
    build_cost_model int64; 5 infer_shapes bool; 6 place_pruned_graph bool; 7
    enable_bfloat16_sendrecv bool; 8 timeline_step int32; 9 build_cost_model_after int64; 10
    rewrite_options RewriterConfig
RewriterConfig: 1 layout_optimizer RewriterConfig.Toggle; 2 disable_model_pruning bool; 3
    constant_folding RewriterConfig.Toggle; 4 memory_optimization RewriterConfig.MemOptType; 5
    auto_parallel AutoParallelOptions; 6 memory_optimizer_target_node_name_scope string; 7
    arithmetic_optimization RewriterConfig.Toggle; 8 dependency_optimization
    RewriterConfig.Toggle; 9 loop_optimization RewriterConfig.Toggle; 10 function_optimization
    RewriterConfig.Toggle; 11 debug_stripper RewriterConfig.Toggle; 12 meta_optimizer_iterations
    RewriterConfig.NumIterationsType; 13 shape_optimization RewriterConfig.Toggle; 14 remapping
    RewriterConfig.Toggle; 15 scoped_allocator_optimization RewriterConfig.Toggle; 16
    scoped_allocator_opts ScopedAllocatorOptions; 17 min_graph_nodes int32; 18
    pin_to_host_optimization RewriterConfig.Toggle; 19 disable_meta_optimizer bool; 20
    meta_optimizer_timeout_ms int64; 21 fail_on_optimizer_errors bool; 22 implementation_selector
    RewriterConfig.Toggle; 23 auto_mixed_precision RewriterConfig.Toggle; 24
    common_subgraph_elimination RewriterConfig.Toggle; 25 auto_mixed_precision_mkl
    RewriterConfig.Toggle; 28 use_plugin_optimizers RewriterConfig.Toggle; 50
    cpu_layout_conversion RewriterConfig.CpuLayout; 100 optimizers *string; 200 custom_optimizers
    *RewriterConfig.CustomGraphOptimizer; 300 inter_optimizer_verifier_config VerifierConfig; 301
    post_optimization_verifier_config VerifierConfig
RewriterConfig.CustomGraphOptimizer: 1 name string; 2 parameter_map <string,AttrValue>
AutoParallelOptions: 1 enable bool; 2 num_replicas int32
ScopedAllocatorOptions: 1 enable_op *string
VerifierConfig: 1 verification_timeout_in_ms int64; 2 structure_verifier VerifierConfig.Toggle
OptimizerOptions: 1 do_common_subexpression_elimination bool; 2 do_constant_folding bool; 3
    opt_level OptimizerOptions.Level; 4 do_function_inlining bool; 5 global_jit_level
    OptimizerOptions.GlobalJitLevel; 6 max_folded_constant_in_bytes int64; 7 cpu_global_jit bool
ThreadPoolOptionProto: 1 num_threads int32; 2 global_name string
ClusterDef: 1 job *JobDef
JobDef: 1 name string; 2 tasks <int32,string>
RunOptions: 1 trace_level RunOptions.TraceLevel; 2 timeout_in_ms int64; 3 inter_op_thread_pool
    int32; 5 output_partition_graphs bool; 6 debug_options DebugOptions; 7
    report_tensor_allocations_upon_oom bool; 8 experimental RunOptions.Experimental
CallableOptions: 1 feed *string; 2 fetch *string; 3 target *string; 4 run_options RunOptions; 5
    tensor_connection *TensorConnection; 6 feed_devices <string,string>; 7 fetch_devices
    <string,string>; 8 fetch_skip_sync bool
TensorConnection: 1 from_tensor string; 2 to_tensor string
RunOptions.Experimental: 1 collective_graph_key int64; 2 use_run_handler_pool bool
DebugOptions: 4 debug_tensor_watch_opts *DebugTensorWatch; 10 global_step int64; 11
    reset_disk_byte_usage bool
DebugTensorWatch: 1 node_name string; 2 output_slot int32; 3 debug_ops *string; 4 debug_urls
    *string; 5 tolerate_debug_op_creation_failures bool
RunMetadata: 1 step_stats StepStats; 2 cost_graph CostGraphDef; 3 partition_graphs *GraphDef
CostGraphDef: 1 node *CostGraphDef.Node; 2 cost *CostGraphDef.AggregatedCost
CostGraphDef.AggregatedCost: 1 cost float; 2 dimension string
CostGraphDef.Node: 1 name string; 2 device string; 3 id int32; 4 input_info *CostGraphDef.Node.InputInfo; 5
 output_info *CostGraphDef.Node.OutputInfo; 6 temporary_memory_size int64; 7 is_final bool; 8
 control_input *int32; 9 compute_cost int64; 10 host_temp_memory_size int64; 11
 device_temp_memory_size int64; 12 persistent_memory_size int64; 14 compute_time int64; 15
 memory_time int64; 16 device_persistent_memory_size int64; 17 inaccurate bool
CostGraphDef.Node.InputInfo: 1 preceding_node int32; 2 preceding_port int32
CostGraphDef.Node.OutputInfo: 1 size int64; 2 alias_input_port int64; 3 shape TensorShapeProto; 4
 dtype DataType
StepStats: 1 dev_stats *DeviceStepStats
DeviceStepStats: 1 device string; 2 node_stats *NodeExecStats; 3 thread_names <uint32,string>
NodeExecStats: 1 node_name string; 2 all_start_micros int64; 3 op_start_rel_micros int64; 4
    op_end_rel_micros int64; 5 all_end_rel_micros int64; 6 memory *AllocatorMemoryUsed; 7 output
    *NodeOutput; 8 timeline_label string; 9 scheduled_micros int64; 10 thread_id uint32; 11
    referenced_tensor *AllocationDescription; 12 memory_stats MemoryStats; 13 all_start_nanos
    int64; 14 op_start_rel_nanos int64; 15 op_end_rel_nanos int64; 16 all_end_rel_nanos int64; 17
    scheduled_nanos int64
AllocatorMemoryUsed: 1 allocator_name string; 2 total_bytes int64; 3 peak_bytes int64; 4
    live_bytes int64; 5 allocator_bytes_in_use int64; 6 allocation_records *AllocationRecord
AllocationRecord: 1 alloc_micros int64; 2 alloc_bytes int64
NodeOutput: 1 slot int32; 3 tensor_description TensorDescription
TensorDescription: 1 dtype DataType; 2 shape TensorShapeProto; 4 allocation_description
    AllocationDescription
AllocationDescription: 1 requested_bytes int64; 2 allocated_bytes int64; 3 allocator_name string;
    4 allocation_id int64; 5 has_single_reference bool; 6 ptr uint64
MemoryStats: 1 temp_memory_size int64; 2 device_temp_memory_size int64; 3 persistent_memory_size
    int64; 4 device_persistent_memory_size int64; 5 persistent_tensor_alloc_ids *int64; 6
    device_persistent_tensor_alloc_ids *int64
MetaGraphDef: 1 meta_info_def MetaGraphDef.MetaInfoDef; 2 graph_def GraphDef; 3 saver_def
    SaverDef; 4 collection_def <string,CollectionDef>; 5 signature_def <string,SignatureDef>; 6
    asset_file_def *AssetFileDef
MetaGraphDef.MetaInfoDef: 1 meta_graph_version string; 2 stripped_op_list OpList; 3 any_info Any;
    4 tags *string; 5 tensorflow_version string; 6 tensorflow_git_version string; 7 stripped_default_attrs bool; 8
    function_aliases <string,string>
SaverDef: 1 filename_tensor_name string; 2 save_tensor_name string; 3 restore_op_name string; 4
    max_to_keep int32; 5 sharded bool; 6 keep_checkpoint_every_n_hours float; 7 version
    SaverDef.CheckpointFormatVersion
CollectionDef: 1 node_list CollectionDef.NodeList @kind; 2 bytes_list CollectionDef.BytesList
    @kind; 3 int64_list CollectionDef.Int64List @kind; 4 float_list CollectionDef.FloatList @kind;
    5 any_list CollectionDef.AnyList @kind
CollectionDef.NodeList: 1 value *string
CollectionDef.BytesList: 1 value *bytes
CollectionDef.Int64List: 1 value *int64
CollectionDef.FloatList: 1 value *float
CollectionDef.AnyList: 1 value *Any
Any: 1 type_url string; 2 value bytes
SignatureDef: 1 inputs <string,TensorInfo>; 2 outputs <string,TensorInfo>; 3 method_name string; 4
    defaults <string,TensorProto>
TensorInfo: 1 name string @encoding; 2 dtype DataType; 3 tensor_shape TensorShapeProto; 4
    coo_sparse TensorInfo.CooSparse @encoding
TensorInfo.CooSparse: 1 values_tensor_name string; 2 indices_tensor_name string; 3
    dense_shape_tensor_name string
AssetFileDef: 1 tensor_info TensorInfo; 2 filename string
CheckpointState: 1 model_checkpoint_path string; 2 all_model_checkpoint_paths *string; 3
    all_model_checkpoint_timestamps *double; 4 last_preserved_timestamp double
VariableDef: 1 variable_name string; 2 initializer_name string; 3 snapshot_name string; 4
    save_slice_info_def SaveSliceInfoDef; 5 is_resource bool; 6 initial_value_name string; 7
    trainable bool; 8 synchronization VariableSynchronization; 9 aggregation VariableAggregation
SaveSliceInfoDef: 1 full_name string; 2 full_shape *int64; 3 var_offset *int64; 4 var_shape *int64
CondContextDef: 1 context_name string; 2 pred_name string; 3 pivot_name string; 4 branch int32; 5
    values_def ValuesDef; 6 nested_contexts *ControlFlowContextDef
ValuesDef: 1 values *string; 2 external_values <string,string>
ControlFlowContextDef: 1 cond_ctxt CondContextDef @ctxt; 2 while_ctxt WhileContextDef @ctxt
WhileContextDef: 1 context_name string; 2 parallel_iterations int32; 3 back_prop bool; 4
    swap_memory bool; 5 pivot_name string; 6 pivot_for_pred_name string; 7 pivot_for_body_name
    string; 8 loop_exit_names *string; 9 values_def ValuesDef; 10 loop_enter_names *string; 11
    maximum_iterations_name string; 12 nested_contexts *ControlFlowContextDef
QueueRunnerDef: 1 queue_name string; 2 enqueue_op_name *string; 3 close_op_name string; 4
    cancel_op_name string; 5 queue_closed_exception_types *ErrorCode
ServerDef: 1 cluster ClusterDef; 2 job_name string; 3 task_index int32; 4 default_session_config
    ConfigProto; 5 protocol string; 6 port int32; 8 replica int32
Example: 1 features Features
Features: 1 feature <string,Feature>
Feature: 1 bytes_list BytesList @kind; 2 float_list FloatList @kind; 3 int64_list Int64List @kind
BytesList: 1 value *bytes
FloatList: 1 value *float
Int64List: 1 value *int64
SequenceExample: 1 context Features; 2 feature_lists FeatureLists
FeatureLists: 1 feature_list <string,FeatureList>
FeatureList: 1 feature *Feature
Summary: 1 value *Summary.Value
Summary.Value: 1 tag string; 2 simple_value float @value; 3 obsolete_old_style_histogram bytes
    @value; 4 image Summary.Image @value; 5 histo HistogramProto @value; 6 audio Summary.Audio
    @value; 7 node_name string; 8 tensor TensorProto @value; 9 metadata SummaryMetadata
SummaryMetadata: 1 plugin_data SummaryMetadata.PluginData; 2 display_name string; 3
    summary_description string; 4 data_class DataClass
SummaryMetadata.PluginData: 1 plugin_name string; 2 content bytes
SummaryDescription: 1 type_hint string
Summary.Image: 1 height int32; 2 width int32; 3 colorspace int32; 4 encoded_image_string bytes
HistogramProto: 1 min double; 2 max double; 3 num double; 4 sum double; 5 sum_squares double; 6
    bucket_limit *double; 7 bucket *double
Summary.Audio: 1 sample_rate float; 2 num_channels int64; 3 length_frames int64; 4
    encoded_audio_string bytes; 5 content_type string
Event: 1 wall_time double; 2 step int64; 3 file_version string @what; 4 graph_def bytes @what; 5
    summary Summary @what; 7 session_log SessionLog @what; 8 tagged_run_metadata TaggedRunMetadata
    @what; 9 meta_graph_def bytes @what; 10 source_metadata SourceMetadata
SessionLog: 1 status SessionLog.SessionStatus; 2 checkpoint_path string; 3 msg string
TaggedRunMetadata: 1 tag string; 2 run_metadata bytes
SourceMetadata: 1 writer string
SpriteMetadata: 1 image_path string; 2 single_image_dim *uint32
EmbeddingInfo: 1 tensor_name string; 2 metadata_path string; 3 bookmarks_path string; 4
    tensor_shape *uint32; 5 sprite SpriteMetadata; 6 tensor_path string
ProjectorConfig: 1 model_checkpoint_path string; 2 embeddings *EmbeddingInfo; 3
    model_checkpoint_dir string
DeviceAttributes: 1 name string; 2 device_type string; 4 memory_limit int64; 5 locality
    DeviceLocality; 6 incarnation fixed64; 7 physical_device_desc string; 8 xla_global_id int64
DeviceLocality: 1 bus_id int32; 2 numa_node int32; 3 links LocalLinks
LocalLinks: 1 link *InterconnectLink
InterconnectLink: 1 device_id int32; 2 type string; 3 strength int32
SavedModel: 1 saved_model_schema_version int64; 2 meta_graphs *MetaGraphDef
"""
