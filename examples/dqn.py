"""Deep Q-learning (Mnih et al. 2015) of a small game, with a memory of moves to learn from and a
second network, updated now and then, that says what the next position is worth.

    python examples/dqn.py                      # a board of 20 x 16
    python examples/dqn.py --show               # and a game at its end, drawn with letters

The game is Catch: fruit falls, one after the other, drifting with the wind, and a paddle of three
cells moves left, stays or moves right; a fruit caught gives 1, one missed takes 1.  The network
sees the board as it is and as it was a step before, as pixels.  The figure is the mean reward of a
fruit: 1 at best; moves at random reach -0.62, the 10000 steps 0.998 in half a minute.
"""

import numpy as np

import datasets
import pyflow as tf
from pyflow import progress

MOVES = 3


class Catch:
    """`games` boards at once: float32 [games, height, width, 2], now and a step ago."""

    def __init__(self, games, height, width, random):
        self.games, self.height, self.width, self.random = games, height, width, random
        self.row = random.integers(0, height - 1, games)
        self.column, self.wind = random.integers(0, width, games), random.integers(-1, 2, games)
        self.paddle = random.integers(1, width - 1, games)
        self.before = self.now = self.picture()

    def picture(self):
        board, each = np.zeros([self.games, self.height, self.width], np.float32), range(self.games)
        board[each, self.row, self.column] = 1
        for cell in (-1, 0, 1):
            board[each, -1, self.paddle + cell] = 1
        return board

    def boards(self):
        return np.stack([self.now, self.before], -1)

    def move(self, moves):
        """(rewards, whether the fruit has come down) of moves 0, 1, 2: left, stay, right."""
        self.paddle = np.clip(self.paddle + moves - 1, 1, self.width - 2)
        self.row = self.row + 1
        drifted = self.column + np.where(self.row % 2, self.wind, 0)
        self.wind = np.where((drifted < 0) | (drifted >= self.width), -self.wind, self.wind)
        self.column = np.clip(drifted, 0, self.width - 1)
        down = self.row == self.height - 1
        rewards = np.where(down, np.where(abs(self.column - self.paddle) <= 1, 1, -1), 0)
        self.before, self.now = self.now, self.picture()
        self.row = np.where(down, 0, self.row)
        fresh = self.random.integers(0, self.width, self.games)
        self.column = np.where(down, fresh, self.column)
        self.wind = np.where(down, self.random.integers(-1, 2, self.games), self.wind)
        return np.float32(rewards), down


class Memory:
    """The last `size` moves of all games, and random batches of them."""

    def __init__(self, size, shape):
        number = (), np.float32
        kinds = [(shape, np.uint8), ((), np.int32), number, number, (shape, np.uint8)]
        self.columns = [np.zeros([size, *rest], kind) for rest, kind in kinds]
        self.size, self.seen = size, 0

    def add(self, *rows):
        at = (self.seen + np.arange(len(rows[0]))) % self.size
        for column, values in zip(self.columns, rows):
            column[at] = values
        self.seen += len(at)

    def batch(self, count, random):
        at = random.integers(0, min(self.seen, self.size), count)
        return [column[at] for column in self.columns]


def values(boards, units, name):
    """What each move is worth, [n, MOVES]."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        x = tf.cast(boards, tf.float32)
        x = tf.layers.conv2d(x, 16, 3, 2, padding="same", activation=tf.nn.relu, name="conv1")
        x = tf.layers.conv2d(x, 32, 3, 2, padding="same", activation=tf.nn.relu, name="conv2")
        x = tf.layers.dense(tf.layers.flatten(x), units, tf.nn.relu, name="hidden")
        return tf.layers.dense(x, MOVES, name="values")


class Player:
    """The graph: `boards` -> `moves`, `train_op` on the five columns of a memory, `copy`."""

    def __init__(self, shape, asked):
        with tf.name_scope("memory"):
            self.boards = tf.placeholder(tf.uint8, [None, *shape], "boards")
            self.moved = tf.placeholder(tf.int32, [None], "moved")
            self.rewards = tf.placeholder(tf.float32, [None], "rewards")
            self.ended = tf.placeholder(tf.float32, [None], "ended")
            self.after = tf.placeholder(tf.uint8, [None, *shape], "after")
        worth = values(self.boards, asked.units, "online")
        self.moves = tf.argmax(worth, 1)
        chosen = tf.reduce_sum(worth * tf.one_hot(self.moved, MOVES), 1)
        # The online network chooses the next move, the other says its worth (van Hasselt 2015).
        best = tf.one_hot(tf.argmax(values(self.after, asked.units, "online"), 1), MOVES)
        later = tf.reduce_sum(best * values(self.after, asked.units, "target"), 1)
        wanted = tf.stop_gradient(self.rewards + asked.discount * (1.0 - self.ended) * later)
        self.loss = tf.losses.huber_loss(wanted, chosen)
        self.step = tf.train.get_or_create_global_step()
        online = tf.trainable_variables("online")
        self.train_op = tf.train.AdamOptimizer(asked.rate).minimize(
            self.loss, self.step, var_list=online)
        pairs = zip(tf.global_variables("target"), online)
        self.copy = tf.group(*[tf.assign(target, source) for target, source in pairs])


def played(session, player, asked, fruits, show=False):
    """The mean reward of at least `fruits` fruits, each game's first left out."""
    game = Catch(50, *asked.board, np.random.default_rng(asked.seed + 1))
    got, seen = 0.0, np.zeros(50, int)
    while np.maximum(seen - 1, 0).sum() < fruits:
        rewards, down = game.move(session.run(player.moves, {player.boards: game.boards()}))
        got += rewards[seen > 0].sum()
        seen += down
        if show and seen[0] == 1:
            print("\n".join("".join(".#"[int(c)] for c in row) for row in game.now[0]), "\n")
    return got / (seen - 1).sum()


def main(arguments=None):
    parser = datasets.Parser(description=__doc__.split(" (", 1)[0])
    parser.add_argument("--board", type=int, nargs=2, default=[20, 16], help="height and width")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--games", type=int, default=8, help="played at once; one move each a step")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--rate", type=float, default=5e-4, help="Adam's")
    parser.add_argument("--discount", type=float, default=0.95)
    parser.add_argument("--memory", type=int, default=20000)
    parser.add_argument("--show", action="store_true", help="draw a fruit's fall at the end")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    random = np.random.default_rng(asked.seed)
    tf.set_random_seed(asked.seed)
    player = Player([*asked.board, 2], asked)
    game = Catch(asked.games, *asked.board, random)
    memory = Memory(asked.memory, [*asked.board, 2])

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in progress.steps(range(asked.steps), "playing"):
            before = game.boards()
            moves = session.run(player.moves, {player.boards: before})
            by_chance = random.random(asked.games) < max(0.05, 1 - 2 * step / asked.steps)
            moves = np.where(by_chance, random.integers(0, MOVES, asked.games), moves)
            rewards, down = game.move(moves)
            memory.add(before, moves, rewards, down, game.boards())
            if step % 200 == 0:
                session.run(player.copy)
            columns = memory.batch(asked.batch, random)
            fed = [player.boards, player.moved, player.rewards, player.ended, player.after]
            _, loss = session.run([player.train_op, player.loss], dict(zip(fed, columns)))
            if step % 1000 == 999:
                progress.line(f"step {step + 1:5d}  loss {loss:.4f}  reward of a fruit"
                              f" {played(session, player, asked, 500):.2f}")
        found = played(session, player, asked, 2000, asked.show)
    print(f"mean reward {found:.3f} a fruit")
    return found


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
