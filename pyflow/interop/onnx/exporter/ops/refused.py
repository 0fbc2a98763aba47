"""Ops that no model can have, and why."""

from pyflow.interop.onnx.exporter.registry import refuse

refuse("random numbers: ONNX's are others at each run; feed them, or export the graph without "
       "dropout", "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
       "RandomShuffle", "Multinomial", "RandomGamma", "RandomPoisson", "RandomPoissonV2",
       "StatelessRandomUniform", "StatelessRandomNormal", "StatelessRandomUniformInt",
       "StatelessTruncatedNormal", "StatelessMultinomial", "ParameterizedTruncatedNormal",
       "StatelessRandomGammaV2", "StatelessRandomPoisson", "StatelessRandomBinomial")
refuse("a Python function is no part of a model", "PyFunc", "PyFuncStateless", "EagerPyFunc")
refuse("it changes a variable; export what does not train", "Assign", "AssignAdd", "AssignSub",
       "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "CountUpTo",
       "ResourceCountUpTo")
refuse("functions that call themselves cannot be written out", "PartitionedCall",
       "StatefulPartitionedCall", "MapDefun", "SymbolicGradient", "While", "StatelessWhile", "If",
       "StatelessIf", "Case", "StatelessCase")
refuse("files are no part of a model: feed what they hold", "ReadFile", "WriteFile",
       "MatchingFiles", "DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage",
       "DecodeWav", "RestoreV2", "SaveV2")
refuse("messages are no part of a model: feed the tensors that they hold", "ParseExample",
       "ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "ParseSequenceExampleV2",
       "ParseSingleSequenceExample", "ParseTensor", "SerializeTensor", "DecodeJSONExample",
       "ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2")
refuse("ONNX's strings are only compared and moved", "StringToHashBucket",
       "StringToHashBucketFast", "StringToHashBucketStrong", "StringJoin", "ReduceJoin", "AsString",
       "StringToNumber", "StringLength", "StringStrip", "Substr", "StringSplit", "StringSplitV2",
       "RegexReplace", "StaticRegexReplace", "RegexFullMatch", "StaticRegexFullMatch",
       "StringFormat", "StringNGrams", "StringLower", "StringUpper", "UnicodeDecode",
       "UnicodeEncode", "UnicodeTranscode", "UnicodeScript", "DecodeRaw", "DecodeCSV",
       "EncodeBase64", "DecodeBase64")
refuse("tables are not written; look words up before the model", "LookupTableFindV2",
       "LookupTableSizeV2", "HashTableV2")
refuse("export the graph before it is optimized", "_FusedElementwise", "_FusedMatMul",
       "_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMoments")
refuse("ONNX has no complex numbers", "Complex", "Real", "Imag", "Conj", "ComplexAbs", "Angle",
       "FFT", "IFFT", "RFFT", "IRFFT", "FFT2D", "IFFT2D", "RFFT2D", "IRFFT2D")
refuse("ONNX has no op for it", "Cholesky", "MatrixInverse", "MatrixSolve", "Svd", "Qr",
       "SelfAdjointEigV2", "Lu", "MatrixTriangularSolve", "Cumprod", "CumulativeLogsumexp",
       "Dilation2D", "Igamma", "Igammac", "Betainc", "Zeta", "Polygamma", "Bitcast", "CTCLoss",
       "CTCBeamSearchDecoder", "CTCGreedyDecoder", "EditDistance")
