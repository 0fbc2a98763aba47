"""gpflow: Gaussian process regression; likelihood and prediction beside the formulas in NumPy."""
import gpflow
import numpy as np

r = np.random.RandomState(0)
x = r.rand(30, 1)
y = np.sin(12 * x) + 0.1 * r.randn(30, 1)
new = np.linspace(0, 1, 7)[:, None]
model = gpflow.models.GPR(x, y, kern=gpflow.kernels.RBF(1, lengthscales=0.3))


def by_numpy(length, variance, noise):
    """(log likelihood, mean, variance of y at `new`)."""
    def kernel(a, b):
        return variance * np.exp(-0.5 * (a - b.T) ** 2 / length ** 2)
    k = kernel(x, x) + noise * np.eye(len(x))
    weights = np.linalg.solve(k, y)
    likelihood = (-0.5 * (y.T @ weights).item() - 0.5 * np.linalg.slogdet(k)[1]
                  - 0.5 * len(x) * np.log(2 * np.pi))
    across = kernel(x, new)
    spread = variance + noise - np.sum(across * np.linalg.solve(k, across), 0)
    return likelihood, across.T @ weights, spread[:, None]


before = model.compute_log_likelihood()
off = abs(before - by_numpy(0.3, 1.0, 1.0)[0])
gpflow.train.ScipyOptimizer().minimize(model)
after = model.compute_log_likelihood()
kern = model.kern
wanted = by_numpy(kern.lengthscales.value.item(), kern.variance.value.item(),
                  model.likelihood.variance.value.item())
mean, variance = model.predict_y(new)
off = max(off, abs(after - wanted[0]), np.abs(mean - wanted[1]).max(),
          np.abs(variance - wanted[2]).max())
print("value off_numpy", off)
print("value likelihood_gain", after - before)
print("value mean_error", np.abs(mean - np.sin(12 * new)).max())
