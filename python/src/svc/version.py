"""The version of this package, the command-line tool and the platform: one number."""

VERSION = "0.1.0"
