"""Types of pyflow.io.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import io as _io
decode_and_crop_jpeg = _io.decode_and_crop_jpeg
decode_base64 = _io.decode_base64
decode_bmp = _io.decode_bmp
decode_compressed = _io.decode_compressed
decode_csv = _io.decode_csv
decode_gif = _io.decode_gif
decode_image = _io.decode_image
decode_jpeg = _io.decode_jpeg
decode_png = _io.decode_png
decode_raw = _io.decode_raw
deserialize_many_sparse = _io.deserialize_many_sparse
deserialize_sparse = _io.deserialize_sparse
encode_base64 = _io.encode_base64
encode_jpeg = _io.encode_jpeg
encode_png = _io.encode_png
extract_jpeg_shape = _io.extract_jpeg_shape
is_jpeg = _io.is_jpeg
match_filenames_once = _io.match_filenames_once
matching_files = _io.matching_files
read_file = _io.read_file
serialize_many_sparse = _io.serialize_many_sparse
serialize_sparse = _io.serialize_sparse
write_file = _io.write_file
write_graph = _io.write_graph
