"""The way to the platform: frames, the connection that carries them, TLS, and waiting without sleep."""
