"""Programs with Defun functions, for pyflow and TensorFlow: each gives (fetches, feeds).

    make(tf, function)          # function: TensorFlow's or pyflow's python.framework.function
"""
PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def two_results(tf, function):
    @function.Defun(tf.float32, tf.float32, func_name="SumSplit")
    def f(x, Y):
        with tf.name_scope("Sc"):
            z = tf.add(x, Y, name="Add")
        return z, tf.split(z, 2)[1], x
    a = tf.placeholder(tf.float32, [4], name="a")
    b = tf.constant([1., 2., 3., 4.], name="b")
    r = f(a, b, name="mycall")
    return [*r, *tf.gradients([r[0] * r[2], r[1]], [a, b])], {"a:0": [3., 1., -2., 5.]}


@program
def nested_and_captured(tf, function):
    k = tf.constant([2., -1.], name="K")

    @function.Defun(tf.float32, func_name="Inner")
    def inner(x):
        return tf.square(x) * k

    @function.Defun(tf.float32, func_name="Outer", noinline=True)
    def outer(x):
        return inner(x) + inner(x + k)
    a = tf.placeholder(tf.float32, [2], name="a")
    y = outer(a)
    return [y, *tf.gradients(y, [a, k])], {"a:0": [3., 4.]}


@program
def no_arguments_no_results(tf, function):
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(1.), use_resource=True)

    @function.Defun(func_name="Bump", capture_resource_var_by_value=False)
    def bump():
        v.assign_add(2., read_value=False)

    @function.Defun(func_name="Two")
    def two():
        return tf.constant(2.)
    with tf.control_dependencies([tf.global_variables_initializer()]):
        op = bump()
    with tf.control_dependencies([op]):
        return [v.read_value() * two()], {}


@program
def integers(tf, function):
    @function.Defun(tf.float32, tf.int32, func_name="Integers")
    def f(x, i):
        return x * tf.cast(i, tf.float32), i + 1
    a = tf.placeholder(tf.float32, [3], name="a")
    i = tf.constant([2, 0, 2])
    y, j = f(a, i)
    return [y, j, tf.gradients(y * [1., 2., 3.], a)[0]], {"a:0": [1., 2., 3.]}


@program
def unconnected(tf, function):
    @function.Defun(tf.float32, tf.float32, func_name="First")
    def f(x, y):
        return x * 2.
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.constant([5., 6.])
    return list(tf.gradients(f(a, b), [a, b])), {"a:0": [1., 2.]}


@program
def own_gradient(tf, function):
    @function.Defun(tf.float32, tf.float32, func_name="SoftGrad")
    def grad(x, dy):
        return dy * 10. * x

    @function.Defun(tf.float32, func_name="Soft", grad_func=grad)
    def f(x):
        return tf.exp(x)
    a = tf.placeholder(tf.float32, [2], name="a")
    y = f(a)
    return [y, tf.gradients(y, a)[0]], {"a:0": [0., 1.]}


@program
def python_gradient(tf, function):
    def grad(op, dy):
        return dy * 7.

    @function.Defun(tf.float32, func_name="Seven", python_grad_func=grad)
    def f(x):
        return tf.sin(x)

    @function.Defun(tf.float32, func_name="Around")
    def g(x):
        return f(x * 2.) * x
    a = tf.placeholder(tf.float32, [2], name="a")
    return [f(a), tf.gradients(f(a), a)[0]], {"a:0": [0., 1.]}


@program
def overloaded(tf, function):
    @function.Defun(func_name="Twice")
    def f(x):
        return x + x
    return [f(tf.constant([1, 2])), f(tf.constant(1.5)), f(tf.constant([3, 4]))], {}


@program
def names(tf, function):
    @function.Defun(tf.float32, tf.float32, func_name="Named", out_names=["total", "rest"],
                    shape_func=lambda op: [op.inputs[0].shape, op.inputs[1].shape])
    def f(x, y):
        """What it says."""
        return x + y, x - y
    total, rest = f(tf.constant([1., 2.]), tf.constant([3., 5.]))
    assert total.shape.as_list() == [2] and rest.shape.as_list() == [2]
    return [total, rest], {}


@program
def captured_by_value(tf, function):
    k = tf.constant([2., 3.], name="K") * 2.

    @function.Defun(tf.float32, func_name="ByValue", capture_by_value=True)
    def f(x):
        return x * k + k
    y = f(tf.constant([1., 10.]))
    assert not f.captured_inputs and len(y.op.inputs) == 1
    return [y], {}


@program
def branches(tf, function):
    @function.Defun(tf.float32, tf.bool, func_name="Branches")
    def f(x, p):
        return tf.cond(p, lambda: x * x, lambda: tf.reduce_sum(x) + x)
    a = tf.placeholder(tf.float32, [2], name="a")
    return [f(a, tf.constant(True)), f(a, tf.constant(False))], {"a:0": [3., 4.]}


@program
def loop(tf, function):
    @function.Defun(tf.float32, tf.int32, func_name="Power")
    def f(x, n):
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x),
                             [tf.constant(0), tf.ones_like(x)])[1]
    a = tf.placeholder(tf.float32, [2], name="a")
    return [f(a, tf.constant(3)), f(a, tf.constant(0))], {"a:0": [3., 4.]}


@program
def call_in_a_loop(tf, function):
    @function.Defun(tf.float32, func_name="Step", shape_func=lambda op: [op.inputs[0].shape])
    def f(x):
        return tf.tanh(x) * 2. + 1.
    a = tf.placeholder(tf.float32, [2], name="a")
    y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, f(y)), [tf.constant(0), a])[1]
    return [y, tf.gradients(y, a)[0]], {"a:0": [.3, -.4]}


@program
def call_in_a_branch(tf, function):
    @function.Defun(tf.float32, func_name="Cube")
    def f(x):
        return x * x * x

    @function.Defun(func_name="Nine")
    def nine():
        return tf.constant([9., 9.])
    a = tf.placeholder(tf.float32, [2], name="a")
    fetches = []
    for limit in (5., 50.):
        y = tf.cond(tf.reduce_sum(a) < limit, lambda: f(a), lambda: nine() - a)
        fetches += [y, tf.gradients(y, a)[0]]
    return fetches, {"a:0": [3., 4.]}


@program
def variables_by_value(tf, function):
    @function.Defun(tf.float32, func_name="Layer")
    def f(x):
        with tf.variable_scope("layer"):
            w = tf.get_variable("w", [2], initializer=tf.constant_initializer(3.))
            b = tf.get_variable("b", [2], initializer=tf.constant_initializer(4.),
                                use_resource=True)
        return x * w + b
    a = tf.placeholder(tf.float32, [2], name="a")
    y = f(a) + f(a * 2.)
    v = tf.global_variables()
    assert [x.name for x in v] == ["layer/w:0", "layer/b:0"], v
    with tf.control_dependencies([x.initializer for x in v]):
        go = tf.no_op()
    return [y, *tf.gradients(y, v)], {"a:0": [1., 2.]}, go


@program
def second_gradient(tf, function):
    @function.Defun(tf.float32, func_name="Fourth")
    def f(x):
        return x * x * x * x
    a = tf.placeholder(tf.float32, [2], name="a")
    first, = tf.gradients(f(a), a)
    return [first], {"a:0": [1., 2.]}


def signatures(graph_def):
    """[(function, arguments, results, ops of its nodes)] of a library, sorted."""
    found = []
    for f in graph_def.library.function:
        s = f.signature
        found.append([s.name, [a.name for a in s.input_arg], [a.name for a in s.output_arg],
                      sorted(f.ret), s.description])
    return sorted(f for f in found if "grad" not in f[0].lower() or f[0] == "SoftGrad")


def calls(graph_def):
    """[(node, op, inputs, attributes)] of the nodes that call functions."""
    functions = {f.signature.name for f in graph_def.library.function}
    return [[n.name, n.op, list(n.input), sorted(n.attr)] for n in graph_def.node
            if n.op in functions and not n.name.startswith("gradients")]
