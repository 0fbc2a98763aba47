"""Which module of pyflow.ops declares which ops.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

OP_TYPES = {
    "checkpoint.io_ops":
        "MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename "
        "ShardedFilespec _CheckpointEntries",
    "containers.list_ops":
        "EmptyTensorList OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone "
        "TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape "
        "TensorListFromTensor TensorListGather TensorListGetItem TensorListLength "
        "TensorListPopBack TensorListPushBack TensorListReserve TensorListResize "
        "TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 "
        "TensorListSetItem TensorListSplit TensorListStack",
    "containers.stack_ops":
        "Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2",
    "containers.tensor_array_ops":
        "TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3 "
        "TensorArrayGradWithShape TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 "
        "TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3",
    "control.control_flow_ops":
        "ControlTrigger Enter Exit LoopCond Merge NextIteration NoOp RefEnter RefExit RefIdentity "
        "RefMerge RefNextIteration RefSelect RefSwitch Switch _SwitchN",
    "control.functional_ops":
        "Case If MapDefun PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf "
        "StatelessWhile SymbolicGradient While",
    "control.identity_ops":
        "CheckNumerics Empty EnsureShape Identity IdentityN Placeholder PlaceholderV2 "
        "PlaceholderWithDefault PreventGradient Snapshot StopGradient",
    "conv.conv3d_ops":
        "Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2",
    "conv.conv_dilation_ops":
        "Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput",
    "conv.conv_ops":
        "Conv2D Conv2DBackpropFilter Conv2DBackpropInput DepthwiseConv2dNative "
        "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
    "dataset.dataset_ops":
        "BatchDataset BatchDatasetV2 CacheDataset ConcatenateDataset DirectedInterleaveDataset "
        "FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset "
        "GeneratorDataset GroupByWindowDataset IgnoreErrorsDataset InterleaveDataset MapDataset "
        "PaddedBatchDatasetV2 ParallelInterleaveDatasetV2 ParallelMapDataset PrefetchDataset "
        "RangeDataset RepeatDataset ScanDataset ShardDataset ShuffleDataset SkipDataset "
        "TFRecordDataset TakeDataset TakeWhileDataset TensorDataset TensorSliceDataset "
        "TextLineDataset UnbatchDataset WindowDataset ZipDataset",
    "dataset.iterator_ops":
        "DatasetToSingleElement Iterator IteratorFromStringHandleV2 IteratorGetNext "
        "IteratorGetNextAsOptional IteratorGetNextSync IteratorToStringHandle IteratorV2 "
        "MakeIterator OneShotIterator ReduceDataset _RestoreIterator _SaveIterator",
    "dataset.tensorflow_ops":
        "ExperimentalDirectedInterleaveDataset ExperimentalIgnoreErrorsDataset "
        "ExperimentalMapAndBatchDataset ExperimentalParallelInterleaveDataset "
        "ExperimentalRandomDataset ExperimentalScanDataset ExperimentalTakeWhileDataset "
        "ExperimentalUnbatchDataset FinalizeDataset LegacyParallelInterleaveDatasetV2 "
        "MapAndBatchDataset MaxIntraOpParallelismDataset ModelDataset OptimizeDataset "
        "OptimizeDatasetV2 OptionsDataset PaddedBatchDataset ParallelInterleaveDataset "
        "ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDatasetV2 "
        "PrivateThreadPoolDataset RandomDataset RewriteDataset ShuffleAndRepeatDataset",
    "elementwise.activation_ops":
        "Elu EluGrad LeakyRelu LeakyReluGrad Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad Sigmoid "
        "SigmoidGrad Softplus SoftplusGrad Softsign SoftsignGrad Tanh TanhGrad",
    "elementwise.binary_ops":
        "AccumulateNV2 Add AddN AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue Div "
        "DivNoNan FloorDiv FloorMod LeftShift Maximum Minimum Mod Mul MulNoNan Pow RealDiv "
        "RightShift SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlogy",
    "elementwise.cast_ops":
        "Bitcast Cast",
    "elementwise.complex_ops":
        "Angle Complex ComplexAbs Conj Imag Real",
    "elementwise.logic_ops":
        "ApproximateEqual Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot "
        "LogicalOr NotEqual Select SelectV2 Where",
    "elementwise.quantize_ops":
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient QuantizeAndDequantize QuantizeAndDequantizeV2 "
        "QuantizeAndDequantizeV3",
    "elementwise.special_ops":
        "BesselI0 BesselI0e BesselI1 BesselI1e Betainc CumulativeLogsumexp Erfinv Igamma "
        "IgammaGradA Igammac Ndtri NextAfter PopulationCount RandomGammaGrad Xlog1py",
    "elementwise.unary_ops":
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Digamma Erf Erfc Exp Expm1 Floor Inv "
        "InvGrad Invert IsFinite IsInf IsNan Lgamma Log Log1p Neg Polygamma Reciprocal "
        "ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sign Sin Sinh Sqrt SqrtGrad Square Tan Zeta",
    "fft.fft_ops":
        "BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D IFFT "
        "IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D IRFFT3D RFFT RFFT2D RFFT3D",
    "fused.fused_elementwise_ops":
        "_FusedElementwise",
    "fused.fused_ops":
        "_FusedConv2D _FusedDepthwiseConv2dNative _FusedMatMul",
    "gemm.integer_ops":
        "_MatMulInteger",
    "gemm.matmul_ops":
        "BatchMatMul BatchMatMulV2 MatMul",
    "image.image_box_ops":
        "CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage DrawBoundingBoxes "
        "DrawBoundingBoxesV2 SampleDistortedBoundingBox SampleDistortedBoundingBoxV2",
    "image.image_codec_ops":
        "DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng EncodeJpeg "
        "EncodeJpegVariableQuality EncodePng ExtractJpegShape",
    "image.image_color_ops":
        "AdjustContrastv2 AdjustHue AdjustSaturation HSVToRGB RGBToHSV",
    "image.image_nms_ops":
        "CombinedNonMaxSuppression NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 "
        "NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps",
    "image.image_patch_ops":
        "ExtractGlimpse ExtractGlimpseV2 ExtractImagePatches ExtractVolumePatches",
    "image.image_resize_ops":
        "ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad "
        "ResizeNearestNeighbor ResizeNearestNeighborGrad",
    "image.image_scale_ops":
        "ScaleAndTranslate ScaleAndTranslateGrad",
    "linalg.einsum_ops":
        "Einsum",
    "linalg.linalg_ops":
        "CholeskyGrad LogMatrixDeterminant Lu MatrixLogarithm MatrixSolveLs MatrixSquareRoot "
        "MatrixTriangularSolve Qr SelfAdjointEigV2 Svd TridiagonalMatMul TridiagonalSolve",
    "linalg.solve_ops":
        "Cholesky MatrixDeterminant MatrixInverse MatrixSolve",
    "move.array_ops":
        "ConjugateTranspose ExpandDims Fill InvertPermutation LinSpace OnesLike Range Rank "
        "Reshape Shape ShapeN Size Squeeze Transpose ZerosLike",
    "move.broadcast_ops":
        "BroadcastArgs BroadcastGradientArgs BroadcastTo",
    "move.diag_band_ops":
        "MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2 "
        "MatrixSetDiagV3",
    "move.diag_ops":
        "Cross Diag DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixSetDiag",
    "move.gather_ops":
        "Gather GatherNd GatherV2 OneHot ScatterNd SparseToDense TensorScatterUpdate",
    "move.join_ops":
        "Concat ConcatOffset ConcatV2 Pack Split SplitV Tile Unpack",
    "move.pad_ops":
        "BatchToSpace BatchToSpaceND DepthToSpace MirrorPad MirrorPadGrad Pad PadV2 SpaceToBatch "
        "SpaceToBatchND SpaceToDepth",
    "move.partition_ops":
        "DynamicPartition DynamicStitch ParallelDynamicStitch",
    "move.slicing_ops":
        "Reverse ReverseSequence ReverseV2 Roll Slice StridedSlice StridedSliceGrad",
    "norm.fused_norm_ops":
        "_FusedLayerNorm _FusedMoments",
    "norm.lrn_ops":
        "LRN LRNGrad",
    "norm.norm_ops":
        "BiasAdd BiasAddGrad BiasAddV1 FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 "
        "FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3",
    "norm.softmax_ops":
        "L2Loss LogSoftmax Softmax SoftmaxCrossEntropyWithLogits "
        "SparseSoftmaxCrossEntropyWithLogits",
    "parsing.audio_ops":
        "DecodeWav EncodeWav",
    "parsing.parsing_ops":
        "DecodeJSONExample ParseExample ParseExampleV2 ParseSequenceExample "
        "ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample ParseTensor "
        "SerializeTensor",
    "pool.fractional_pool_ops":
        "FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad",
    "pool.pool3d_ops":
        "AvgPool3D AvgPool3DGrad MaxPool3D MaxPool3DGrad MaxPool3DGradGrad",
    "pool.pool_grad_ops":
        "MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolV2",
    "pool.pool_ops":
        "AvgPool AvgPoolGrad MaxPool MaxPoolGrad MaxPoolGradWithArgmax MaxPoolWithArgmax",
    "queue.accumulator_ops":
        "AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep "
        "AccumulatorTakeGradient ConditionalAccumulator ResourceAccumulatorApplyGradient "
        "ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep "
        "ResourceAccumulatorTakeGradient ResourceConditionalAccumulator "
        "SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient "
        "SparseConditionalAccumulator _AccumulatorApplyFrom _AccumulatorTakeAt "
        "_SparseAccumulatorApplyFrom _SparseAccumulatorTakeAt",
    "queue.barrier_ops":
        "Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize "
        "BarrierTakeMany",
    "queue.queue_ops":
        "FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 "
        "QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2 "
        "QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany "
        "QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2 "
        "RandomShuffleQueue RandomShuffleQueueV2",
    "queue.staging_ops":
        "MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey "
        "OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage "
        "OrderedMapUnstage OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage",
    "queue.step_gate_ops":
        "_StepGate _StepGateBegin _StepGateNext _StepGateOpen",
    "random.candidate_sampling_ops":
        "AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler "
        "LearnedUnigramCandidateSampler LogUniformCandidateSampler "
        "ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler",
    "random.random_ops":
        "Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal",
    "random.stateless_random_ops":
        "RandomGamma RandomPoisson RandomPoissonV2 StatelessMultinomial StatelessRandomNormal "
        "StatelessRandomUniform StatelessRandomUniformInt StatelessTruncatedNormal",
    "random.stateless_variate_ops":
        "StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomPoisson",
    "reader.reader_ops":
        "FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 "
        "ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted "
        "ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 "
        "ReaderReset ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState "
        "ReaderSerializeStateV2 TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 "
        "WholeFileReader WholeFileReaderV2",
    "reduce.bincount_ops":
        "Bincount Bucketize DenseBincount",
    "reduce.lookup_ops":
        "HistogramFixedWidth LowerBound TensorScatterAdd TensorScatterMax TensorScatterMin "
        "TensorScatterSub UnravelIndex UpperBound",
    "reduce.nth_element_ops":
        "NthElement",
    "reduce.reduction_ops":
        "All Any ArgMax ArgMin Cumprod Cumsum EuclideanNorm Max Mean Min Prod Sum",
    "reduce.segment_ops":
        "SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax "
        "UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum",
    "reduce.top_k_ops":
        "InTopK InTopKV2 TopK TopKV2",
    "reduce.unique_ops":
        "ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2",
    "rnn.ctc_ops":
        "CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss",
    "rnn.gru_ops":
        "GRUBlockCell GRUBlockCellGrad",
    "rnn.gru_steps_ops":
        "_GRU",
    "rnn.lstm_ops":
        "BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 LSTMBlockCell LSTMBlockCellGrad",
    "rnn.lstm_quantized_ops":
        "_DynamicQuantizeLSTM",
    "sparse.set_ops":
        "DenseToDenseSetOperation DenseToSparseSetOperation EditDistance SetSize "
        "SparseToSparseSetOperation",
    "sparse.sparse_cross_ops":
        "SparseCross SparseCrossHashed SparseCrossV2",
    "sparse.sparse_ops":
        "SparseAdd SparseAddGrad SparseConcat SparseDenseCwiseAdd SparseDenseCwiseDiv "
        "SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseMatMul "
        "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse "
        "SparseReorder SparseReshape SparseSlice SparseSliceGrad SparseSoftmax "
        "SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd "
        "SparseTensorDenseMatMul",
    "sparse.sparse_segment_ops":
        "SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments "
        "SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments "
        "SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumWithNumSegments",
    "sparse.sparse_serial_ops":
        "DeserializeManySparse DeserializeSparse SerializeManySparse SerializeSparse",
    "state.critical_section_ops":
        "ConsumeMutexLock MutexLock MutexV2",
    "state.lookup_table_ops":
        "HashTableV2 InitializeTableFromTextFileV2 InitializeTableV2 LookupTableExportV2 "
        "LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableRemoveV2 "
        "LookupTableSizeV2 MutableHashTableV2",
    "state.resource_handles":
        "AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp "
        "DisableCopyOnRead ReadVariableOp ResourceCountUpTo ResourceGather ResourceGatherNd "
        "ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin "
        "ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate "
        "ResourceScatterSub ResourceScatterUpdate VarHandleOp VarIsInitializedOp VariableShape",
    "state.state_ops":
        "Assign AssignAdd AssignSub CountUpTo DestroyTemporaryVariable IsVariableInitialized "
        "ResourceStridedSliceAssign ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul "
        "ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate StridedSliceAssign "
        "TemporaryVariable Variable VariableV2",
    "state.training_ops":
        "ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradV2 ApplyAdam ApplyAddSign "
        "ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum "
        "ApplyPowerSign ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp "
        "ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2 "
        "ResourceApplyAdam ResourceApplyAddSign ResourceApplyCenteredRMSProp ResourceApplyFtrl "
        "ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum "
        "ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad "
        "ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceSparseApplyAdadelta "
        "ResourceSparseApplyAdagrad ResourceSparseApplyAdagradV2 "
        "ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 "
        "ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum "
        "ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent "
        "ResourceSparseApplyRMSProp SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradV2 "
        "SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum "
        "SparseApplyProximalAdagrad SparseApplyProximalGradientDescent SparseApplyRMSProp",
    "strings.string_data_ops":
        "DecodeBase64 DecodeCSV DecodeCompressed DecodePaddedRaw DecodeRaw EncodeBase64 "
        "StringToHashBucket StringToHashBucketFast StringToHashBucketStrong UnicodeDecode "
        "UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode",
    "strings.string_ops":
        "AsString ReduceJoin StringJoin StringToNumber",
    "strings.string_text_ops":
        "RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace StringFormat "
        "StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip StringUpper "
        "StringUpper Substr UnsortedSegmentJoin",
    "strings.unicode_ops":
        "UnicodeScript",
    "summary.summary_ops":
        "AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary "
        "TensorSummary TensorSummaryV2",
    "transfer.file_ops":
        "MatchingFiles ReadFile WriteFile",
    "transfer.logging_ops":
        "Assert Print PrintV2",
    "transfer.script_ops":
        "EagerPyFunc PyFunc PyFuncStateless",
    "transfer.session_ops":
        "DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor",
    "trees.tree_ops":
        "_TreeEnsemble _TreeEnsembleClassifier",
}
