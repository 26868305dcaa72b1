"""Vocabulary of a text: a queue-based function for work that may take its time."""

from svc import Endpoint


@Endpoint(name="vocabulary", cpu="cpu3c-1-2", workers=(0, 3), dependencies=["numpy"])
def vocabulary(text: str, top: int = 10) -> dict:
    """Return the distribution of word lengths and the most frequent words of a text."""
    import re
    from collections import Counter

    import numpy as np

    words = re.findall(r"[^\W\d_]+", text.lower())
    if not words:
        raise ValueError("text has no words")
    lengths = np.array([len(word) for word in words])
    counts = Counter(words)
    frequencies = np.array(list(counts.values())) / len(words)
    return {
        "words": len(words),
        "distinct_words": len(counts),
        "word_length": {
            "mean": round(float(lengths.mean()), 2),
            "median": float(np.median(lengths)),
            "p90": float(np.percentile(lengths, 90)),
        },
        "entropy_bits": round(float(-(frequencies * np.log2(frequencies)).sum()), 3),
        "top": [{"word": word, "count": count} for word, count in counts.most_common(top)],
    }
