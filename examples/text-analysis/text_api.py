"""The public API: text statistics on a load-balanced CPU endpoint."""

from svc import Endpoint

VERSION = "1.0.0"
SENTENCE_ENDS = ".!?"

api = Endpoint(name="text_api", cpu="cpu3c-1-2", workers=(0, 3), idle_timeout=300)


@api.get("/health")
def health() -> dict:
    """Tell that the service answers."""
    return {"status": "healthy", "service": "text-analysis", "version": VERSION}


@api.get("/info")
def info() -> dict:
    """Describe the API."""
    return {
        "name": "Text analysis",
        "version": VERSION,
        "endpoints": [
            {"method": "GET", "path": "/health", "description": "Health check"},
            {"method": "GET", "path": "/info", "description": "This description"},
            {"method": "POST", "path": "/analyze", "description": "Statistics of a text"},
            {"method": "POST", "path": "/sentiment", "description": "Sentiment of a text (GPU endpoint)"},
        ],
    }


@api.post("/analyze")
def analyze(text: str) -> dict:
    """Count words, characters and sentences of a text."""
    words = text.split()
    letters = sum(len(word) for word in words)
    return {
        "text": text,
        "statistics": {
            "word_count": len(words),
            "character_count": len(text),
            "average_word_length": round(letters / len(words), 2) if words else 0.0,
            "sentence_count": sum(text.count(end) for end in SENTENCE_ENDS),
        },
    }
