"""Types of pyflow.summary.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import summary as _summary
Event = _summary.Event
FileWriter = _summary.FileWriter
FileWriterCache = _summary.FileWriterCache
SessionLog = _summary.SessionLog
Summary = _summary.Summary
SummaryDescription = _summary.SummaryDescription
TaggedRunMetadata = _summary.TaggedRunMetadata
audio = _summary.audio
get_summary_description = _summary.get_summary_description
histogram = _summary.histogram
image = _summary.image
merge = _summary.merge
merge_all = _summary.merge_all
scalar = _summary.scalar
tensor_summary = _summary.tensor_summary
text = _summary.text
