"""tf.contrib.learn.preprocessing: documents as rows of word numbers.

    processor = tf.contrib.learn.preprocessing.VocabularyProcessor(4)
    rows = np.array(list(processor.fit_transform(["I am here", "am I"])))
    # [[1, 2, 3, 0], [2, 1, 0, 0]]

Invariants
    1. Number 0 is the unknown word, and fills rows; others come in the order of first appearance.
    2. A frozen vocabulary takes no new word; `fit` freezes, and drops rare words if asked to.
    3. Saved vocabularies are JSON; TensorFlow's are pickles, which are not read.

Threads: one at a time.
"""
import json
import re

import numpy as np

_TOKENS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def tokenizer(iterator):
    """The words of each text: letters, digits, underscores, apostrophes and hyphens; where capitals
    meet, a new word.
    [n] strings give n lists of words; never an error.
    """
    for text in iterator:
        yield _TOKENS.findall(text)


class CategoricalVocabulary:
    """Words and their numbers.  TF: contrib.learn.preprocessing.CategoricalVocabulary."""

    def __init__(self, unknown_token="<UNK>", support_reverse=True):
        """unknown_token: word number 0. support_reverse: whether `reverse` is wanted."""
        self._unknown_token = unknown_token
        self._support_reverse = support_reverse
        self._mapping = {unknown_token: 0}
        self._reverse_mapping = [unknown_token]
        self._freq, self._freeze = {}, False

    def __repr__(self):
        return f"<tf.contrib.learn.preprocessing.CategoricalVocabulary of {len(self)} words>"

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        """Takes no new word, or does again."""
        self._freeze = freeze

    def get(self, category):
        """A word's number: 0 for an unknown word of a frozen vocabulary, else a new one."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category, count=1):
        """Counts a word.  It gets a number."""
        if self.get(category) > 0:
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency, max_frequency=-1):
        """Keeps the words that occur more than min_frequency times and less than max_frequency (-1:
        no limit), numbered by how often, equally frequent ones by the alphabet."""
        by_name = sorted(self._freq.items(), key=lambda item: (isinstance(item[0], str), item[0]))
        counted = sorted(by_name, key=lambda item: item[1], reverse=True)
        kept = [item for item in counted if item[1] > min_frequency and (
            max_frequency <= 0 or item[1] < max_frequency)]
        self._reverse_mapping = [self._unknown_token, *(word for word, _ in kept)]
        self._mapping = {word: number for number, word in enumerate(self._reverse_mapping)}
        self._freq = dict(kept)

    def reverse(self, class_id):
        """The word of a number.  ValueError unless support_reverse."""
        if not self._support_reverse:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support "
                             "reverse() function.")
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Documents as int64 rows of word numbers.  TF: contrib.learn.preprocessing.VocabularyProcessor."""

    def __init__(self, max_document_length, min_frequency=0, vocabulary=None, tokenizer_fn=None):
        """max_document_length: of a row; longer documents are cut. min_frequency: of the words that
        are kept. vocabulary: a CategoricalVocabulary. tokenizer_fn: texts -> lists of words."""
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def __repr__(self):
        return (f"<tf.contrib.learn.preprocessing.VocabularyProcessor of {self.max_document_length} "
                f"words a document>")

    def fit(self, raw_documents, unused_y=None):
        """Learns the words of documents, then freezes.  Returns self."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None):
        """fit, then transform of the same documents, which are gone through twice."""
        documents = list(raw_documents)
        self.fit(documents)
        return self.transform(documents)

    def transform(self, raw_documents):
        """Yields a row [max_document_length] of int64 for each document."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for at, word in enumerate(words[:self.max_document_length]):
                row[at] = self.vocabulary_.get(word)
            yield row

    def reverse(self, documents):
        """Yields the text of each row of numbers, zeros included."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename):
        """Writes the processor, without its tokenizer, as JSON."""
        v = self.vocabulary_
        with open(filename, "w", encoding="utf-8") as file:
            json.dump({"pyflow_vocabulary": 1, "max_document_length": self.max_document_length,
                       "min_frequency": self.min_frequency, "words": v._reverse_mapping,
                       "counts": v._freq, "frozen": v._freeze}, file)

    @classmethod
    def restore(cls, filename):
        """The processor that `save` wrote.  ValueError for another file: TensorFlow's are pickles,
        which can run code and are not read."""
        try:
            with open(filename, encoding="utf-8") as file:
                saved = json.load(file)
            words, counts = [str(w) for w in saved["words"]], dict(saved["counts"])
            made = cls(int(saved["max_document_length"]), int(saved["min_frequency"]),
                       CategoricalVocabulary(words[0]))
        except (ValueError, KeyError, TypeError, IndexError) as e:
            raise ValueError(f"{filename} is not a vocabulary that VocabularyProcessor.save of pyflow "
                             f"wrote (TensorFlow's are pickles, which are not read): {e}") from e
        for word in words[1:]:
            made.vocabulary_.get(word)
        made.vocabulary_._freq = {str(word): int(count) for word, count in counts.items()}
        made.vocabulary_.freeze(bool(saved.get("frozen", True)))
        return made


PUBLIC = {
    "contrib.learn.preprocessing.VocabularyProcessor": VocabularyProcessor,
    "contrib.learn.preprocessing.CategoricalVocabulary": CategoricalVocabulary,
    "contrib.learn.preprocessing.tokenizer": tokenizer,
}
