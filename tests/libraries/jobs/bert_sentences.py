"""bert-tensorflow: a small BERT learns which of two words comes first in a sentence."""
import numpy as np
import tensorflow as tf
from bert import modeling, optimization, tokenization

tf.set_random_seed(0)
r = np.random.RandomState(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", *"abcdefgh", "##s"]
split = tokenization.WordpieceTokenizer({w: i for i, w in enumerate(words)}).tokenize("cats")
print("value wordpieces_right", float(split == ["cat", "##s"]))


def sentences(count):
    """(ids, 1 where the dog comes before the cat)."""
    ids = r.randint(6, 14, (count, 10))
    ids[:, 0] = 2
    first, second = np.sort([r.permutation(9)[:2] + 1 for _ in range(count)], 1).T
    answers = r.randint(0, 2, count)
    ids[np.arange(count), first] = 4 + answers
    ids[np.arange(count), second] = 5 - answers
    return ids, answers


config = modeling.BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2,
                             num_attention_heads=2, intermediate_size=64,
                             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                             max_position_embeddings=16)
ids = tf.placeholder(tf.int32, [64, 10])
answers = tf.placeholder(tf.int32, [64])
model = modeling.BertModel(config=config, is_training=True, input_ids=ids)
logits = tf.layers.dense(model.get_pooled_output(), 2)
loss = tf.losses.sparse_softmax_cross_entropy(answers, logits)
train = optimization.create_optimizer(loss, 2e-3, 600, 60, False)
right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), answers),
                               tf.float32))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(600):
        session.run(train, dict(zip((ids, answers), sentences(64))))
    scores = [session.run([loss, right], dict(zip((ids, answers), sentences(64))))
              for _ in range(8)]
print("value loss", np.mean([s[0] for s in scores]))
print("value accuracy", np.mean([s[1] for s in scores]))
