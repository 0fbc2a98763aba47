"""Types of pyflow.strings.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import strings as _strings
as_string = _strings.as_string
format = _strings.format
join = _strings.join
length = _strings.length
lower = _strings.lower
reduce_join = _strings.reduce_join
regex_full_match = _strings.regex_full_match
regex_replace = _strings.regex_replace
split = _strings.split
strip = _strings.strip
substr = _strings.substr
to_hash_bucket = _strings.to_hash_bucket
to_hash_bucket_fast = _strings.to_hash_bucket_fast
to_hash_bucket_strong = _strings.to_hash_bucket_strong
to_number = _strings.to_number
unicode_decode = _strings.unicode_decode
unicode_decode_with_offsets = _strings.unicode_decode_with_offsets
unicode_encode = _strings.unicode_encode
unicode_script = _strings.unicode_script
unicode_split = _strings.unicode_split
unicode_split_with_offsets = _strings.unicode_split_with_offsets
unicode_transcode = _strings.unicode_transcode
unsorted_segment_join = _strings.unsorted_segment_join
upper = _strings.upper
