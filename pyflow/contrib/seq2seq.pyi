"""Types of pyflow.contrib.seq2seq.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
AttentionMechanism = _contrib.seq2seq.AttentionMechanism
AttentionWrapper = _contrib.seq2seq.AttentionWrapper
AttentionWrapperState = _contrib.seq2seq.AttentionWrapperState
BahdanauAttention = _contrib.seq2seq.BahdanauAttention
BasicDecoder = _contrib.seq2seq.BasicDecoder
BasicDecoderOutput = _contrib.seq2seq.BasicDecoderOutput
BeamSearchDecoder = _contrib.seq2seq.BeamSearchDecoder
BeamSearchDecoderOutput = _contrib.seq2seq.BeamSearchDecoderOutput
BeamSearchDecoderState = _contrib.seq2seq.BeamSearchDecoderState
CustomHelper = _contrib.seq2seq.CustomHelper
Decoder = _contrib.seq2seq.Decoder
FinalBeamSearchDecoderOutput = _contrib.seq2seq.FinalBeamSearchDecoderOutput
GreedyEmbeddingHelper = _contrib.seq2seq.GreedyEmbeddingHelper
Helper = _contrib.seq2seq.Helper
InferenceHelper = _contrib.seq2seq.InferenceHelper
LuongAttention = _contrib.seq2seq.LuongAttention
SampleEmbeddingHelper = _contrib.seq2seq.SampleEmbeddingHelper
ScheduledEmbeddingTrainingHelper = _contrib.seq2seq.ScheduledEmbeddingTrainingHelper
TrainingHelper = _contrib.seq2seq.TrainingHelper
dynamic_decode = _contrib.seq2seq.dynamic_decode
gather_tree = _contrib.seq2seq.gather_tree
hardmax = _contrib.seq2seq.hardmax
sequence_loss = _contrib.seq2seq.sequence_loss
tile_batch = _contrib.seq2seq.tile_batch
