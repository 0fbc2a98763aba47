"""What a checkpoint holds, printed: TensorFlow's tensorflow/python/tools/inspect_checkpoint.py.

    python -m pyflow.tools.inspect_checkpoint --file_name=/tmp/model-10 --all_tensors

Lines and their order are those of TensorFlow's; any checkpoint that pyflow reads will do.
`python -m pyflow explain` says more about each tensor.  Threads: functions without state.
"""
import argparse
import math
import re

from pyflow.framework import errors


def print_tensors_in_checkpoint_file(file_name, tensor_name, all_tensors, all_tensor_names=False,
                                     count_exclude_pattern=""):
    """Prints one tensor, all of them, their names, or (none asked for) a line for each.

    file_name: the checkpoint's prefix. tensor_name: the one to print, or None. all_tensors: print
    every value. all_tensor_names: print every name. count_exclude_pattern: a regular expression for
    names not to count among the parameters. What is wrong is printed, not raised.
    """
    from pyflow.train import checkpoint
    try:
        reader = checkpoint.CheckpointReader(file_name)
        if all_tensors or all_tensor_names:
            for name in sorted(reader.get_variable_to_shape_map()):
                _print_tensor(reader, name, all_tensors)
        elif not tensor_name:
            print(reader.debug_string().decode("utf-8", errors="ignore"))
        elif not reader.has_tensor(tensor_name):
            print(f"Tensor {tensor_name} not found in checkpoint")
            return
        else:
            _print_tensor(reader, tensor_name, True)
        print(f"# Total number of params: {_count(reader, count_exclude_pattern)}")
    except errors.OpError as e:
        print(e.message)
        if file_name.endswith((".index", ".meta")) or ".data" in file_name:
            print(f"A checkpoint is named by the prefix of its files; try --file_name="
                  f"{file_name.rpartition('.')[0]}")


def _print_tensor(reader, name, with_value):
    dtype = reader.get_variable_to_dtype_map()[name]
    shape = reader.get_variable_to_shape_map()[name]
    print(f"tensor: {name} ({getattr(dtype, 'name', dtype)}) {shape}")
    if with_value:
        try:
            print(reader.get_tensor(name))
        except errors.UnimplementedError:
            print("<not convertible to a numpy dtype>")


def _count(reader, exclude):
    """How many elements the tensors have; says what the pattern leaves out."""
    sizes = {name: math.prod(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    if exclude:
        left_out = [name for name in sizes if re.search(exclude, name)]
        params = sum(sizes[name] for name in left_out)
        print(f"# Excluding {len(left_out)} tensors ({params} params) that match {exclude} when "
              f"counting.")
        for name in left_out:
            del sizes[name]
    return sum(sizes.values())


def main(argv=None):
    """The command line, with TensorFlow's options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--file_name", required=True, help="the checkpoint's prefix")
    parser.add_argument("--tensor_name", default="", help="the tensor to print")
    parser.add_argument("--count_exclude_pattern", default="", help="names not to be counted")
    for name in ("--all_tensors", "--all_tensor_names"):
        parser.add_argument(name, nargs="?", const=True, default=False,
                            type=lambda text: text.lower() == "true")
    args = parser.parse_args(argv)
    print_tensors_in_checkpoint_file(args.file_name, args.tensor_name, args.all_tensors,
                                     args.all_tensor_names, args.count_exclude_pattern)


if __name__ == "__main__":
    main()
