"""slim.model_analyzer: the sizes of a model's variables and operations, printed.

Functions only; they print where print_info says so.  Source: TF 1.15 tf.contrib.slim.

Example:  `slim.model_analyzer.analyze_vars(slim.get_model_variables(), print_info=True)`.
"""


def tensor_description(var):
    """"(float32 2x3)" of a tensor or variable: its dtype and shape, also if unknown; no errors.

    TF: tf.contrib.slim.model_analyzer.tensor_description."""
    shape = var.shape.as_list() if var.shape.ndims is not None else ["<unknown>"]
    sizes = "x".join("?" if size is None else str(size) for size in shape)
    return f"({var.dtype.name} {sizes})"


def analyze_ops(graph, print_info=False):
    """The number of elements of all operations' results whose shapes are known, an int.

    graph: a tf.Graph, else AttributeError. print_info: prints a line for each.
    TF: tf.contrib.slim.model_analyzer.analyze_ops."""
    lines, total = [], 0
    for op in graph.get_operations():
        size = sum(output.shape.num_elements() or 0 for output in op.outputs)
        shapes = ", ".join(tensor_description(o) for o in op.outputs if o.shape)
        lines.append(f"{op.name} \t-> {shapes} [{size}]")
        total += size
    if print_info:
        _print("Operations: name -> (type shapes) [size]", lines)
    return total


def analyze_vars(variables, print_info=False):
    """(elements, bytes) of all variables, of any shape and dtype: two ints.

    AttributeError for what is no variable. print_info: prints a line for each.
    TF: tf.contrib.slim.model_analyzer.analyze_vars.

        >>> _ = tf.get_variable("w", [2, 3])
        >>> tf.contrib.slim.model_analyzer.analyze_vars(tf.global_variables())
        (6, 24)
    """
    lines, total, total_bytes = [], 0, 0
    for var in variables:
        size = var.shape.num_elements() or 0
        count = size * var.dtype.base_dtype.size
        lines.append(f"{var.name} {tensor_description(var)} [{size}, bytes: {count}]")
        total, total_bytes = total + size, total_bytes + count
    if print_info:
        _print("Variables: name (type shape) [size]", lines)
        print(f"Total size of variables: {total}")
        print(f"Total bytes of variables: {total_bytes}")
    return total, total_bytes


def _print(title, lines):
    for line in ("---------", title, "---------", *lines):
        print(line)


PUBLIC = {f"contrib.slim.model_analyzer.{f.__name__}": f
          for f in (tensor_description, analyze_ops, analyze_vars)}
