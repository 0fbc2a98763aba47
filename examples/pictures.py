"""Pictures that the examples write: images in rows, words on a map, heat of a matrix.

pictures.write("sampled.png", images, columns=10)     # float [n, height, width, 1 or 3], 0..1
at = pictures.tsne(vectors, seed=0)                   # [n, 2], neighbours beside each other
pictures.scatter("words.svg", words, at)
pictures.matrix("attention.svg", weights, rows, columns)
"""
import html

import numpy as np

import pyflow as tf


def write(path, images, columns):
    """A PNG file of the images, `columns` of them in a row."""
    around = [(0, -len(images) % columns), (1, 1), (1, 1), (0, 0)]
    images = np.pad(images, around, constant_values=0.5)
    n, height, width, channels = images.shape
    rows = images.reshape(n // columns, columns, height, width, channels).swapaxes(1, 2)
    whole = rows.reshape(n // columns * height, columns * width, channels)
    with tf.Graph().as_default(), tf.Session() as session:
        png = session.run(tf.image.encode_png(np.uint8(np.rint(whole * 255))))
    with open(path, "wb") as file:
        file.write(png)
    print(f"wrote {path}")


def _affinities(vectors, perplexity):
    """Symmetric probabilities of being neighbours; each row's entropy is log(perplexity)."""
    far = np.square(vectors[:, None] - vectors).sum(-1)
    np.fill_diagonal(far, np.inf)
    low, high, beta = np.zeros(len(far)), np.full(len(far), np.inf), np.ones(len(far))
    for _ in range(50):
        p = np.exp(-(far - far.min(1, keepdims=True)) * beta[:, None])
        p /= p.sum(1, keepdims=True)
        wide = -(p * np.log(np.maximum(p, 1e-12))).sum(1) > np.log(perplexity)
        low, high = np.where(wide, beta, low), np.where(wide, high, beta)
        beta = np.where(np.isinf(high), beta * 2, (low + high) / 2)
    return (p + p.T) / p.sum() / 2


def tsne(vectors, seed, perplexity=12, steps=600):
    """Places [n, 2] such that neighbours stay neighbours (van der Maaten and Hinton 2008)."""
    p = _affinities(np.float64(vectors), perplexity)
    at = np.random.default_rng(seed).normal(0, 1e-4, [len(p), 2])
    speed = np.zeros_like(at)
    for step in range(steps):
        apart = at[:, None] - at
        near = 1 / (1 + np.square(apart).sum(-1))
        np.fill_diagonal(near, 0)
        pull = p * (12 if step < 100 else 1) - near / near.sum()
        slope = 4 * ((pull * near)[..., None] * apart).sum(1)
        speed = (0.5 if step < 100 else 0.8) * speed - 20 * slope
        at = at + speed - at.mean(0)
    return at


def _svg(path, width, height, body):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                   'font-family="sans-serif" font-size="11">\n'
                   '<rect width="100%" height="100%" fill="white"/>\n'
                   f'{body}\n</svg>\n')
    print(f"wrote {path}")


def _unhidden(places, words):
    """The places, moved up and down until no word covers another."""
    reach = np.array([3.2 * len(word) + 1 for word in words])
    order = np.sign(np.arange(len(words))[:, None] - np.arange(len(words)))
    for _ in range(200):
        across, down = (places[:, None, k] - places[:, k] for k in (0, 1))
        covered = (abs(across) < reach[:, None] + reach) & (abs(down) < 11)
        np.fill_diagonal(covered, False)
        places[:, 1] += (covered * np.where(down == 0, order, np.sign(down))).sum(1)
    return places


def scatter(path, words, places, width=900, height=700):
    """An SVG file of the words, each near its place [n, 2]."""
    places = (places - places.min(0)) / np.ptp(places, axis=0)
    places = _unhidden(np.rint(places * [width - 80, height - 50] + [40, 30]), words).astype(int)
    _svg(path, width, height, "\n".join(
        f'<text x="{x}" y="{y}" text-anchor="middle">{html.escape(word)}</text>'
        for word, (x, y) in zip(words, places)))


def matrix(path, values, rows, columns, cell=22):
    """An SVG file of a matrix [rows, columns] of numbers in 0..1: the darker, the higher."""
    labels = [f'<text x="{cell - 4}" y="{(k + 1.75) * cell:.0f}" text-anchor="end">'
              f'{html.escape(row)}</text>' for k, row in enumerate(rows)]
    labels += [f'<text x="{(k + 1.5) * cell:.0f}" y="{cell - 6}" text-anchor="middle">'
               f'{html.escape(column)}</text>' for k, column in enumerate(columns)]
    cells = [f'<rect x="{(k + 1) * cell}" y="{(r + 1) * cell}" width="{cell}" height="{cell}" '
             f'fill="#1f4e8c" fill-opacity="{value:.2f}"/>'
             for r, row in enumerate(values) for k, value in enumerate(row) if value > 0.01]
    _svg(path, (len(columns) + 2) * cell, (len(rows) + 2) * cell, "\n".join(labels + cells))
