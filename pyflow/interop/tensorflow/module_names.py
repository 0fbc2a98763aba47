"""Which modules TensorFlow 1.x has where a row of paths.py ends in a star: of 1.15 and its estimator,
and of releases since 1.0.  What is not listed is no module: a name that pyflow lacks is missing.

    python.training: adadelta adagrad ...           # tensorflow.python.training.adadelta
"""

TABLE = """
contrib.crf.python: ops
contrib.crf.python.ops: crf
contrib.data.python.ops: batching contrib_op_loader counter dataset_ops enumerate_ops error_ops
    get_single_element grouping interleave_ops iterator_ops parsing_ops prefetching_ops random_ops
    readers resampling scan_ops shuffle_ops sliding threadpool unique writers
contrib.distributions.python.ops: autoregressive batch_reshape bernoulli beta bijector bijectors
    binomial categorical cauchy chi2 conditional_distribution conditional_transformed_distribution
    deterministic dirichlet dirichlet_multinomial distribution distribution_util estimator
    exponential gamma gaussian geometric gumbel half_normal independent inverse_gamma
    kullback_leibler kumaraswamy laplace logistic mixture mixture_same_family moving_stats
    multinomial mvn mvn_diag mvn_diag_plus_low_rank mvn_full_covariance mvn_linear_operator
    mvn_tril negative_binomial normal normal_conjugate_posteriors onehot_categorical operator_pd
    operator_pd_cholesky operator_pd_diag operator_pd_full operator_pd_identity
    operator_pd_vdvt_update poisson poisson_lognormal quantized_distribution relaxed_bernoulli
    relaxed_onehot_categorical sample_stats seed_stream shape sinh_arcsinh special_math
    statistical_testing student_t test_util transformed_distribution uniform vector_diffeomixture
    vector_exponential_diag vector_exponential_linear_operator vector_laplace_diag
    vector_laplace_linear_operator vector_sinh_arcsinh_diag vector_student_t wishart
contrib.distributions.python.ops.bijectors: absolute_value affine affine_linear_operator
    affine_scalar batch_normalization chain cholesky_outer_product conditional_bijector exp
    fill_triangular gumbel inline invert kumaraswamy masked_autoregressive matrix_inverse_tril
    ordered permute power_transform real_nvp reshape scale_tril sigmoid sinh_arcsinh
    softmax_centered softplus softsign square transform_diagonal weibull
contrib.estimator.python.estimator: boosted_trees dnn_with_layer_annotations early_stopping export
    exporter extenders head hooks logit_fns multi_head replicate_model_fn rnn
    saved_model_estimator
contrib.factorization.python.ops: clustering_ops factorization_ops factorization_ops_test_utils
    gmm gmm_ops kmeans wals
contrib.feature_column.python.feature_column: sequence_feature_column
contrib.framework.python: framework ops
contrib.framework.python.framework: checkpoint_utils experimental graph_util tensor_util
contrib.framework.python.ops: arg_scope audio_ops checkpoint_ops gen_variable_ops ops
    prettyprint_ops script_ops sort_ops variables
contrib.keras.python.keras: datasets
contrib.layers.python: layers
contrib.layers.python.layers: embedding_ops encoders feature_column feature_column_ops
    initializers layers normalization optimizers regularizers rev_block_lib summaries
    target_column utils
contrib.layers.python.ops: bucketization_op sparse_feature_cross_op sparse_ops
contrib.learn.python: learn
contrib.learn.python.learn: basic_session_run_hooks estimators evaluable experiment
    export_strategy graph_actions learn_io learn_runner_lib metric_spec models monitored_session
    monitors ops preprocessing session_run_hook summary_writer_cache trainable utils
contrib.learn.python.learn.datasets: produce_small_datasets synthetic text_datasets
contrib.learn.python.learn.estimators: _sklearn composable_model constants debug dnn
    dnn_linear_combined dynamic_rnn_estimator estimator estimator_test_utils head kmeans linear
    logistic_regressor metric_key model_fn prediction_key rnn_common run_config
    state_saving_rnn_estimator svm tensor_signature test_data
contrib.learn.python.learn.learn_io: dask_io data_feeder generator_io graph_io numpy_io pandas_io
contrib.learn.python.learn.ops: embeddings_ops losses_ops seq2seq_ops
contrib.learn.python.learn.preprocessing: categorical categorical_vocabulary tests text
contrib.learn.python.learn.utils: export gc input_fn_utils inspect_checkpoint
    saved_model_export_utils
contrib.legacy_seq2seq.python: kernel_tests
contrib.legacy_seq2seq.python.ops: seq2seq
contrib.losses.python: losses metric_learning
contrib.losses.python.losses: loss_ops
contrib.losses.python.metric_learning: metric_loss_ops
contrib.metrics.python: metrics
contrib.metrics.python.metrics: classification
contrib.metrics.python.ops: confusion_matrix_ops histogram_ops metric_ops set_ops
contrib.nn.python: ops
contrib.nn.python.ops: alpha_dropout cross_entropy fwd_gradients sampling_ops scaled_softplus
contrib.opt.python.training: adam_gs_optimizer adamax addsign agn_optimizer
    drop_stale_gradient_optimizer elastic_average_optimizer external_optimizer ggt lars_optimizer
    lazy_adam_gs_optimizer lazy_adam_optimizer matrix_functions model_average_optimizer
    moving_average_optimizer multitask_optimizer_wrapper nadam_optimizer powersign
    reg_adagrad_optimizer shampoo sign_decay variable_clipping_optimizer weight_decay_optimizers
contrib.rnn.python.kernel_tests: benchmarking
contrib.rnn.python.ops: core_rnn core_rnn_cell core_rnn_cell_impl core_rnn_impl fused_rnn_cell
    gru_ops lstm_ops rnn rnn_cell
contrib.rnn.python.tools: checkpoint_convert
contrib.seq2seq.python: kernel_tests ops
contrib.seq2seq.python.ops: attention_decoder_fn attention_wrapper basic_decoder
    beam_search_decoder beam_search_ops decoder decoder_fn dynamic_attention_wrapper helper loss
    sampler seq2seq
contrib.slim.python.slim: evaluation learning model_analyzer queues summaries
contrib.slim.python.slim.data: data_decoder data_provider dataset dataset_data_provider
    parallel_reader prefetch_queue test_utils tfexample_decoder
contrib.slim.python.slim.nets: alexnet inception inception_v1 inception_v2 inception_v3 overfeat
    resnet_utils resnet_v1 resnet_v2 vgg
contrib.training.python: training
contrib.training.python.training: bucket_ops device_setter evaluation feeding_queue_runner hparam
    resample sampling_ops sequence_queueing_state_saver sgdr_learning_rate_decay training tuner
python.data.ops: dataset_ops iterator_ops multi_device_iterator_ops optional_ops readers
python.estimator: canned early_stopping estimator estimator_lib export exporter extenders gc head
    hooks inputs keras mode_keys model_fn run_config tools tpu training util
python.estimator.canned: baseline boosted_trees boosted_trees_utils dnn dnn_linear_combined
    dnn_testing_utils head kmeans linear linear_optimizer linear_testing_utils metric_keys
    optimizers parsing_utils prediction_keys rnn saved_model_estimator timeseries v1
python.estimator.canned.linear_optimizer: python
python.estimator.canned.linear_optimizer.python: utils
python.estimator.canned.linear_optimizer.python.utils: sdca_ops sharded_mutable_dense_hashtable
python.estimator.canned.timeseries: ar_model estimators feature_keys head math_utils model
    model_utils saved_model_utils state_management
python.estimator.canned.v1: dnn_testing_utils_v1 linear_testing_utils_v1
python.estimator.export: export export_lib export_output function
python.estimator.head: base_head binary_class_head head_utils multi_class_head multi_head
    multi_label_head regression_head sequential_head
python.estimator.hooks: basic_session_run_hooks fake_summary_writer hooks session_run_hook
python.estimator.inputs: inputs numpy_io pandas_io queues
python.estimator.inputs.queues: feeding_functions feeding_queue_runner
python.estimator.tools: checkpoint_converter
python.estimator.tpu: _tpu_estimator_embedding error_handling iteration_count_estimator tpu_config
    tpu_context tpu_estimator util
python.feature_column: dense_features dense_features_v2 feature_column_lib feature_column_v2
    sequence_feature_column serialization utils
python.layers: base core layers maxout network normalization pooling
python.ops.distributions: bernoulli beta bijector bijector_impl categorical dirichlet
    dirichlet_multinomial distributions exponential gamma identity_bijector kullback_leibler
    laplace multinomial normal special_math student_t transformed_distribution uniform util
python.ops.ragged: ragged_array_ops ragged_batch_gather_ops ragged_batch_gather_with_default_op
    ragged_concat_ops ragged_config ragged_conversion_ops ragged_dispatch ragged_factory_ops
    ragged_functional_ops ragged_gather_ops ragged_getitem ragged_map_ops ragged_math_ops
    ragged_operators ragged_squeeze_op ragged_string_ops ragged_tensor ragged_tensor_shape
    ragged_tensor_value ragged_util ragged_where_op segment_id_ops
python.ops.signal: dct_ops fft_ops mel_ops mfcc_ops reconstruction_ops shape_ops signal
    spectral_ops util_ops window_ops
python.saved_model: builder builder_impl constants function_deserialization function_serialization
    load load_v1_in_v2 loader loader_impl main_op main_op_impl model_utils nested_structure_coder
    revived_types save saved_model signature_constants signature_def_utils
    signature_def_utils_impl signature_serialization simple_save tag_constants utils utils_impl
python.saved_model.model_utils: export_output export_utils mode_keys
python.training: adadelta adagrad adagrad_da adam basic_loops basic_session_run_hooks
    checkpoint_management checkpoint_ops checkpoint_utils checkpointable checkpointable_utils
    coordinator device_setter device_util distribute ftrl gradient_descent input momentum
    monitored_session proximal_adagrad proximal_gradient_descent queue_runner queue_runner_impl
    rmsprop saver saver_test_utils server_lib session_manager summary_io supervisor
    sync_replicas_optimizer tensorboard_logging warm_starting_util
python.training.experimental: loss_scale loss_scale_optimizer mixed_precision
    mixed_precision_global_state
python.training.saving: functional_saver saveable_object saveable_object_util
python.training.tracking: base data_structures graph_view layer_utils python_state tracking util
"""


def _paths():
    folder, found = "", set()
    for line in TABLE.strip().splitlines():
        names = line.strip()
        if not line.startswith(" "):
            folder, _, names = line.partition(":")
        found |= {f"{folder}.{name}" for name in names.split()}
    return found


PATHS = _paths()
PATHS |= {".".join(path.split(".")[:n]) for path in PATHS for n in range(1, path.count(".") + 1)}
